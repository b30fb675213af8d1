#include "simurgh/table/table.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"
#include "simurgh/base/hash.h"
#include "table/admission.h"
#include "table/arena.h"
#include "table/batch_lookup.h"
#include "table/recency_queue.h"
#include "table/row_index.h"
#include "table/row_layout.h"
#include "table/row_store.h"

namespace simurgh {
namespace {

// How far the buckets of new rows and the rows of victims are fetched ahead of their use.
constexpr size_t kBucketsAhead = 16;
constexpr size_t kVictimsAhead = 4;
constexpr uint32_t kMaxSketchWidth = 65'536;
constexpr float kMaxF16 = 65'504.0F;
constexpr uint16_t kMaxUseCount = std::numeric_limits<uint16_t>::max();
// Where the newest stamp is put when the 32 bits of a row's recency run out.
constexpr uint64_t kRebasedStamp = uint64_t{1} << 31;

bool Positive(float value) { return value > 0 && std::isfinite(value); }

}  // namespace

struct Table::State {
  State(const TableConfig& table_config, uint64_t seed, Arena& arena)
      : config(table_config),
        admission(config.admission, config.name, seed),
        store(config, seed, arena),
        rows(store.rows()),
        index(arena, config.capacity_rows, IdsOf(rows)),
        lookup(index, rows),
        queue(arena, config.capacity_rows, RecencyOf(rows)) {}

  // What a pull reads of a record.
  uint64_t PulledBytes() const { return sizeof(RowHeader) + store.format().weight_bytes(); }
  uint32_t Lookup(uint64_t id) const { return index.Find(id, RowIndex::Hash(id)); }

  uint32_t StampOf(uint64_t stamp);
  void Rebase(uint64_t newest);
  void Touch(uint32_t row, uint32_t stamp);

  uint32_t Create(uint64_t id, uint32_t stamp);
  void Evict(uint32_t now);
  void PrefetchVictims() const;

  TableConfig config;
  Admission admission;
  RowStore store;
  const Rows& rows;
  RowIndex index;
  BatchLookup lookup;
  RecencyQueue queue;

  uint64_t stamp_origin = 0;  // A row's recency is its stamp minus this.
  uint64_t newest_stamp = 0;
  EvictionListener* listener = nullptr;
  TableStats counts;

  std::vector<size_t> absent;  // Positions in a request, kept for its memory.
};

// A stamp as rows bear it. Requires stamp >= newest_stamp.
uint32_t Table::State::StampOf(uint64_t stamp) {
  newest_stamp = stamp;
  if (stamp - stamp_origin >= kFreeRecency) Rebase(stamp);
  return static_cast<uint32_t>(stamp - stamp_origin);
}

// Moves the origin up, once in 2^31 steps. Rows that are older than that become equally old.
void Table::State::Rebase(uint64_t newest) {
  const uint64_t shift = newest - kRebasedStamp - stamp_origin;
  stamp_origin += shift;
  queue.Clear();
  for (uint32_t row = 0; row < store.carved_rows(); ++row) {
    RowHeader& header = rows.header(row);
    if (header.recency == kFreeRecency) continue;
    header.recency =
        static_cast<uint32_t>(header.recency - std::min<uint64_t>(header.recency, shift));
    queue.Add(row);
  }
}

void Table::State::Touch(uint32_t row, uint32_t stamp) {
  RowHeader& header = rows.header(row);
  header.recency = stamp;
  header.use_count = static_cast<uint16_t>(header.use_count + (header.use_count < kMaxUseCount));
}

// Requires that the id has no row.
uint32_t Table::State::Create(uint64_t id, uint32_t stamp) {
  if (index.size() == config.capacity_rows) Evict(stamp);
  const uint32_t row = store.Acquire();
  rows.header(row) = {.id = id, .recency = stamp, .epoch = 0, .use_count = 1};
  store.Initialize(row, id);
  index.Insert(RowIndex::Hash(id), row);
  queue.Add(row);
  ++counts.created;
  return row;
}

// Brings near what the next evictions will touch: first their records, whose ids then tell the
// buckets.
void Table::State::PrefetchVictims() const {
  if (const uint32_t row = queue.Upcoming(2 * kVictimsAhead); row != kNoRow) {
    rows.Prefetch(row, rows.layout().stride_bytes);
  }
  if (const uint32_t row = queue.Upcoming(kVictimsAhead); row != kNoRow) {
    index.Prefetch(RowIndex::Hash(rows.header(row).id));
  }
}

void Table::State::Evict(uint32_t now) {
  PrefetchVictims();
  const uint32_t row = queue.PopOldest(now);
  const uint64_t id = rows.header(row).id;
  if (listener != nullptr) listener->RowEvicted(id);
  index.Erase(RowIndex::Hash(id), row);
  store.Release(row);
  ++counts.evicted;
}

Status Table::Validate(const TableConfig& config) {
  const auto invalid = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("table '", config.name, "': ", what));
  };
  if (config.dim == 0 || config.dim > kMaxDim) {
    return invalid(absl::StrCat("dim is ", config.dim, ", must be 1 to ", kMaxDim));
  }
  if (config.capacity_rows == 0 || config.capacity_rows >= kNoRow) {
    return invalid(absl::StrCat("a partition's share of capacity_rows is ", config.capacity_rows,
                                ", must be 1 to ", kNoRow - 1, "; change it or the partitions"));
  }
  if (!Positive(config.weight_bound)) {
    return invalid(absl::StrCat("weight_bound is ", config.weight_bound, ", must be above 0"));
  }
  if (config.precision == RowPrecision::kF16 && config.weight_bound > kMaxF16) {
    return invalid(
        absl::StrCat("weight_bound is ", config.weight_bound, ", f16 ends at ", kMaxF16));
  }
  if (config.state_precision == RowPrecision::kF16) {
    return invalid("state_precision is f16, must be f32 or bf16");
  }
  if (!Positive(config.admission.probability) || config.admission.probability > 1 ||
      config.admission.occurrences == 0 || config.admission.occurrences > 255 ||
      config.admission.sketch_width == 0 || config.admission.sketch_width > kMaxSketchWidth) {
    return invalid(absl::StrCat("admission has probability ", config.admission.probability,
                                " (0 to 1), occurrences ", config.admission.occurrences,
                                " (1 to 255), sketch_width ", config.admission.sketch_width,
                                " (1 to ", kMaxSketchWidth, ")"));
  }
  if (!Positive(config.optimizer.learning_rate)) {
    return invalid(
        absl::StrCat("learning_rate is ", config.optimizer.learning_rate, ", must be above 0"));
  }
  return absl::OkStatus();
}

uint64_t Table::ReservationFor(const TableConfig& config) {
  const uint64_t rows = config.capacity_rows;
  return RowStore::ReservationFor(config) + Arena::ReservationFor(RowIndex::ReservationFor(rows)) +
         Arena::ReservationFor(RecencyQueue::ReservationFor(rows));
}

Table::Table(const TableConfig& config, uint64_t seed, Arena& arena)
    : state_(std::make_unique<State>(config, seed, arena)) {}

Table::~Table() = default;

Table::PullCounts Table::Pull(std::span<const uint64_t> ids, MatrixView<float> rows,
                              uint64_t stamp) {
  State& s = *state_;
  SIMURGH_CHECK_EQ(rows.rows(), ids.size());
  SIMURGH_CHECK_EQ(rows.columns(), s.config.dim);
  const uint32_t now = s.StampOf(std::max(stamp, s.newest_stamp));
  RowStore::Reader reader(s.store);
  s.absent.clear();
  s.lookup.ForEach(ids, s.PulledBytes(), [&](size_t at, uint32_t row) {
    if (row == kNoRow) {
      s.absent.push_back(at);
      return;
    }
    s.Touch(row, now);
    reader.Add(row, rows.row(at).data());
  });
  reader.Flush();  // Before anything is evicted.
  PullCounts counts{.found = ids.size() - s.absent.size()};
  const uint64_t created_before = s.counts.created;
  const uint64_t evicted_before = s.counts.evicted;
  for (size_t i = 0; i < s.absent.size(); ++i) {
    if (const size_t next = i + kBucketsAhead; next < s.absent.size()) {
      s.index.Prefetch(RowIndex::Hash(ids[s.absent[next]]));
    }
    const size_t at = s.absent[i];
    // An id given twice has a row by now, unless that was evicted again.
    uint32_t row = s.Lookup(ids[at]);
    if (row == kNoRow && !s.admission.Admit(ids[at])) {
      std::ranges::fill(rows.row(at), 0.0F);
      ++counts.refused;
      continue;
    }
    if (row == kNoRow) {
      row = s.Create(ids[at], now);
    } else {
      s.Touch(row, now);
      ++counts.found;
    }
    reader.Add(row, rows.row(at).data());
    reader.Flush();
  }
  counts.created = s.counts.created - created_before;
  counts.evicted = s.counts.evicted - evicted_before;
  s.counts.hits += counts.found;
  s.counts.refused += counts.refused;
  return counts;
}

uint64_t Table::Evaluate(std::span<const uint64_t> ids, MatrixView<float> rows) {
  State& s = *state_;
  SIMURGH_CHECK_EQ(rows.rows(), ids.size());
  SIMURGH_CHECK_EQ(rows.columns(), s.config.dim);
  RowStore::Reader reader(s.store);
  uint64_t seen = 0;
  s.lookup.ForEach(ids, s.PulledBytes(), [&](size_t at, uint32_t row) {
    const std::span<float> to = rows.row(at);
    if (row == kNoRow) {
      std::fill(to.begin(), to.end(), 0.0F);
      return;
    }
    reader.Add(row, to.data());
    ++seen;
  });
  reader.Flush();
  s.counts.evaluated += seen;
  s.counts.unseen += ids.size() - seen;
  return seen;
}

uint64_t Table::Push(std::span<const uint64_t> ids, MatrixView<const float> gradients,
                     float learning_rate, uint64_t step) {
  State& s = *state_;
  SIMURGH_CHECK_EQ(gradients.rows(), ids.size());
  SIMURGH_CHECK_EQ(gradients.columns(), s.config.dim);
  RowStore::Updater updater(s.store, learning_rate, step);
  uint64_t updated = 0;
  s.lookup.ForEach(ids, s.rows.layout().stride_bytes, [&](size_t at, uint32_t row) {
    if (row == kNoRow) return;
    updater.Add(row, gradients.row(at).data());
    ++updated;
  });
  updater.Flush();
  s.counts.updated += updated;
  s.counts.missing += ids.size() - updated;
  return updated;
}

void Table::SetEvictionListener(EvictionListener* listener) { state_->listener = listener; }

void Table::ForEachRow(absl::FunctionRef<void(const RowContents&)> visit) const {
  const State& s = *state_;
  std::vector<float> scratch(s.store.format().floats());
  for (uint32_t row = 0; row < s.store.carved_rows(); ++row) {
    const RowHeader& header = s.rows.header(row);
    if (header.recency == kFreeRecency) continue;
    const std::span<const float> values = s.store.Values(row, scratch);
    visit({.id = header.id,
           .use_count = header.use_count,
           .recency = s.stamp_origin + header.recency,
           .weights = values.first(s.config.dim),
           .state = values.subspan(s.config.dim)});
  }
}

uint64_t Table::ContentDigest() const {
  uint64_t digest = 0;
  ForEachRow([&](const RowContents& row) {
    // The state stands right behind the weights.
    const std::string_view bytes(reinterpret_cast<const char*>(row.weights.data()),
                                 row.weights.size_bytes() + row.state.size_bytes());
    digest += HashBytes(bytes, Mix64(row.id));
  });
  return digest;
}

const TableConfig& Table::config() const { return state_->config; }

TableStats Table::stats() const {
  const State& s = *state_;
  TableStats stats = s.counts;
  stats.rows = s.index.size();
  stats.capacity_rows = s.config.capacity_rows;
  stats.bytes =
      s.store.bytes_used() + s.index.bytes_used() + s.queue.bytes_used() + s.admission.bytes_used();
  stats.overhead_bytes = stats.bytes - stats.rows * s.store.format().payload_bytes();
  return stats;
}

}  // namespace simurgh
