#pragma once

#include <string>

#include "simurgh/config/cluster_config.h"

namespace simurgh {

// What the processes of a cluster must agree on, as lines "key = value" for SettingsDifference: the
// settings of a configuration as it was read, and the defaults. Folders of files may differ between
// machines, so files count by name.

// All daemons: cluster, tables without learning rates, features, the numbers of servers and
// partitions. At most kMaxAgreementBytes, as LoadClusterConfig checks.
std::string ClusterAgreement(const ClusterConfig& config);
inline constexpr size_t kMaxAgreementBytes = size_t{256} << 10;

// Loaders and ranks, besides: what decides which batches the training files give. Includes sizes of
// training files, contents of plug-ins and fitted statistics, which the configuration must have.
// Cost: reads the plug-ins' files.
std::string InputAgreement(const ClusterConfig& config);

// Ranks, besides: InputAgreement, model, training, learning rates and the number of loaders.
std::string TrainingAgreement(const ClusterConfig& config);

}  // namespace simurgh
