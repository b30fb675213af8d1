#include "table/table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/hash.h"
#include "table/arena.h"
#include "table/cold_rows.h"
#include "table/eviction.h"
#include "table/row_index.h"
#include "table/row_layout.h"
#include "table/row_store.h"
#include "table/simd/pull_rows.h"
#include "table/table_state.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

// Ids are looked up in blocks, and the missing ones of a block are created while its buckets are
// still in the cache.
constexpr size_t kBlock = 1024;
static_assert(kBlock <= BatchLookup::kBlock && kBlock % kAgeEvery == 0);

// Bytes of index and eviction queue per row while the index grows.
constexpr uint64_t kIndexBytesPerRow = 24;

// A part of records, from the first one on.
struct Column {
  const std::byte* first;
  uint64_t stride_bytes;
};

// `bytes` is kBytes, unless that is 0: a call to memcpy would double the cost of a short row.
template <size_t kBytes>
void CopyColumnOf(Column column, size_t bytes, size_t count, std::byte* to) {
  if constexpr (kBytes != 0) bytes = kBytes;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * bytes, column.first + i * column.stride_bytes, bytes);
  }
}

void CopyColumn(Column column, size_t bytes, size_t count, std::byte* to) {
  switch (bytes) {
    case 4:
      return CopyColumnOf<4>(column, bytes, count, to);
    case 32:
      return CopyColumnOf<32>(column, bytes, count, to);
    case 64:
      return CopyColumnOf<64>(column, bytes, count, to);
    case 128:
      return CopyColumnOf<128>(column, bytes, count, to);
    default:
      return CopyColumnOf<0>(column, bytes, count, to);
  }
}

}  // namespace

PullReport& PullReport::operator+=(const PullReport& other) {
  found += other.found;
  created += other.created;
  unseen += other.unseen;
  rejected_admission += other.rejected_admission;
  rejected_full += other.rejected_full;
  evicted += other.evicted;
  evicted_for_space += other.evicted_for_space;
  return *this;
}

TableMemory& TableMemory::operator+=(const TableMemory& other) {
  rows += other.rows;
  sketches += other.sketches;
  weights += other.weights;
  state += other.state;
  headers += other.headers;
  index += other.index;
  queue += other.queue;
  admission += other.admission;
  ahead += other.ahead;
  cold_rows += other.cold_rows;
  cold += other.cold;
  disk += other.disk;
  return *this;
}

PushReport& PushReport::operator+=(const PushReport& other) {
  updated += other.updated;
  missing += other.missing;
  gradients_not_finite += other.gradients_not_finite;
  rows_not_finite += other.rows_not_finite;
  if (!other.all_finite()) not_finite_table = other.not_finite_table;
  return *this;
}

Table::Table(const TableConfig& config, uint64_t seed, Arena& arena, MemoryBudget* budget,
             ColdDisk* cold)
    : state_(std::make_unique<State>(config, seed, arena, budget, cold)) {}

Table::~Table() = default;

Status Table::CommitFirstRow() { return state_->Commit(1); }

std::unique_ptr<Table::Ahead> Table::ReadAhead(std::span<const uint64_t> ids,
                                               ColdDisk::Urgency urgency) {
  class ColdAhead : public Ahead {
   public:
    explicit ColdAhead(ColdRows::Ahead ahead) : ahead_(std::move(ahead)) {}
    bool done() const override { return ahead_.done(); }
    bool is_used_up() const override { return ahead_.is_used_up(); }

   private:
    const ColdRows::Ahead ahead_;
  };
  if (state_->cold_rows() == 0) return nullptr;
  return std::make_unique<ColdAhead>(state_->cold->ReadAhead(ids, urgency));
}

PullReport Table::Pull(std::span<const uint64_t> ids, EncodedRows rows, uint64_t stamp) {
  std::vector<uint32_t> none;
  return PullClosed(ids, rows, stamp, std::numeric_limits<uint64_t>::max(), none);
}

bool Table::CanCreateAll(size_t ids) const { return state_->CanCreateAll(ids); }

PullReport Table::PullClosed(std::span<const uint64_t> ids, EncodedRows rows, uint64_t stamp,
                             uint64_t open_from, std::vector<uint32_t>& left_out) {
  State& s = *state_;
  SIMURGH_CHECK_EQ(rows.rows(), ids.size());
  SIMURGH_CHECK_EQ(rows.columns(), s.config.dim);
  const uint64_t created_before = s.counts.created;
  const uint64_t evicted_before = s.counts.evicted;
  const uint64_t rejected_full_before = s.counts.rejected_full;
  const uint64_t evicted_for_space_before = s.EvictedForSpace();
  const uint32_t now = s.BeginPull(stamp);
  const auto open = static_cast<uint32_t>(
      std::min<uint64_t>(open_from - std::min(open_from, s.stamp_origin), kFreeRecency));
  if (s.expiry.active()) s.Sweep(ids.size());
  s.CommitRows(std::min<uint64_t>(ids.size(), s.row_limit - s.index.size()));
  PullReport counts;
  // If a row may have to be evicted, all existing rows are read before any is created.
  const bool fits = s.CanCreateAll(ids.size());
  const size_t block_size = fits ? kBlock : std::max<size_t>(ids.size(), 1);
  for (size_t begin = 0; begin < ids.size(); begin += block_size) {
    const size_t count = std::min(block_size, ids.size() - begin);
    const auto block = ids.subspan(begin, count);
    const EncodedRows to = rows.Rows(begin, count);
    s.PullPresent(block, to, now, open);
    counts.found += count - s.absent.size() - s.open.size();
    if (s.cold_rows() > 0) s.PullCold(block, to, now, open, counts);
    std::ranges::sort(s.open);
    for (const size_t at : s.open) left_out.push_back(static_cast<uint32_t>(begin + at));
    fits ? s.PullNew(block, to, now, counts) : s.PullAbsent(block, to, now, counts);
  }
  s.MaintainCold();
  counts.created = s.counts.created - created_before;
  counts.evicted = s.counts.evicted - evicted_before;
  s.counts.hits += counts.found;
  s.counts.rejected_admission += counts.rejected_admission;
  counts.evicted_for_space = s.EvictedForSpace() - evicted_for_space_before;
  counts.rejected_full = s.counts.rejected_full - rejected_full_before;
  return counts;
}

uint64_t Table::Evaluate(std::span<const uint64_t> ids, EncodedRows rows) {
  State& s = *state_;
  SIMURGH_CHECK_EQ(rows.rows(), ids.size());
  SIMURGH_CHECK_EQ(rows.columns(), s.config.dim);
  RowStore::Reader reader(s.store, rows.precision());
  uint64_t seen = 0;
  s.absent.clear();
  s.lookup.ForEach(ids, s.PulledBytes(), [&](size_t at, uint32_t row) {
    if (row == kNoRow || s.HasExpired(row)) {
      std::memset(rows.row(at), 0, rows.row_bytes());
      s.absent.push_back(at);
      return;
    }
    reader.Add(row, rows.row(at));
    ++seen;
  });
  for (const ColdRows::Row& cold : s.FetchColdAt(ids, s.absent)) {
    const std::byte* const values = cold.record + sizeof(RowHeader);
    if (s.Expired(cold.header(), values)) continue;
    reader.AddValues(values, rows.row(s.absent[cold.at]));
    ++seen;
  }
  reader.Flush();
  s.counts.evaluated += seen;
  s.counts.unseen += ids.size() - seen;
  return seen;
}

PushReport Table::Push(std::span<const uint64_t> ids, EncodedGradients gradients,
                       float learning_rate, uint64_t step) {
  State& s = *state_;
  SIMURGH_CHECK_EQ(gradients.rows(), ids.size());
  SIMURGH_CHECK_EQ(gradients.columns(), s.config.dim);
  RowStore::Updater updater(s.store, gradients.precision(), learning_rate, step);
  uint64_t found = 0;
  s.absent.clear();
  s.lookup.ForEach(ids, s.rows.layout().stride_bytes, [&](size_t at, uint32_t row) {
    if (row == kNoRow) s.absent.push_back(at);
    if (row == kNoRow || !s.Claim(row, /*keeps_stamp=*/true)) return;
    updater.Add(row, gradients.row(at));
    ++found;
  });
  updater.Flush();
  // Rows that have left memory since their pull.
  const auto now = static_cast<uint32_t>(s.newest_stamp - s.stamp_origin);
  std::vector<size_t> left;
  bool has_reclaimed = false;
  while (s.cold_rows() > 0 && !s.absent.empty() && s.cold_failure.ok()) {
    left.clear();
    const uint64_t found_before = found;
    for (const ColdRows::Row& cold : s.FetchColdAt(ids, s.absent)) {
      const uint32_t row = s.Warm(cold, now);
      if (row == kNoRow && s.cold->Has(cold)) left.push_back(s.absent[cold.at]);
      if (row == kNoRow) continue;
      updater.Add(row, gradients.row(s.absent[cold.at]));
      updater.Flush();  // The next one may send this row back to the disk.
      ++found;
    }
    if (!left.empty()) {
      if (found == found_before && std::exchange(has_reclaimed, true)) s.FailToWarm();
      s.ReclaimCold();
    }
    s.absent.swap(left);
  }
  s.MaintainCold();
  const uint64_t bad_gradients = updater.gradients_not_finite();
  const PushReport report{.updated = found - bad_gradients - updater.rows_not_finite(),
                          .missing = ids.size() - found,
                          .gradients_not_finite = bad_gradients,
                          .rows_not_finite = updater.rows_not_finite()};
  s.counts.updated += report.updated;
  s.counts.missing += report.missing;
  s.counts.gradients_not_finite += report.gradients_not_finite;
  s.counts.rows_not_finite += report.rows_not_finite;
  return report;
}

const Status& Table::failure() const { return state_->cold_failure; }
const Status& Table::cold_refusal() const { return state_->cold_refusal; }

void Table::SetClock(std::function<std::chrono::steady_clock::time_point()> clock) {
  state_->clock = std::move(clock);
}

void Table::ForEachRow(absl::FunctionRef<void(const RowContents&)> visit) const {
  State& s = *state_;
  std::vector<float> scratch(s.store.format().floats());
  const auto show = [&](const RowHeader& header, const std::byte* encoded) {
    const std::span<const float> values = s.store.ValuesAt(encoded, scratch);
    visit({.id = header.id,
           .use_count = header.use_count,
           .recency = s.stamp_origin + header.recency,
           .weights = values.first(s.config.dim),
           .state = values.subspan(s.config.dim)});
  };
  for (uint32_t row = 0; row < s.store.carved_rows(); ++row) {
    const RowHeader& header = s.rows.header(row);
    if (header.recency == kFreeRecency || s.HasExpired(row)) continue;
    show(header, s.rows.values(row));
  }
  if (s.cold_rows() == 0) return;
  s.cold_failure.Update(s.cold->ForEach([&](const ColdRows::Row& row) {
    const std::byte* const values = row.record + sizeof(RowHeader);
    if (!s.Expired(row.header(), values)) show(row.header(), values);
  }));
}

std::vector<TensorSpec> Table::FileTensors(const TableConfig& config, uint64_t rows) {
  std::vector<TensorSpec> tensors = {
      {"id", DType::kU64, {}}, {"uses", DType::kU16, {}}, {"recency", DType::kU64, {}}};
  for (RowColumn& column : ColumnsOf(config)) tensors.push_back(std::move(column.tensor));
  for (TensorSpec& tensor : tensors) tensor.shape.insert(tensor.shape.begin(), rows);
  return tensors;
}

TensorMetadata Table::FileMetadata(const TableConfig& config) {
  TensorMetadata metadata = {{"table", config.name}};
  for (const RowColumn& column : ColumnsOf(config)) {
    if (column.tensor.dtype == DType::kU16) {
      metadata[absl::StrCat(column.tensor.name, ".format")] = "bf16";
    }
  }
  return metadata;
}

uint64_t Table::BeginCopy(CopyMemory& memory, CopyBase base) {
  State& s = *state_;
  s.changes.Begin(base, s.all_rows());
  s.copy_stamp = s.newest_stamp + 1;
  s.copy.Begin(static_cast<uint32_t>(s.copy_stamp - s.stamp_origin), s.store.carved_rows(),
               s.index.size(), memory);
  if (s.cold != nullptr) s.cold->BeginCopy(base);
  s.SetSuspects();
  return s.all_rows();
}

std::optional<TableChanges> Table::changes() const {
  const ChangeLog& changes = state_->changes;
  if (!changes.known()) return std::nullopt;
  const uint64_t cold = state_->cold == nullptr ? 0 : state_->cold->CountChanges();
  return TableChanges{changes.Count() + cold, changes.removed()};
}

void Table::CopyChanges() {
  SIMURGH_CHECK(state_->changes.known());
  state_->copy.Restrict(state_->changes, state_->changes.Count());
  if (state_->cold != nullptr) state_->cold->CopyChanges();
}

CopiedRows Table::TakeRows(size_t count) {
  State& s = *state_;
  CopiedRows taken = s.copy.Take(count);
  if (s.cold != nullptr && taken.done) {
    if (taken.rows == 0) {
      const StatusOr<uint64_t> more = s.cold->TakeCopied(count, taken.blocks.emplace_back());
      if (more.ok()) taken.rows += *more;
      taken.failure = more.status();
      s.cold_failure.Update(more.status());
    }
    taken.done = s.cold->copy_done();
  }
  taken.failure = s.cold_failure;
  taken.stamp_origin = s.stamp_origin;
  s.SetSuspects();
  return taken;
}

CopiedRows Table::TakeEarlyRows() {
  CopiedRows taken = state_->copy.TakeEarly();
  taken.failure = state_->cold_failure;
  taken.done = taken.done && (state_->cold == nullptr || state_->cold->copy_done());
  taken.stamp_origin = state_->stamp_origin;
  return taken;
}

void Table::EndCopy() {
  state_->copy.End();
  if (state_->cold != nullptr) state_->cold->EndCopy();
  if (!state_->changes.active()) state_->copy_stamp = 0;
  state_->SetSuspects();
}

uint64_t Table::EarlyBytes(size_t ids) const {
  const State& s = *state_;
  // An id can take a row, or evict one; its own may have expired, and the sweep removes another.
  const uint64_t most = s.expiry.active() ? uint64_t{3} * ids : ids;
  return std::min(most, s.copy.rows_left()) * s.rows.layout().stride_bytes;
}

void Table::SplitRows(const TableConfig& config, uint64_t stamp_origin,
                      std::span<const std::vector<std::byte>> blocks,
                      std::span<std::vector<std::byte>> parts) {
  const std::vector<RowColumn> columns = ColumnsOf(config);
  SIMURGH_CHECK_EQ(parts.size(), 3 + columns.size());
  const uint64_t stride_bytes = RowLayout(RowStore::FormatOf(config)).stride_bytes;
  size_t all = 0;
  for (const std::vector<std::byte>& block : blocks) all += block.size() / stride_bytes;
  parts[0].resize(all * sizeof(uint64_t));
  parts[1].resize(all * sizeof(uint16_t));
  parts[2].resize(all * sizeof(uint64_t));
  for (size_t c = 0; c < columns.size(); ++c) {
    parts[3 + c].resize(all * columns[c].bytes);
  }
  size_t first = 0;
  for (const std::vector<std::byte>& block : blocks) {
    const size_t count = block.size() / stride_bytes;
    if (count == 0) continue;
    for (size_t i = 0; i < count; ++i) {
      RowHeader header;
      std::memcpy(&header, block.data() + i * stride_bytes, sizeof(header));
      const auto set = [&](size_t part, auto value) {
        std::memcpy(parts[part].data() + (first + i) * sizeof(value), &value, sizeof(value));
      };
      set(0, header.id);
      set(1, static_cast<uint16_t>(header.use_count));
      set(2, stamp_origin + header.recency);
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::byte* from = block.data() + sizeof(RowHeader) + columns[c].offset;
      std::byte* to = parts[3 + c].data() + first * columns[c].bytes;
      CopyColumn({from, stride_bytes}, columns[c].bytes, count, to);
    }
    first += count;
  }
}

Status Table::PutRows(std::span<const std::span<const std::byte>> parts,
                      std::span<const uint32_t> rows) {
  State& s = *state_;
  const std::vector<RowColumn> columns = ColumnsOf(s.config);
  SIMURGH_CHECK_EQ(parts.size(), 3 + columns.size());
  const auto value = [&parts]<typename T>(size_t part, size_t row, T /*type*/) {
    T read;
    std::memcpy(&read, parts[part].data() + row * sizeof(T), sizeof(T));
    return read;
  };
  uint64_t newest = s.newest_stamp;
  for (const uint32_t from : rows) newest = std::max(newest, value(2, from, uint64_t{}));
  const uint32_t now = s.BeginPull(newest);
  s.CommitRows(std::min<uint64_t>(rows.size(), s.row_limit - s.index.size()));
  std::vector<float> scratch(s.store.format().floats());
  for (size_t i = 0; i < rows.size(); ++i) {
    constexpr size_t kAhead = 16;
    if (i + kAhead < rows.size()) {
      s.index.Prefetch(RowIndex::Hash(value(0, rows[i + kAhead], uint64_t{})));
    }
    const uint32_t from = rows[i];
    const auto id = value(0, from, uint64_t{});
    const bool is_cold = s.cold_rows() > 0 && s.cold->MayHave(id) && !s.FetchCold({&id, 1}).empty();
    if (is_cold || s.index.Find(id, RowIndex::Hash(id)) != kNoRow) {
      return absl::DataLossError(
          absl::StrCat("table '", s.config.name, "': id ", id, " has two rows"));
    }
    s.distinct.Add(id);
    const uint64_t stamp = value(2, from, uint64_t{});
    const RowHeader header = {
        .id = id,
        .recency = static_cast<uint32_t>(stamp - std::min(stamp, s.stamp_origin)),
        .use_count = std::max<uint32_t>(value(1, from, uint16_t{}), 1)};
    const uint32_t row = s.Put(header, now);
    if (row == kNoRow) {
      return absl::ResourceExhaustedError(
          absl::StrCat("table '", s.config.name, "': full at ", s.all_rows(),
                       " rows; raise its capacity, or set when_full: evict"));
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      std::memcpy(s.rows.values(row) + columns[c].offset,
                  parts[3 + c].data() + size_t{from} * columns[c].bytes, columns[c].bytes);
    }
    if (!AllFinite(s.store.Values(row, scratch))) {
      return absl::DataLossError(absl::StrCat("table '", s.config.name, "': the row of id ", id,
                                              " has a number that is not finite"));
    }
  }
  s.MaintainCold();
  return s.cold_failure;
}

Status Table::PutInitialRows(std::span<const uint64_t> ids, std::span<const float> weights) {
  const TableConfig& config = state_->config;
  SIMURGH_CHECK_EQ(weights.size(), ids.size() * config.dim);
  const std::vector<RowColumn> columns = ColumnsOf(config);
  const RowUpdateParameters parameters = ParametersOf(config);
  const RowFormat& format = state_->store.format();
  std::vector<std::vector<std::byte>> parts(3 + columns.size());
  parts[0].resize(ids.size_bytes());
  std::ranges::copy(std::as_bytes(ids), parts[0].begin());
  parts[1].resize(ids.size() * sizeof(uint16_t));
  parts[2].resize(ids.size() * sizeof(uint64_t));
  std::vector<float> row(format.floats());
  std::vector<std::byte> values(format.bytes());
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> own = std::span(row).first(config.dim);
    std::ranges::copy(weights.subspan(i * config.dim, config.dim), own.begin());
    if (!AllFinite(own)) {
      return absl::InvalidArgumentError(absl::StrCat("table '", config.name, "': the row of id ",
                                                     ids[i], " has a number that is not finite"));
    }
    for (float& weight : own) {
      weight = std::clamp(weight, -config.weight_bound, config.weight_bound);
    }
    InitializeStateFor(parameters, own, std::span(row).subspan(config.dim));
    EncodeNewRow(format, row.data(), values.data());
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto from = values.begin() + columns[c].offset;
      parts[3 + c].insert(parts[3 + c].end(), from, from + columns[c].bytes);
    }
    numbers.push_back(static_cast<uint32_t>(i));
  }
  const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  return PutRows(views, numbers);
}

std::vector<TensorSpec> Table::AdmissionTensors(const TableConfig& config, uint64_t sketches) {
  return Admission::FileTensors(config.admission, sketches);
}

uint64_t Table::sketches() const { return state_->admission.sketches(); }

void Table::CopyAdmission(std::span<std::vector<std::byte>> parts) const {
  state_->admission.Copy(parts);
}

Status Table::PutAdmission(std::span<const std::span<const std::byte>> parts,
                           absl::FunctionRef<bool(uint16_t bucket)> owns) {
  return Annotate(state_->admission.Put(parts, owns),
                  absl::StrCat("table '", state_->config.name, "'"));
}

uint64_t Table::ContentDigest() const {
  uint64_t digest = 0;
  ForEachRow([&](const RowContents& row) {
    // The state follows the weights in memory.
    const std::string_view bytes(reinterpret_cast<const char*>(row.weights.data()),
                                 row.weights.size_bytes() + row.state.size_bytes());
    digest += HashBytes(bytes, Mix64(row.id));
  });
  return digest;
}

const TableConfig& Table::config() const { return state_->config; }

const DistinctCounter& Table::distinct_ids() const { return state_->distinct; }

TableStats Table::stats() const {
  const State& s = *state_;
  TableStats stats = s.counts;
  stats.rows = s.all_rows();
  stats.capacity_rows = s.config.capacity_rows;
  stats.bytes =
      s.store.bytes_used() + s.index.bytes_used() + s.queue.bytes_used() + s.admission.bytes_used();
  if (s.cold != nullptr) {
    stats.bytes += s.cold->bytes_used();
    stats.cold_rows = s.cold->size();
    stats.cold_disk_bytes = s.cold->disk_bytes();
    stats.cooled = s.cold->counts().added;
    stats.warmed = s.cold->counts().removed;
    stats.cold_late = s.cold->counts().late;
    stats.cold_read_bytes = s.cold->counts().read_bytes;
    stats.cold_written_bytes = s.cold->counts().written_bytes;
  }
  stats.overhead_bytes = stats.bytes - s.index.size() * s.store.format().payload_bytes();
  return stats;
}

Status Table::Validate(const TableConfig& config) {
  SIMURGH_CHECK(config.dim > 0 && config.dim <= TableConfig::kMaxDim) << config.dim;
  SIMURGH_CHECK(config.state_precision != RowPrecision::kF16);
  if (config.capacity_rows > 0 && config.capacity_rows < kNoRow) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table '", config.name, "': a partition's share of capacity_rows is ",
                   config.capacity_rows, "; use 1 to ", kNoRow - 1, " per partition"));
}

uint64_t Table::ReservationFor(const TableConfig& config) {
  const uint64_t rows = config.capacity_rows;
  return RowStore::ReservationFor(config) + Arena::ReservationFor(RowIndex::ReservationFor(rows)) +
         Arena::ReservationFor(RecencyQueue::ReservationFor(rows));
}

uint64_t Table::RowsIn(const TableConfig& config, uint64_t bytes) {
  const RowLayout layout(RowStore::FormatOf(config));
  return std::max<uint64_t>(1, bytes / (layout.stride_bytes + kIndexBytesPerRow));
}

TableMemory Table::MemoryOf(const TableConfig& config, uint64_t ids, uint32_t buckets) {
  const bool by_chance = config.admission.kind == AdmissionConfig::Kind::kProbability;
  const double admitted =
      static_cast<double>(ids) * (by_chance ? double{config.admission.probability} : 1.0);
  TableMemory memory{
      .rows = std::min(static_cast<uint64_t>(std::llround(admitted)), config.capacity_rows)};
  // Returns how many of `all` bins have an id, if ids fall into them at random.
  const auto with_ids = [ids](double all) {
    return static_cast<uint64_t>(std::llround(-all * std::expm1(-static_cast<double>(ids) / all)));
  };
  if (config.admission.kind == AdmissionConfig::Kind::kOccurrences) {
    memory.sketches = with_ids(buckets);
  }
  const RowLayout layout(RowStore::FormatOf(config));
  const bool evicts = admitted > static_cast<double>(config.capacity_rows);
  const uint64_t warm =
      config.memory_rows == 0 ? memory.rows : std::min(memory.rows, config.memory_rows);
  memory.cold_rows = memory.rows - warm;
  memory.cold = ColdRows::MemoryFor(memory.cold_rows);
  memory.disk = ColdRows::DiskFor(memory.cold_rows, layout);
  memory.weights = warm * layout.format.weight_bytes();
  memory.state = warm * layout.format.payload_bytes() - memory.weights;
  const uint64_t store = warm * layout.stride_bytes;
  memory.headers = store - memory.weights - memory.state;
  memory.index = RowIndex::BytesFor(config.capacity_rows, warm);
  memory.queue = RecencyQueue::BytesFor(warm, evicts || memory.cold_rows > 0);
  const double groups = std::ceil(1.0 * buckets / Admission::kBucketsPerGroup);
  memory.admission = Admission::BytesFor(config.admission, with_ids(groups), memory.sketches);
  const auto ahead = [](uint64_t used, uint64_t capacity) {
    return ArenaRegion::ResidentBytes(used, capacity) - used;
  };
  memory.ahead = ahead(store, config.capacity_rows * layout.stride_bytes) +
                 ahead(memory.index, RowIndex::ReservationFor(config.capacity_rows)) +
                 ahead(memory.queue, RecencyQueue::ReservationFor(config.capacity_rows));
  return memory;
}

}  // namespace simurgh
