#pragma once

namespace simurgh {

// The release, as in CMakeLists.txt.
const char* Version();

}  // namespace simurgh
