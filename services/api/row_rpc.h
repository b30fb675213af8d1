#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "embedding/batch_calls.h"
#include "embedding/batch_plan.h"
#include "model/manifest.h"
#include "rpc/async.h"
#include "rpc/call.h"
#include "services/api/methods.h"
#include "services/api/peer_clients.h"
#include "services/api/rows_generated.h"
#include "table/partition.h"

namespace simurgh {

struct PullRowsCall {
  LookupMode mode = LookupMode::kTrain;
  StepId step_id;
  NeededPushes needed;
  std::span<const RowGroup> groups;
  std::span<const uint64_t> ids;  // Ordered by group, then by partition.
  std::span<std::byte> rows;      // Layout: see RowPayload; overwritten.
  std::shared_ptr<void> owner;    // Keeps the spans alive; null: the caller does.
  uint64_t client = 0;            // Key of fair scheduling.
};

// The ids of a pull that will come.
struct ReadRowsAheadCall {
  std::span<const RowGroup> groups;
  std::span<const uint64_t> ids;  // See PullRowsCall.
  std::shared_ptr<void> owner;    // See PullRowsCall.
};

struct PushRowsCall {
  StepId step_id;
  std::span<const RowGroup> groups;
  std::span<const float> learning_rates;  // One per group.
  std::span<const uint64_t> ids;          // See PullRowsCall.
  std::span<const std::byte> gradients;   // Layout: see PullRowsCall::rows.
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
  // need to be written. Empty: all rows are written.
  std::string parent = {};
  // A folder that replaces checkpoint.directory; its file `run` names the training. Empty:
  // checkpoint.directory.
  std::string directory = {};
  // All servers have begun the save. A server that does not know of it was restarted since, and its
  // rows are newer than those of the save.
  bool continues = false;
};

// Loads a server's rows of a checkpoint, and begins a run at its step. Rows of an older start of
// the same training (base/step_id.h) are dropped.
struct RestoreRowsCall {
  uint64_t run = 0;
  uint32_t ranks = 1;
  std::string model;  // Path of the model's folder, which all daemons share. Empty: loads nothing.
  uint64_t step = 0;
  uint32_t server = 0;  // Index of the server.
  uint32_t load = 0;    // Numbers the loads of a run: a repeated call belongs to one of them.
};

// The progress of a save or a load. Repeat the call until it is done.
struct SaveProgress {
  bool done = false;
  uint64_t rows = 0;             // Number of rows written, or read by a load.
  uint64_t all_rows = 0;         // Number of rows to write; 0 until known.
  uint64_t bytes = 0;            // Size of all files of a save.
  std::vector<ModelFile> files;  // Empty until done. Paths are relative to the folder.
  // Rows that each table had evicted when the save began, since the server's start. Empty for a
  // load.
  std::vector<uint64_t> evicted = {};
};

// A parameter server: the server itself or a client of another process.
//
// Training pulls and pushes reach every partition, even without ids: otherwise a partition could
// not detect a lost push.
//
// Errors: see Partition; UNAVAILABLE or DEADLINE_EXCEEDED when the server is not reachable in time;
// FAILED_PRECONDITION when its bucket map differs.
// Threads: call from one executor.
class RowPort {
 public:
  virtual ~RowPort() = default;

  [[nodiscard]] virtual rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                                  rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                                  rpc::CallOptions options) = 0;

  // Begins to read cold rows of ids from the disk. Done when the server has the ids. A hint:
  // without it, and after an error, the pull reads them.
  [[nodiscard]] virtual rpc::awaitable<Status> ReadAhead(ReadRowsAheadCall /*call*/,
                                                         rpc::CallOptions /*options*/) {
    co_return absl::OkStatus();
  }

  // A rank's last call. step_id: its run, rank and ranks. A server inside the trainer's process has
  // one run only.
  [[nodiscard]] virtual rpc::awaitable<Status> EndRun(StepId /*step_id*/,
                                                      rpc::CallOptions /*options*/) {
    co_return absl::OkStatus();
  }

  // Starts to write the rows as they are now, or reports on it. Training may go on once the first
  // call for a folder has been answered. Before it, all pulls and pushes must have been answered.
  // Errors: see RowSaver.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<SaveProgress>> SaveRows(
      SaveRowsCall /*call*/, rpc::CallOptions /*options*/) {
    co_return absl::UnimplementedError("this server saves no rows");
  }

  // Starts to load rows, or reports on it. No other call of the run may precede its end.
  // Errors: FAILED_PRECONDITION for a server that has rows of another training, and for an earlier
  // load; ABORTED while it ends an older load; those of LoadRows.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<SaveProgress>> RestoreRows(
      RestoreRowsCall /*call*/, rpc::CallOptions /*options*/) {
    co_return absl::UnimplementedError("this server loads no rows");
  }
};

}  // namespace simurgh

namespace simurgh::api {

flatbuffers::Offset<wire::StepId> Encode(flatbuffers::FlatBufferBuilder& builder,
                                         const StepId& step_id);
StepId Decode(const wire::StepId& step_id);

rpc::Outgoing<EndRun::Request> EncodeEndRun(const StepId& step_id);

// what: prefix of errors, "pull". Errors: INVALID_ARGUMENT for an unknown mode.
StatusOr<LookupMode> DecodeLookupMode(const char* what, uint8_t mode);

// Requests; segments refer to the call's arrays.
rpc::Outgoing<PullRows::Request> Encode(const PullRowsCall& call, uint64_t map_version);
rpc::Outgoing<PushRows::Request> Encode(const PushRowsCall& call, uint64_t map_version);
rpc::Outgoing<ReadRowsAhead::Request> Encode(const ReadRowsAheadCall& call, uint64_t map_version);

using GroupVector = flatbuffers::Vector<flatbuffers::Offset<wire::RowGroup>>;

// The server's settings that its requests must match.
struct RowShape {
  std::vector<uint32_t> dims;  // Indexed by table.
  uint32_t partitions = 1;
};

// The ids of one table in one partition.
struct RowRun {
  uint32_t partition = 0;
  uint32_t table = 0;
  uint32_t dim = 0;
  RowPrecision precision = RowPrecision::kF32;
  float learning_rate = 0;  // Push only.
  size_t first_id = 0;
  size_t count = 0;  // Above 0.
  size_t first_byte = 0;

  bool operator==(const RowRun&) const = default;
};

// The groups of a request. Only Parse() makes them, and it checks everything.
class ParsedRows {
 public:
  // learning_rates: one per group; empty for a pull.
  // Errors: INVALID_ARGUMENT for tables that do not ascend or are unknown, dims and partitions that
  // differ from the server's, an unknown precision, a learning rate that is not finite and at least
  // 0, or more than kMaxBatchOccurrences ids.
  static StatusOr<ParsedRows> Parse(const GroupVector& groups, const RowShape& shape);
  static StatusOr<ParsedRows> Parse(std::span<const RowGroup> groups,
                                    std::span<const float> learning_rates, const RowShape& shape);

  // Returns the runs, ordered by group, then by partition.
  const std::vector<RowRun>& runs() const { return runs_; }
  const RowPayload& payload() const { return payload_; }

  // Errors: INVALID_ARGUMENT for lengths that the groups do not describe.
  Status CheckLengths(uint64_t ids, uint64_t bytes) const;

  // A group, from a message or from a call.
  struct Group {
    uint32_t table;
    uint32_t dim;
    std::span<const uint32_t> counts;
    uint8_t precision;
    float learning_rate;
  };

 private:
  ParsedRows() = default;
  static StatusOr<ParsedRows> Parse(std::span<const Group> groups, const RowShape& shape);

  std::vector<RowRun> runs_;
  RowPayload payload_;
};

// Errors: INVALID_ARGUMENT for an unknown order, or a rank or a number of ranks that is out of
// range.
Status CheckPushOrder(const StepId& step_id);

// Responses.
rpc::Outgoing<PullRows::Response> Encode(const PullReport& report,
                                         rpc::SegmentSource<std::byte> rows);
rpc::Outgoing<PushRows::Response> Encode(const PushReport& report);
PullReport Decode(const wire::PullRowsResponse& response);
PushReport Decode(const wire::PushRowsResponse& response);

rpc::Outgoing<SaveRows::Request> Encode(const SaveRowsCall& call);
SaveRowsCall Decode(const wire::SaveRowsRequest& request);
rpc::Outgoing<RestoreRows::Request> Encode(const RestoreRowsCall& call);
RestoreRowsCall Decode(const wire::RestoreRowsRequest& request);
rpc::Outgoing<SaveRows::Response> Encode(const SaveProgress& progress);
SaveProgress Decode(const wire::SaveRowsResponse& response);

}  // namespace simurgh::api

namespace simurgh {

// Calls the RowPort of another process.
//
// Threads: call from the clients' executor.
class RowClient : public RowPort {
 public:
  // name: for errors, "embedding-ps 1".
  RowClient(std::string name, std::unique_ptr<PeerClients> clients, uint64_t map_version);

  [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                          rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                          rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<Status> ReadAhead(ReadRowsAheadCall call,
                                                 rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<Status> EndRun(StepId step_id, rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> SaveRows(SaveRowsCall call,
                                                                rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> RestoreRows(
      RestoreRowsCall call, rpc::CallOptions options) override;

 private:
  template <typename Method, typename Call>
  rpc::awaitable<StatusOr<SaveProgress>> CallFor(const Method& method, Call call,
                                                 rpc::CallOptions options);

  const std::string name_;
  const std::unique_ptr<PeerClients> clients_;
  const uint64_t map_version_;
};

}  // namespace simurgh
