#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/support/temporary_folder.h"

namespace simurgh::testing {

// A place for a model: in the folder, or in the bucket that SIMURGH_TEST_BUCKET names. There the
// folder's name keeps tests apart. See with_bucket.sh.
inline std::string ModelPath(const TemporaryFolder& folder, std::string_view name) {
  const char* const bucket = std::getenv("SIMURGH_TEST_BUCKET");
  const std::string path = folder.Path(name);
  if (bucket == nullptr) return path;
  return bucket + path.substr(path.rfind('/', path.size() - name.size() - 2));
}

}  // namespace simurgh::testing
