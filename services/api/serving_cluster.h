#pragma once

#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/config/cluster_config.h"
#include "simurgh/config/serving_config.h"

namespace simurgh::api {

// The processes that exchange a model's rows, as a cluster: its parameter servers are
// serving.servers, its name is the same for all models. Both ends use it for HELLO.
inline ClusterConfig ClusterOf(const ServingConfig& config) {
  ClusterConfig cluster;
  cluster.name = "serving";
  cluster.rpc = config.rpc;
  for (size_t i = 0; i < config.servers.size(); ++i) {
    InstanceConfig server;
    server.address = config.servers[i];
    server.address_key = server.listen_key = absl::StrCat(config.servers_key, ".", i);
    cluster.embedding_ps.instances.push_back(std::move(server));
  }
  return cluster;
}

}  // namespace simurgh::api
