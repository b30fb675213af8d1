#pragma once

#include <chrono>

#include "base/status.h"
#include "base/step_id.h"
#include "services/api/row_rpc.h"
#include "train/ports.h"

namespace simurgh {

// An nn-worker's interface to a cluster: the ports of training, and the calls around it.
//
// Lifetime: outlive every call. Threads: any but those of the cluster.
class ClusterPort {
 public:
  virtual ~ClusterPort() = default;

  virtual EmbeddingPort& batches() = 0;
  // Returns the dense weights on servers; may be null unless the mode is async.
  virtual DensePort* dense() = 0;

  // Starts to save the rows of all servers into a folder of checkpoint.directory, or reports on it:
  // repeat the call until it is done. Errors: those of RowSaver, naming the server; UNAVAILABLE or
  // DEADLINE_EXCEEDED of the last worker.
  virtual StatusOr<SaveProgress> SaveRows(const SaveRowsCall& call) = 0;
  // Loads the rows of a checkpoint in the same way, by RowPort::RestoreRows.
  virtual StatusOr<SaveProgress> RestoreRows(const RestoreRowsCall& call) = 0;

  // Tells the servers that a rank of a run has ended. Waits up to `timeout`. Errors are ignored:
  // servers then wait for embedding_ps.run_timeout.
  virtual void EndRun(const StepId& step_id, std::chrono::milliseconds timeout) = 0;

  // After the pause, fails pending and later calls with CANCELLED.
  virtual void StopAfter(std::chrono::milliseconds pause) = 0;
};

}  // namespace simurgh
