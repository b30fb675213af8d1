#include "base/version.h"

namespace simurgh {

const char* Version() { return SIMURGH_VERSION; }

}  // namespace simurgh
