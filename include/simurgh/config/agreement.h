#pragma once

#include <string>

#include "simurgh/config/cluster_config.h"

namespace simurgh {

// Settings that the processes of a cluster must share, defaults included, as lines "key = value"
// for SettingsDifference. Folders may differ between machines, so files count by name.

// All daemons: cluster, tables without learning rates, features, the numbers of servers and
// partitions. At most kMaxAgreementBytes, as LoadClusterConfig checks.
std::string ClusterAgreement(const ClusterConfig& config);
inline constexpr size_t kMaxAgreementBytes = size_t{256} << 10;

// Also loaders and ranks: settings that determine the batches of the training files, with the sizes
// of these files, the contents of plug-ins and the statistics. Requires fitted statistics.
// Cost: reads the plug-ins' files.
std::string InputAgreement(const ClusterConfig& config);

// Also ranks: InputAgreement, model, training, learning rates and the number of loaders.
std::string TrainingAgreement(const ClusterConfig& config);

// Settings that training which continues from a model shares with the training that saved it:
// tables, features, data processing, model, dense optimizer and batches. Not learning rates,
// capacities, files, lengths of training and numbers of processes.
std::string ModelAgreement(const ClusterConfig& config);

}  // namespace simurgh
