#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/embedding_form.h"
#include "embedding/bucket_map.h"

namespace simurgh {

// The ids whose rows one of several servers has: a training with this number of servers puts the
// same ids there.
//
// Threads: immutable.
class RowShare {
 public:
  // Requires server < servers <= BucketMap::kBuckets.
  explicit RowShare(uint32_t server = 0, uint32_t servers = 1)
      : server_(server), map_(servers, /*partitions=*/1) {}

  uint32_t server() const { return server_; }
  uint32_t servers() const { return map_.servers(); }
  bool has_all() const { return map_.servers() == 1; }
  bool Has(uint64_t id) const { return ServerOf(id) == server_; }
  uint32_t ServerOf(uint64_t id) const { return map_.SlotOf(id); }

 private:
  uint32_t server_;
  BucketMap map_;
};

class ModelVersion;

// Names a version to processes that read the same model directory.
struct VersionName {
  uint64_t step = 0;
  uint64_t checksum = 0;  // See Checkpoint::checksum.
  uint64_t training = 0;  // See base/step_id.h: differs between models.

  bool operator==(const VersionName&) const = default;
};

// The ids whose rows are read from one server.
struct RowRead {
  struct Group {
    uint32_t table = 0;  // Index in the model's configuration.
    uint32_t ids = 0;
  };

  VectorPrecision precision = VectorPrecision::kF32;  // Precision of the answer.
  std::vector<Group> groups;                          // In ascending order of tables, each once.
  std::vector<uint64_t> ids;                          // The ids of all groups, in their order.
};

// The answer to a RowRead.
struct RowAnswer {
  // A bit for each id, the lowest of a byte first: set if the id has a row.
  std::vector<uint8_t> present;
  // The rows of the ids that have one, in their order, in the RowEncoding of RowRead::precision.
  std::span<const std::byte> rows;
  std::shared_ptr<const void> owner;  // Owns `rows`.

  bool Has(size_t id) const { return (present[id / 8] >> (id % 8) & 1) != 0; }
};

struct RowMemory {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Answers a read with the rows of a version that is in this process. precision: that of the answer;
// see RowEncoding. allocate: memory for the rows; called once. Requires that the groups have as
// many ids as `ids`.
// Errors: INVALID_ARGUMENT for a table that the model does not have; ModelVersion::damage().
StatusOr<RowAnswer> AnswerRead(const ModelVersion& version, VectorPrecision precision,
                               std::span<const RowRead::Group> groups,
                               std::span<const uint64_t> ids,
                               absl::FunctionRef<RowMemory(size_t bytes)> allocate);

// The servers of a model's rows; each has a RowShare.
//
// Threads: any.
class RemoteRows {
 public:
  virtual ~RemoteRows() = default;

  virtual uint32_t servers() const = 0;

  // Tells all servers which versions this process uses, or is about to use, and asks which ones
  // they have. For some seconds servers keep the versions that are in use.
  // Returns the versions that all servers have.
  // Errors, naming the server and its key: UNAVAILABLE if it does not answer; INVALID_ARGUMENT if
  // it has another model, or another place among the servers.
  virtual StatusOr<std::vector<VersionName>> Use(std::span<const VersionName> versions) = 0;

  // Returns why servers lack a version that the last Use() did not return; one line.
  virtual std::string WhoLacks(const VersionName& version) = 0;

  // Reads rows from all servers at once, for a bounded time. reads, answers: indexed by server. A
  // server without ids gets no request.
  // Errors: NOT_FOUND if a server does not have the version any more; UNAVAILABLE if one does not
  // answer, naming it.
  virtual Status Read(uint64_t checksum, std::span<const RowRead> reads,
                      std::span<RowAnswer> answers) = 0;

  // Reports distinct ids of a batch that were in a cache of rows, and that were not.
  virtual void OnCache(uint64_t hits, uint64_t misses) = 0;

  // Checksum of the version for requests that name none. Caches keep its rows.
  uint64_t current() const { return current_.load(std::memory_order_relaxed); }
  void SetCurrent(uint64_t checksum) { current_.store(checksum, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> current_ = 0;
};

}  // namespace simurgh
