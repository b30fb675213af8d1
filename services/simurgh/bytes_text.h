#pragma once

#include <cstddef>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"

namespace simurgh {

// "1.5 GiB"
inline std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, kUnits[unit]);
}

}  // namespace simurgh
