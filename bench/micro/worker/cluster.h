#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/status.h"
#include "bench/support/folder.h"
#include "bench/support/process.h"
#include "config/cluster_config.h"

namespace simurgh::bench {

// Two embedding-ps and an embedding worker, in separate processes, over one transport.
class WorkerCluster {
 public:
  struct Setup {
    std::string transport;
    std::string precision;      // For embeddings and gradients.
    std::string row_precision;  // For rows and their gradients.
    uint32_t row_age = 0;       // Steps.
    uint32_t dim = 0;
  };

  // programs: the folder of the daemons.
  static StatusOr<std::unique_ptr<WorkerCluster>> Start(const std::string& programs,
                                                        const Setup& setup);

  const ClusterConfig& config() const { return config_; }
  const std::string& worker_metrics() const {
    return config_.embedding_worker.instances[0].metrics;
  }
  pid_t worker() const { return processes_.back().id(); }
  std::vector<pid_t> servers() const { return {processes_[0].id(), processes_[1].id()}; }

 private:
  WorkerCluster() = default;

  Folder folder_;
  ClusterConfig config_;
  std::vector<Process> processes_;  // The servers, then the worker.
};

}  // namespace simurgh::bench
