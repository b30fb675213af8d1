#include "services/runtime/log_limiter.h"

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

TEST_CASE("a flood of lines is limited to a burst and one line per interval, and counted") {
  LogLimiter limiter(3, 1s);
  const LogLimiter::Clock::time_point start = LogLimiter::Clock::now();
  for (int i = 0; i < 3; ++i) CHECK(limiter.Admit(start) == 0u);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(limiter.Admit(start + 900ms).has_value());
  CHECK(limiter.Admit(start + 1s) == 5u);
  CHECK_FALSE(limiter.Admit(start + 1999ms).has_value());
  CHECK(limiter.Admit(start + 2s) == 1u);

  // A long quiet time earns no more than the first lines.
  const auto later = start + 1000s;
  for (int i = 0; i < 3; ++i) CHECK(limiter.Admit(later) == 0u);
  CHECK_FALSE(limiter.Admit(later).has_value());
}

}  // namespace
}  // namespace simurgh
