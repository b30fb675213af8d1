#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "config/cluster_config.h"

namespace simurgh {

// What a cluster of pods needs beyond its configuration. Sizes in bytes.
struct PodOptions {
  std::string name;   // Prefix of all objects' names, and label; a DNS label.
  std::string image;  // Has the programs of the Debian package.
  uint32_t servers = 1;
  uint32_t workers = 1;
  uint32_t ranks = 1;
  bool has_gpus = false;   // One for each rank.
  std::string data_claim;  // Holds the configuration's folder; empty: none.
  std::string tls_secret;  // Mounted at /tls; empty: none.
  std::string token;       // Text of a new Secret; empty: NAME-token exists.
  uint64_t server_memory = 0;
  uint64_t worker_memory = 0;
  uint64_t rank_memory = 0;
  uint64_t model_bytes = 0;     // Size of the claim.
  std::string bucket;           // URI of the model's folder in a bucket; empty: in a claim.
  std::string service_account;  // Account of all pods; empty: the namespace's default.
  bool serves = false;          // Adds a server of predictions that follows the model.
};

// Returns the objects that train a configuration on Kubernetes 1.29 and later, in the order of
// their creation. Ranks are a Job; they are a StatefulSet if training has no end.
// Errors: INVALID_ARGUMENT for names that Kubernetes refuses, and files that pods do not see.
StatusOr<std::vector<nlohmann::ordered_json>> KubernetesObjects(const ClusterConfig& config,
                                                                const PodOptions& options);

// Returns documents of YAML. Texts are quoted as in JSON, or blocks of lines.
std::string YamlOf(const std::vector<nlohmann::ordered_json>& objects);

}  // namespace simurgh
