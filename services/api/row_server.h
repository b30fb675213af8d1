#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/call.h"
#include "simurgh/base/status.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/model/manifest.h"
#include "simurgh/table/partition.h"

namespace simurgh {

struct PullRowsCall {
  LookupMode mode = LookupMode::kTrain;
  StepId step_id;
  uint64_t acknowledged_steps = 0;
  std::span<const RowGroup> groups;
  std::span<const uint64_t> ids;  // By group, then by partition.
  std::span<std::byte> rows;      // Layout: see row_codec.h; overwritten.
  std::shared_ptr<void> owner;    // Keeps the spans alive; null: the caller does.
  uint64_t client = 0;            // Key of fair scheduling.
};

struct PushRowsCall {
  StepId step_id;
  std::span<const RowGroup> groups;
  std::span<const float> learning_rates;  // By group.
  std::span<const uint64_t> ids;          // See PullRowsCall.
  std::span<const std::byte> gradients;   // Layout: as PullRowsCall::rows.
  std::shared_ptr<void> owner;            // See PullRowsCall.
  uint64_t client = 0;                    // See PullRowsCall.
};

// Writes a server's rows into a folder of checkpoint.directory.
struct SaveRowsCall {
  uint64_t run = 0;
  std::string folder;   // A name in checkpoint.directory, which all daemons share.
  uint32_t server = 0;  // Index of the server, which names its files.
  bool probe = false;   // Only check that `folder` is in checkpoint.directory.
  // The folder of an earlier call of this run, whose rows are complete: only changes since then
  // need to be written. Empty: all rows are.
  std::string parent = {};
  // In place of checkpoint.directory: a folder whose file `run` names the training. Empty: that
  // one.
  std::string directory = {};
  // All servers have begun the save: one that has not was restarted, and its rows are later ones.
  bool continues = false;
};

// Loads a server's rows of a checkpoint, and begins a run at its step. Rows of an older start of
// the same training (run_number.h) are dropped.
struct RestoreRowsCall {
  uint64_t run = 0;
  uint32_t ranks = 1;
  std::string model;  // Path of the model's folder, which all daemons share. Empty: loads nothing.
  uint64_t step = 0;
  uint32_t server = 0;  // Index of the server.
  uint32_t load = 0;    // Numbers the loads of a run: a repeated call belongs to one of them.
};

// How far a save or a load is. Repeat the call until it is done.
struct SaveProgress {
  bool done = false;
  uint64_t rows = 0;             // Written, or read by a load.
  uint64_t all_rows = 0;         // To write; 0 until known.
  uint64_t bytes = 0;            // Size of all files of a save.
  std::vector<ModelFile> files;  // When done. Paths: relative to the folder.
};

// A parameter server: the server itself or a client of another process.
//
// Training pulls and pushes reach every partition, even without ids: otherwise a partition could
// not detect a lost push.
//
// Errors: see Partition; UNAVAILABLE or DEADLINE_EXCEEDED when the server is not reachable in time;
// FAILED_PRECONDITION when its bucket map differs.
// Threads: call from one executor.
class RowServer {
 public:
  virtual ~RowServer() = default;

  [[nodiscard]] virtual rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                                  rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                                  rpc::CallOptions options) = 0;

  // A rank's last call. step_id: its run, rank and ranks. A server inside the trainer's process has
  // one run only.
  [[nodiscard]] virtual rpc::awaitable<Status> EndRun(StepId /*step_id*/,
                                                      rpc::CallOptions /*options*/) {
    co_return absl::OkStatus();
  }

  // Starts to write the rows as they are now, or reports on it. Training may go on once the first
  // call for a folder has been answered. Before it, all pulls and pushes must have been answered.
  // Errors: of RowSaver.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<SaveProgress>> SaveRows(
      SaveRowsCall /*call*/, rpc::CallOptions /*options*/) {
    co_return absl::UnimplementedError("this server saves no rows");
  }

  // Starts to load rows, or reports on it. No other call of the run may precede its end.
  // Errors: FAILED_PRECONDITION for a server that has rows of another training, and for an earlier
  // load; ABORTED while it ends an older load; of LoadRows.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<SaveProgress>> RestoreRows(
      RestoreRowsCall /*call*/, rpc::CallOptions /*options*/) {
    co_return absl::UnimplementedError("this server loads no rows");
  }
};

}  // namespace simurgh
