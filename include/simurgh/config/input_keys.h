#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/config/cluster_config.h"

namespace simurgh {

// A key of the configuration and a hash of its value, so that two processes can tell which differ.
struct InputKey {
  std::string key;  // As in config/README.md, with the name of what it describes.
  uint64_t digest = 0;

  bool operator==(const InputKey&) const = default;
};

// What decides, beside AgreementHash, which batches the training files give: everything of `data`
// but the files of evaluations and max_bad_rows, the content of plug-ins, fitted statistics (as far
// as they have been fitted), and what `training` says of batches. Of training files it has names
// and sizes; folders may differ.
//
// Cost: reads the plug-ins' files. One that cannot be read is like no other process's.
std::vector<InputKey> InputKeys(const ClusterConfig& config);

// The keys that differ, or that only one of the two has; those of `ours` first.
std::vector<std::string> DifferingKeys(const std::vector<InputKey>& ours,
                                       const std::vector<InputKey>& theirs);

}  // namespace simurgh
