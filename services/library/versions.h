#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "predict/served_versions.h"
#include "simurgh/simurgh.h"

namespace simurgh {

// The arrays of a simurgh_checkpoints.
//
// Threads: immutable after Read().
class VersionsView {
 public:
  // Reads the manifests of a model's folder. used: step of the version in use. refused: versions
  // that a server of the model could not use.
  // Errors: those of ModelDirectory::Steps().
  static StatusOr<VersionsView> Read(const std::string& path, uint64_t used,
                                     const std::vector<ServedVersions::Refused>& refused);

  const std::vector<simurgh_checkpoint>& get() const { return versions_; }

 private:
  std::vector<simurgh_checkpoint> versions_;
  std::vector<std::string> problems_;  // Texts of versions_. Their addresses stay in a move.
};

}  // namespace simurgh
