#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/table_config.h"
#include "model/tensor_file.h"
#include "table/cold_disk.h"
#include "table/distinct_counter.h"
#include "table/encoded_matrix.h"
#include "table/memory_budget.h"

namespace simurgh {

// Why a row was evicted. kCapacity and kMemory apply only when no rule does; of several rules, the
// first in this order counts.
enum class EvictionCause : uint8_t {
  kCapacity,   // Least recently used row of a full table.
  kMemory,     // Least recently used row, at the server's memory limit.
  kIdleSteps,  // Rule eviction.idle_steps, and likewise below.
  kIdleTime,
  kLowUse,
  kSmallNorm,
};
inline constexpr size_t kEvictionCauses = 6;
inline constexpr std::array<const char*, kEvictionCauses> kEvictionCauseNames = {
    "capacity", "memory", "idle_steps", "idle_time", "low_use", "small_norm"};

class Arena;

// Lifetime: the spans are valid during the visitor's call.
struct RowContents {
  uint64_t id;
  uint32_t use_count;              // Training pulls, at most 65,535.
  uint64_t recency;                // Stamp of the last training pull.
  std::span<const float> weights;  // (D)
  std::span<const float> state;    // Shape: see RowFormat.
};

// `rows` and the sizes are current values, the others count since the table was created.
struct TableStats {
  uint64_t rows = 0;  // Includes expired rows that have not been swept yet.
  uint64_t capacity_rows = 0;
  uint64_t bytes = 0;               // Memory of rows, index, eviction queue and admission.
  uint64_t overhead_bytes = 0;      // `bytes` without weights and optimizer state.
  uint64_t cold_rows = 0;           // Part of `rows`: on disk.
  uint64_t cold_disk_bytes = 0;     // Segments of these rows.
  uint64_t cooled = 0;              // Rows that left memory for the disk.
  uint64_t warmed = 0;              // Rows that came back.
  uint64_t cold_late = 0;           // Rows that a request had to wait for.
  uint64_t cold_refused = 0;        // Rows that found no room on disk.
  uint64_t cold_read_bytes = 0;     // Read from disk, of all purposes.
  uint64_t cold_written_bytes = 0;  // Written to disk.
  uint64_t hits = 0;                // Ids of training pulls that had a row.
  uint64_t created = 0;             // Ids of training pulls that got a new row.
  uint64_t rejected_admission = 0;  // Ids of training pulls that admission denied.
  uint64_t rejected_full = 0;       // Ids of training pulls that found the table full.
  uint64_t evicted = 0;
  std::array<uint64_t, kEvictionCauses> evicted_for{};  // Indexed by EvictionCause.
  uint64_t evaluated = 0;                               // Ids of evaluation pulls with a row.
  uint64_t unseen = 0;                                  // Ids of evaluation pulls without one.
  uint64_t updated = 0;                                 // Gradients applied.
  uint64_t missing = 0;                                 // Gradients dropped for lack of a row.
  uint64_t gradients_not_finite = 0;                    // Gradients dropped as not finite.
  uint64_t rows_not_finite = 0;  // Updates whose result was not finite: see when_not_finite.
  // Hits by the row's age in steps: [0] counts age 0, [i] counts ages 2^(i-1) to 2^i - 1. Samples
  // every eighth position of a request.
  std::array<uint64_t, 33> pulled_before{};
};

// The memory that a table will take, in bytes.
struct TableMemory {
  uint64_t rows = 0;  // Number of rows, cold ones included.
  uint64_t cold_rows = 0;
  uint64_t sketches = 0;  // Number of sketches of admission by occurrences.
  uint64_t weights = 0;
  uint64_t state = 0;      // State of the optimizer.
  uint64_t headers = 0;    // Row headers and padding.
  uint64_t index = 0;      // Index from ids to rows.
  uint64_t queue = 0;      // Order of eviction.
  uint64_t admission = 0;  // Sketches.
  uint64_t cold = 0;       // Index of cold rows, without buffers.
  uint64_t disk = 0;       // No memory: space of cold rows on disk, with gaps.
  uint64_t ahead = 0;      // Resident memory beyond the above: pages prepared for the next rows.

  // Same sum as TableStats::bytes.
  uint64_t bytes() const { return weights + state + headers + index + queue + admission + cold; }
  TableMemory& operator+=(const TableMemory& other);
};

struct PullReport {
  uint64_t found = 0;
  uint64_t created = 0;
  uint64_t unseen = 0;              // Evaluation only: no row, read as zeros.
  uint64_t rejected_admission = 0;  // Training only: denied by admission, read as zeros.
  uint64_t rejected_full = 0;       // Training only: table full, read as zeros.
  uint64_t evicted = 0;
  uint64_t evicted_for_space = 0;  // Part of `evicted`: by capacity or memory, not by a rule.

  PullReport& operator+=(const PullReport& other);
};

struct PushReport {
  bool repeated = false;  // The push had been applied before, so nothing changed.
  uint64_t updated = 0;
  uint64_t missing = 0;               // Gradients dropped because their row was evicted.
  uint64_t gradients_not_finite = 0;  // Gradients dropped because they were not finite.
  uint64_t rows_not_finite = 0;       // Updates whose result was not finite.
  uint32_t not_finite_table = 0;      // A table with one of these two.

  bool all_finite() const { return gradients_not_finite + rows_not_finite == 0; }
  // Adds the counts; `repeated` stays.
  PushReport& operator+=(const PushReport& other);
};

// The earlier copy of a table that a copy continues, if only changes are to be copied.
enum class CopyBase : uint8_t {
  kUnnoted,     // No copy, and changes from now on are not noted.
  kNone,        // No copy.
  kLast,        // The last copy.
  kBeforeLast,  // The copy that the last one continues. The last one counts as not made.
};

// The changes of a table since a copy began.
struct TableChanges {
  uint64_t rows;  // Rows created or changed, and not removed.
  // Ids whose row was removed; some may have a row again. Lifetime: until the next change or copy.
  std::span<const uint64_t> removed;
};

// Rows of a copy, as they are in memory.
struct CopiedRows {
  std::vector<std::vector<std::byte>> blocks;  // Whole records.
  uint64_t rows = 0;
  uint64_t stamp_origin = 0;
  uint64_t early_bytes = 0;  // 0, or all blocks: release them from the CopyMemory after use.
  bool done = false;         // There are no further rows.
  Status failure;            // See Table::failure(): the copy has failed.
};

// The rows of one table in one partition.
//
// Invariants: an id has at most one row; a row never moves; at most capacity_rows rows exist. A
// full table evicts the row with the oldest stamp; src/table/eviction.h states how exactly. Once
// the table is full, requests of sizes seen before allocate nothing, unless a copy is in progress
// or changes are noted for the next one.
//
// A row that a rule of config.eviction expires is invisible to pulls, pushes and visits from that
// step on. Its memory is reclaimed by a sweep: each training pull first examines as many rows as it
// has ids. This bounds the delay, and evictions depend on the requests alone.
//
// Threads: one owner. Bad arguments are programming errors; Partition checks requests.
class Table {
 public:
  // Checks a partition's share of the capacity; the configuration's reader has checked the rest.
  // Errors: INVALID_ARGUMENT.
  static Status Validate(const TableConfig& config);

  // Upper bound of the address space of a table. Requires a valid config.
  static uint64_t ReservationFor(const TableConfig& config);

  // Number of rows that fit into `bytes`, with their share of index and queue while the table
  // grows; at least 1. Excludes sketches of admission.
  static uint64_t RowsIn(const TableConfig& config, uint64_t bytes);

  // Estimates the memory of a table whose training pulls have had `ids` distinct ids, without rules
  // of eviction. By occurrences, every id is admitted. buckets: of the 65,536 of the bucket map,
  // how many the table has. Requires a valid config.
  static TableMemory MemoryOf(const TableConfig& config, uint64_t ids, uint32_t buckets);

  // Requires a valid config. Ignores config.capacity_bytes. seed: of initial weights and rounding.
  // budget: the table grows only as the budget grants, and a denial has the effect of a full table;
  // null: it grows to its capacity.
  // Lifetime: `arena`, `budget` and `cold` must outlive the table; `arena` must not be moved.
  // cold: for rows that find no room in memory; null: none.
  Table(const TableConfig& config, uint64_t seed, Arena& arena, MemoryBudget* budget = nullptr,
        ColdDisk* cold = nullptr);
  ~Table();

  // Takes the memory of a first row from an arena in a file; private memory is not taken ahead.
  // Errors: RESOURCE_EXHAUSTED when the file system is full.
  Status CommitFirstRow();

  // Begins to read cold rows of `ids` for a pull of them later, beside other requests. Returns null
  // if there are none. Lifetime: the result may outlive the table; the table's thread destroys it.
  class Ahead {
   public:
    virtual ~Ahead() = default;
    // Returns whether no later pull can use it.
    virtual bool is_used_up() const = 0;
    // Returns whether the pull finds its rows in memory.
    virtual bool done() const = 0;
  };
  // urgency: kUrgent if the pull waits already.
  std::unique_ptr<Ahead> ReadAhead(std::span<const uint64_t> ids, ColdDisk::Urgency urgency);

  // Reads the rows of `ids` in order and creates missing ones; ids that admission or a full table
  // rejects read as zeros. Existing rows are stamped and copied before anything is evicted. An id
  // given twice is read twice and counts twice for admission.
  //
  // rows: (U, D) overwritten, rounded to nearest. stamp: recency of this pull; a stamp older than
  // the newest so far counts as the newest. Cost: about three cache misses a row at dim 16,
  // overlapped over the request.
  PullReport Pull(std::span<const uint64_t> ids, EncodedRows rows, uint64_t stamp);

  // Does the same, but leaves out existing rows that a pull of stamp `open_from` or a later one has
  // used. Appends their positions to `left_out`, in order, and does not count them.
  // Requires CanCreateAll() for these ids.
  PullReport PullClosed(std::span<const uint64_t> ids, EncodedRows rows, uint64_t stamp,
                        uint64_t open_from, std::vector<uint32_t>& left_out);

  // Returns whether a pull of this number of ids neither evicts rows nor rejects ids.
  bool CanCreateAll(size_t ids) const;

  // Reads the rows of `ids` and changes nothing but the counts; zeros where there is no row.
  // Returns how many had one. rows: as for Pull().
  uint64_t Evaluate(std::span<const uint64_t> ids, EncodedRows rows);

  // Applies the optimizer to the rows of `ids` in order; drops gradients of ids without a row, and
  // those that are not finite. All numbers of a row stay finite: config.when_not_finite.
  //
  // gradients: (U, D). step: seeds the rounding of 16-bit rows, with the table's seed and
  // the id; use each once for an id.
  PushReport Push(std::span<const uint64_t> ids, EncodedGradients gradients, float learning_rate,
                  uint64_t step);

  // Returns the error that has lost rows, if there was one: no request may succeed after it.
  const Status& failure() const;
  // Returns why a row found no room on disk the last time.
  const Status& cold_refusal() const;

  // Clock of eviction.idle_time; steady_clock unless set.
  void SetClock(std::function<std::chrono::steady_clock::time_point()> clock);

  // Calls `visit` for every row, in no particular order.
  void ForEachRow(absl::FunctionRef<void(const RowContents&)> visit) const;

  // The tensors and the metadata of a file of `rows` rows: `id`, `uses` and `recency`
  // (RowContents), `weights`, and the optimizer's state. Numbers keep their precision.
  static std::vector<TensorSpec> FileTensors(const TableConfig& config, uint64_t rows);
  static TensorMetadata FileMetadata(const TableConfig& config);

  // Begins a copy of all rows as they are now, and ends one in progress. Rows may change meanwhile:
  // a row is copied early, before its first change. The copy includes rows that have expired and
  // not been swept, as stats().rows does. memory: of the rows copied early.
  // Returns the number of rows. Lifetime: `memory` must outlive the copy.
  uint64_t BeginCopy(CopyMemory& memory, CopyBase base = CopyBase::kUnnoted);
  // The changes since the copy's base. None without a base, or if too many ids have gone since.
  // Requires a copy that has just begun, and of which no row has been taken.
  std::optional<TableChanges> changes() const;
  // Copies only the rows of changes(). Requires that there are changes.
  void CopyChanges();
  // Takes the rows copied early, or else about `count` others. Requires a copy in progress.
  CopiedRows TakeRows(size_t count);
  // Takes only the rows copied early, to empty the memory.
  CopiedRows TakeEarlyRows();
  // Ends the copy and drops what was not taken.
  void EndCopy();
  // Upper bound of the memory that a pull of `ids` ids takes for rows copied early.
  uint64_t EarlyBytes(size_t ids) const;

  // Replaces the parts of FileTensors() by the rows of some blocks. Threads: any.
  static void SplitRows(const TableConfig& config, uint64_t stamp_origin,
                        std::span<const std::vector<std::byte>> blocks,
                        std::span<std::vector<std::byte>> parts);

  // Puts rows back that SplitRows() has written, of a table with the same FileTensors() and
  // FileMetadata(). A full table makes room as in training: it evicts the oldest of the rows so
  // far. parts: whole rows. rows: the numbers of those to put. Requires that the table has served
  // no training pull.
  // Errors: DATA_LOSS for an id that has a row already, or for numbers that are not finite, naming
  // the id; RESOURCE_EXHAUSTED for a full table with when_full: stop. The rows before it stay.
  Status PutRows(std::span<const std::span<const std::byte>> parts, std::span<const uint32_t> rows);

  // Puts rows of another training: with these weights, clamped and rounded to nearest, and the
  // state of new rows. ids: (N). weights: (N, D). Requirements and errors: of PutRows();
  // INVALID_ARGUMENT for numbers that are not finite, naming the id.
  Status PutInitialRows(std::span<const uint64_t> ids, std::span<const float> weights);

  // PutRows() for the sketches of admission by occurrences; without it there are no tensors. owns:
  // whether the table is to have this bucket, of the 65,536 of the bucket map.
  static std::vector<TensorSpec> AdmissionTensors(const TableConfig& config, uint64_t sketches);
  uint64_t sketches() const;
  void CopyAdmission(std::span<std::vector<std::byte>> parts) const;
  Status PutAdmission(std::span<const std::span<const std::byte>> parts,
                      absl::FunctionRef<bool(uint16_t bucket)> owns);

  // Sum of the rows' hashes: equal for equal sets of rows (ids, weights and state, bit by bit) in
  // any order. Digests of disjoint sets add up, over partitions and servers. Cost: reads all rows.
  uint64_t ContentDigest() const;

  const TableConfig& config() const;
  TableStats stats() const;
  // Estimates the distinct ids of training pulls. Ids with a row are skipped: they were counted
  // before they got it.
  const DistinctCounter& distinct_ids() const;

 private:
  friend class EvictionRecorder;  // Property tests replay evictions in order.

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
