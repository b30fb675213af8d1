#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"

#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"
#include "simurgh/table/coded_matrix.h"
#include "simurgh/table/distinct_counter.h"
#include "simurgh/table/eviction.h"
#include "simurgh/table/memory_budget.h"

namespace simurgh {

class Arena;
class PushJournal;

// A row as it stands.
//
// Lifetime: of the spans, the call that was given it.
struct RowContents {
  uint64_t id;
  uint32_t use_count;              // Training pulls; stays at 65,535.
  uint64_t recency;                // Stamp of the last training pull.
  std::span<const float> weights;  // (D)
  std::span<const float> state;    // Of the optimizer; its shape is the optimizer's.
};

// Counted since the table was made, except `rows` and the sizes.
struct TableStats {
  uint64_t rows = 0;  // Those whose memory has not yet been taken back included.
  uint64_t capacity_rows = 0;
  uint64_t bytes = 0;           // All memory that rows, index and eviction queue have taken.
  uint64_t overhead_bytes = 0;  // The part of it that is neither weights nor optimizer state.
  uint64_t hits = 0;            // Ids of training pulls that had a row.
  uint64_t created = 0;         // Ids of training pulls that were given one.
  uint64_t refused = 0;         // Ids of training pulls that admission gave none.
  uint64_t rejected_full = 0;   // Ids of training pulls for which there was no room.
  uint64_t evicted = 0;
  std::array<uint64_t, kEvictionCauses> evicted_for{};  // By EvictionCause.
  uint64_t evaluated = 0;                               // Ids of evaluating pulls that had a row.
  uint64_t unseen = 0;                                  // Ids of evaluating pulls that had none.
  uint64_t updated = 0;                                 // Gradients applied.
  uint64_t missing = 0;  // Gradients dropped, because their row was gone.
  // Hits by how long ago, in steps, their row had been pulled before: [0] in the same step, [i]
  // less than 2^i and at least 2^(i-1) steps ago. Of every eighth position of a request.
  std::array<uint64_t, 33> pulled_before{};
};

// The rows of one layout in one partition: an embedding array list.
//
// Invariants: an id has at most one row; a row never moves; at most capacity_rows rows exist, and
// the one evicted for a new one is the least recently used by stamp (see recency_queue.h for how
// exactly, when ten thousands of rows bear stamps that are close). Once the table is full, requests
// of sizes seen before allocate nothing.
//
// Rows that the rules of config.eviction end are gone for every pull, push and visit from that step
// on. Their memory is taken back by a sweep that looks at as many rows as a training pull has ids,
// before it: no request waits for more, and what is evicted depends on the requests alone.
//
// Threads: one owner. Bad arguments are programming errors here; Partition checks requests.
class Table {
 public:
  static constexpr uint32_t kMaxDim = 1024;

  // Errors: INVALID_ARGUMENT for a dim, capacity, bound or rate outside its range.
  static Status Validate(const TableConfig& config);

  // Address space of the arena that a table may take. Requires a valid config.
  static uint64_t ReservationFor(const TableConfig& config);

  // How many rows of a table fit into so many bytes, with all that belongs to them while the table
  // grows; at least 1. Sketches of admission are not counted.
  static uint64_t RowsIn(const TableConfig& config, uint64_t bytes);

  // Requires a valid config. The first seed of its rows' weights is `seed`. config.capacity_bytes
  // is the caller's matter: only rows count here.
  // Lifetime: `arena` outlives the table and stays in place.
  Table(const TableConfig& config, uint64_t seed, Arena& arena);
  ~Table();

  struct PullCounts {
    uint64_t found = 0;
    uint64_t created = 0;
    uint64_t refused = 0;
    uint64_t evicted = 0;
    uint64_t rejected_full = 0;
    uint64_t evicted_for_space = 0;  // Of the evicted, those that went for want of room.
  };

  // Reads the rows of `ids` in order, creating those that are missing, unless admission refuses:
  // those read as zeros. Rows that were there are stamped and copied before anything is evicted; an
  // id given twice is read twice, and counts twice for admission.
  //
  // rows: (U, D) overwritten, rounded to the nearest number of their precision. `stamp`: recency of
  // this pull; pulls with an older one than the newest so far count as of the newest. Cost: about
  // three cache misses a row at dim 16, overlapped over the request.
  PullCounts Pull(std::span<const uint64_t> ids, EncodedRows rows, uint64_t stamp);

  // Reads the rows of `ids` and changes nothing but the counts; zeros where there is no row.
  // Returns how many had one.
  //
  // rows: as of Pull.
  uint64_t Evaluate(std::span<const uint64_t> ids, EncodedRows rows);

  // Applies the optimizer to the rows of `ids` in order. The gradient of an id without a row is
  // dropped. Returns how many were applied.
  //
  // gradients: (U, D), finite. `step`: what rounding to less than f32 depends on, beside seed and
  // id; use each once for an id. journal: told of rows before they change; may be null.
  uint64_t Push(std::span<const uint64_t> ids, CodedGradients gradients, float learning_rate,
                uint64_t step, PushJournal* journal = nullptr);

  // Null for none. Lifetime: until replaced, or the table goes.
  void SetEvictionListener(EvictionListener* listener);

  // From now on the table grows only as the budget grants; null: as it likes. When it may not, what
  // happens is config.when_full's matter. Lifetime: the table's.
  void SetMemoryBudget(MemoryBudget* budget);

  // What eviction.idle_time goes by; steady_clock unless set.
  void SetClock(std::function<std::chrono::steady_clock::time_point()> clock);

  // Calls `visit` for every row, in no particular order.
  void ForEachRow(absl::FunctionRef<void(const RowContents&)> visit) const;

  // Equal for equal sets of rows (ids, weights and optimizer state, bit by bit) in any order: the
  // sum of the rows' hashes. Digests of disjoint sets add up, over partitions and servers too.
  // Cost: reads all rows.
  uint64_t ContentDigest() const;

  const TableConfig& config() const;
  // Where the arena's description of the table lies.
  uint64_t arena_record() const;
  TableStats stats() const;
  // Of the ids of training pulls. An id that has a row had none before it was first asked for, so
  // only those without one are shown to the counter.
  const DistinctCounter& distinct_ids() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
