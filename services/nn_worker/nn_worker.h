#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "services/runtime/daemon.h"
#include "train/hosted_network.h"

namespace simurgh {

struct NnWorkerOptions {
  bool standalone = false;        // Run the servers and the embedding worker in this process.
  std::string resume = "auto";    // See FindResumePoint.
  std::string update = {};        // See FindUpdatePoint; empty: a training.
  bool fails_if_stopped = false;  // Ends with kStartAgain if a signal stops training.
  // The network of a program; null: that of the configuration.
  std::shared_ptr<HostedNetwork> hosted = nullptr;
  // Receives the result of a training that has ended: lines of warnings, then the line of metrics.
  std::function<void(const std::string& text)> on_result;
};

// is_hosted: whether a program has the network.
DaemonDescription DescribeNnWorker(bool is_hosted);

// Starts a rank of a training: it reads the data, computes the dense network and drives training.
// Errors: INVALID_ARGUMENT for the configuration; those of the model and the data.
StatusOr<std::unique_ptr<Daemon>> StartNnWorker(DaemonContext& context, NnWorkerOptions options);

}  // namespace simurgh
