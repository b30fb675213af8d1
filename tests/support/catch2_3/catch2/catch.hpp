// The names of Catch2 2 that tests use, for Catch2 3. Programs are compiled with it if CMake finds
// Catch2 3.
#pragma once

#include <cstdint>
#include <string>

#include <catch2/catch_all.hpp>

namespace Catch {

using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::Matches;
using Matchers::StartsWith;

inline auto Contains(const std::string& text, CaseSensitive sensitivity = CaseSensitive::Yes) {
  return Matchers::ContainsSubstring(text, sensitivity);
}

struct TestEventListenerBase : EventListenerBase {
  using EventListenerBase::EventListenerBase;
};

inline std::uint32_t rngSeed() { return getSeed(); }

}  // namespace Catch

using Catch::Approx;
