#include "table/table_state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh {
namespace {

constexpr size_t kVictimsAhead = 4;
constexpr size_t kSweptAhead = 8;
// The newest recency after a rebase.
constexpr uint64_t kRebasedStamp = uint64_t{1} << 31;
static_assert(EvictionConfig::kMaxIdleSteps < kRebasedStamp);  // Older rows have expired.
// A table requests a quarter of its memory at a time, within these bounds.
constexpr uint64_t kMinGrant = uint64_t{64} << 10;
constexpr uint64_t kMaxGrant = uint64_t{2} << 20;
constexpr uint64_t kSketchGrant = uint64_t{256} << 10;

}  // namespace

Table::State::State(const TableConfig& table_config, uint64_t seed, Arena& table_arena,
                    MemoryBudget* memory_budget, ColdDisk* cold_disk)
    : config(table_config),
      arena(table_arena),
      admission(config.admission, config.name, seed),
      store(config, seed, table_arena),
      rows(store.rows()),
      index(table_arena, config.capacity_rows, IdsOf(rows)),
      lookup(index, rows),
      queue(table_arena, config.capacity_rows, RecencyOf(rows), IdsOf(rows)),
      expiry(config.eviction),
      copy(rows),
      cold(cold_disk == nullptr ? nullptr : std::make_unique<ColdRows>(*cold_disk, rows.layout())),
      budget(memory_budget),
      row_limit(budget == nullptr ? MemoryRows() : 0) {
  if (!store.format().plain()) scratch.resize(store.format().floats());
}

Table::State::~State() {
  if (budget != nullptr) budget->Grant(0, granted_for_rows + granted_for_sketches);
}

uint32_t Table::State::BeginPull(uint64_t stamp) {
  newest_stamp = std::max({stamp, newest_stamp, copy_stamp});
  if (newest_stamp - stamp_origin >= kFreeRecency) Rebase();
  const auto now = static_cast<uint32_t>(newest_stamp - stamp_origin);
  denied = cold_denied = false;
  if (!expiry.active()) return now;
  expiry.Advance(newest_stamp, expiry.timed() ? clock() : Expiry::Clock::time_point());
  SetSuspects();
  return now;
}

void Table::State::SetSuspects() {
  const uint64_t live_from = std::max(expiry.live_from(), stamp_origin) - stamp_origin;
  suspect_below = std::max(static_cast<uint32_t>(live_from), CopyBound());
}

uint32_t Table::State::CopyBound() const {
  if (!changes.active()) return copy.bound();
  // See Rebase().
  return static_cast<uint32_t>(std::max(copy_stamp, stamp_origin + 1) - stamp_origin);
}

bool Table::State::ClaimSuspect(uint32_t row, bool keeps_stamp) {
  if (Expired(row)) return false;
  copy.Save(row, keeps_stamp);
  if (changes.active()) changes.Change(row);
  return true;
}

// Raises the origin, once in 2^31 steps. All rows older than that get recency 0, or 1 if they were
// pulled since the last copy began.
void Table::State::Rebase() {
  const uint64_t shift = newest_stamp - kRebasedStamp - stamp_origin;
  const uint32_t copy_bound = CopyBound();
  stamp_origin += shift;
  queue.Clear();
  for (uint32_t row = 0; row < store.carved_rows(); ++row) {
    RowHeader& header = rows.header(row);
    if (header.recency == kFreeRecency) {
      header.use_count = 0;
      continue;
    }
    const uint32_t least = copy_bound > 0 && header.recency >= copy_bound ? 1 : 0;
    header.recency =
        static_cast<uint32_t>(std::max<uint64_t>(header.recency, shift + least) - shift);
    queue.Add(row);
  }
  copy.Rebase(shift);
  if (cold != nullptr) {
    cold_failure.Update(cold->Rebase(static_cast<uint32_t>(std::min<uint64_t>(shift, UINT32_MAX))));
  }
  SetSuspects();
}

std::optional<EvictionCause> Table::State::Expired(uint32_t row) const {
  return Expired(rows.header(row), rows.values(row));
}

std::optional<EvictionCause> Table::State::Expired(const RowHeader& header,
                                                   const std::byte* values) const {
  return expiry.CauseOf(stamp_origin + header.recency, header.use_count, [&] {
    double sum = 0;
    for (const float weight : store.ValuesAt(values, scratch).first(config.dim)) {
      sum += double{weight} * double{weight};
    }
    return sum;
  });
}

uint32_t Table::State::Create(uint64_t id, uint32_t stamp) {
  uint32_t row = kNoRow;
  if (!Acquire(stamp, row)) return kNoRow;
  const bool queued = rows.header(row).use_count != 0;  // Unused memory is zero.
  const RowStore::NewRow new_row = {id, row};
  store.Initialize({&new_row, 1}, stamp);
  index.Insert(RowIndex::Hash(id), row);
  if (!queued) queue.Add(row);
  if (changes.active()) changes.Change(row);
  ++counts.created;
  return row;
}

uint32_t Table::State::Put(const RowHeader& header, uint32_t now) {
  uint32_t row = kNoRow;
  if (!Acquire(now, row)) return kNoRow;
  const bool queued = rows.header(row).use_count != 0;
  rows.header(row) = header;
  index.Insert(RowIndex::Hash(header.id), row);
  if (!queued) queue.Add(row);
  return row;
}

bool Table::State::Acquire(uint32_t now, uint32_t& row) {
  if (!HasSpace() && !MakeSpace(now)) return false;
  store.Acquire({&row, 1});
  return true;
}

void Table::State::Sweep(size_t count) {
  if (cold_rows() > 0) {
    const auto suspects = static_cast<uint32_t>(std::min<uint64_t>(
        std::max(expiry.live_from(), stamp_origin) - stamp_origin, kFreeRecency));
    cold_failure.Update(cold->Scan(count, suspects, [this](const ColdRows::Row& row) {
      const auto cause = Expired(row.header(), row.record + sizeof(RowHeader));
      if (cause) RemoveCold(row, *cause);
    }));
  }
  const uint32_t end = store.carved_rows();
  for (size_t left = std::min<size_t>(count, end); left > 0; --left) {
    if (sweep_at >= end) sweep_at = 0;
    __builtin_prefetch(rows.record(std::min<uint32_t>(sweep_at + kSweptAhead, end - 1)));
    if (HasExpired(sweep_at)) Expire(sweep_at);
    ++sweep_at;
  }
}

bool Table::State::MakeSpace(uint32_t now) {
  const bool evicts = config.when_full == WhenFull::kEvict && all_rows() > 0;
  if (all_rows() >= config.capacity_rows) {
    if (!evicts || !EvictOldest(now)) return false;
    if (HasSpace()) return true;  // The row was in memory.
  }
  if (MakeRoom(now, /*adds_row=*/true)) return true;
  if (!evicts) return false;
  // Cold rows are the oldest.
  if (cold_rows() > 0 && EvictColdRows() && MakeRoom(now, /*adds_row=*/true)) return true;
  if (index.size() == 0) return false;
  Evict(now, EvictionCause::kMemory);
  return true;
}

bool Table::State::MakeRoom(uint32_t now, bool adds_row) {
  if (!file_full && GrowLimit()) return true;
  return Cool(now, adds_row);
}

bool Table::State::EvictColdRows() {
  // The disk has room again when a whole segment is free; the budget, when a row is.
  const uint64_t segments = cold->segments();
  do {
    if (!EvictOldestCold(EvictionCause::kMemory)) return false;
    if (cold_denied) return true;
    cold->FreeEmpty();
  } while (cold->size() > 0 && cold->segments() == segments);
  return true;
}

bool Table::State::AllowsColdRow() {
  // Their index grows outside of the grants.
  constexpr uint64_t kRowsPerLook = 4096;
  if (budget == nullptr || cold->size() < cold_allowed) return true;
  cold_denied = cold_denied || !budget->AllowsColdRows();
  if (!cold_denied) cold_allowed = cold->size() + kRowsPerLook;
  return !cold_denied;
}

bool Table::State::EvictOldest(uint32_t now) {
  if (cold_rows() > 0) return EvictOldestCold(EvictionCause::kCapacity);
  Evict(now, EvictionCause::kCapacity);
  return true;
}

bool Table::State::EvictOldestCold(EvictionCause cause) {
  const StatusOr<ColdRows::Row> oldest = cold->Oldest();
  if (!oldest.ok()) {
    cold_failure.Update(oldest.status());
    return false;
  }
  RemoveCold(*oldest,
             Expired(oldest->header(), oldest->record + sizeof(RowHeader)).value_or(cause));
  return true;
}

bool Table::State::Cool(uint32_t now, bool adds_row) {
  if (cold == nullptr || index.size() == 0) return false;
  if (adds_row && !AllowsColdRow()) {
    ++counts.cold_refused;
    cold_refusal = absl::ResourceExhaustedError("embedding_ps.memory_budget is used up");
    return false;
  }
  const uint32_t row = queue.PopOldest(now);
  if (rows.header(row).recency < suspect_below && Expired(row)) {
    Remove(row, *Expired(row), /*queued=*/false);
    return true;
  }
  const ChangeLog::Noted noted = changes.Take(row);
  if (Status added = cold->Add(rows.record(row), noted, adds_row); !added.ok()) {
    ++counts.cold_refused;
    cold_refusal = std::move(added);
    changes.Put(row, noted);
    queue.Add(row);
    return false;
  }
  if (rows.header(row).recency < copy.bound()) [[unlikely]] {
    changes.Put(row, noted);  // The copy asks for them.
    copy.Save(row, /*keeps_stamp=*/false);
    changes.Take(row);
  }
  Leave(row, /*queued=*/false);
  return true;
}

std::span<const ColdRows::Row> Table::State::FetchCold(std::span<const uint64_t> ids) {
  if (cold_rows() == 0 || ids.empty()) return {};
  StatusOr<std::span<const ColdRows::Row>> found = cold->Fetch(ids);
  if (found.ok()) return *found;
  cold_failure.Update(found.status());
  return {};
}

std::span<const ColdRows::Row> Table::State::FetchColdAt(std::span<const uint64_t> ids,
                                                         std::span<const size_t> positions) {
  if (cold == nullptr) return {};
  absent_ids.clear();
  for (const size_t at : positions) absent_ids.push_back(ids[at]);
  return FetchCold(absent_ids);
}

uint32_t Table::State::Warm(const ColdRows::Row& cold_row, uint32_t now) {
  if (!cold->Has(cold_row)) return kNoRow;
  const RowHeader& header = cold_row.header();
  if (const auto cause = Expired(header, cold_row.record + sizeof(RowHeader))) {
    RemoveCold(cold_row, *cause);
    return kNoRow;
  }
  // The row is in memory before it leaves the disk.
  if (index.size() >= row_limit && !MakeRoom(now, /*adds_row=*/false)) {
    const bool evicts = config.when_full == WhenFull::kEvict && cold_rows() > 1;
    if (!evicts || !EvictColdRows() || !MakeRoom(now, /*adds_row=*/false)) return kNoRow;
    if (!cold->Has(cold_row)) return kNoRow;
  }
  const ChangeLog::Noted noted = cold->Remove(cold_row);
  const uint32_t row = Put(header, now);
  if (row == kNoRow) {
    FailToWarm();
    return kNoRow;
  }
  std::memcpy(rows.values(row), cold_row.record + sizeof(RowHeader),
              rows.layout().stride_bytes - sizeof(RowHeader));
  copy.LeaveOut(row);
  changes.Put(row, noted);
  if (changes.active()) changes.Change(row);
  return row;
}

void Table::State::FailToWarm() {
  cold_failure.Update(absl::ResourceExhaustedError(
      absl::StrCat("table '", config.name,
                   "': a row on disk cannot come back, since there is no "
                   "room for the one that would leave: ",
                   std::string(cold_refusal.message()),
                   "; free space in embedding_ps.cold_directory, or set when_full: evict")));
}

void Table::State::MaintainCold() {
  if (cold != nullptr) cold_failure.Update(cold->Maintain());
}

void Table::State::ReclaimCold() {
  if (cold != nullptr) cold_failure.Update(cold->Reclaim());
}

void Table::State::RemoveCold(const ColdRows::Row& cold_row, EvictionCause cause) {
  const uint64_t id = cold_row.header().id;
  if (on_evict) [[unlikely]]
    on_evict(id, cause);
  if (changes.active()) changes.RemoveId(id, all_rows());
  cold->Remove(cold_row);
  ++counts.evicted;
  ++counts.evicted_for[static_cast<size_t>(cause)];
}

bool Table::State::GrowLimit() {
  if (row_limit >= MemoryRows()) return false;
  // Bytes of a row with its share of index and queue.
  const uint64_t row_bytes = (uint64_t{1} << 20) / RowsIn(config, uint64_t{1} << 20) + 1;
  const uint64_t wanted =
      std::clamp(index.size() * row_bytes / 4, kMinGrant, kMaxGrant) / row_bytes;
  const uint64_t more = std::clamp<uint64_t>(wanted, 1, MemoryRows() - row_limit);
  const uint64_t taken =
      store.AddedMemory(more) + index.AddedMemory(more) + queue.AddedMemory(more);
  if (!Request(taken, granted_for_rows, arena.waiting_bytes())) return false;
  row_limit += more;
  CommitRows(more);
  return !file_full;
}

bool Table::State::MayCount(uint64_t id) {
  if (budget == nullptr || !admission.NeedsSketch(id)) return true;
  if (sketches_left == 0) {
    const uint64_t more = std::max<uint64_t>(1, kSketchGrant / admission.sketch_bytes());
    // All sketches of the last grant are in use, and their memory is touched.
    if (!Request(more * admission.sketch_bytes(), granted_for_sketches, /*waiting=*/0))
      return false;
    sketches_left = more;
  }
  --sketches_left;
  return true;
}

// granted: bytes of the previous grants, all touched except `waiting`; receives the bytes granted
// and not yet touched.
bool Table::State::Request(uint64_t bytes, uint64_t& granted, uint64_t waiting) {
  if (bytes == 0) return true;
  if (denied) return false;
  const uint64_t untouched = std::min(granted, waiting);
  denied = !budget->Grant(bytes, granted - untouched);
  granted = untouched + (denied ? 0 : bytes);
  return !denied;
}

void Table::State::Evict(uint32_t now, EvictionCause cause) {
  // Prefetches for the next evictions: records first, since their ids determine the buckets.
  if (const uint32_t row = queue.Upcoming(2 * kVictimsAhead); row != kNoRow) {
    rows.Prefetch(row, rows.layout().stride_bytes);
  }
  if (const uint32_t row = queue.Upcoming(kVictimsAhead); row != kNoRow) {
    index.Prefetch(RowIndex::Hash(rows.header(row).id));
  }
  const uint32_t row = queue.PopOldest(now);
  SIMURGH_CHECK_LT(rows.header(row).recency, kFreeRecency);
  if (rows.header(row).recency < suspect_below) cause = Expired(row).value_or(cause);
  Remove(row, cause, /*queued=*/false);
}

void Table::State::Remove(uint32_t row, EvictionCause cause, bool queued) {
  const uint64_t id = rows.header(row).id;
  if (on_evict) [[unlikely]]
    on_evict(id, cause);
  if (rows.header(row).recency < copy.bound()) [[unlikely]]
    copy.Save(row, /*keeps_stamp=*/false);
  if (changes.active()) changes.Remove(row, id, all_rows());
  Leave(row, queued);
  ++counts.evicted;
  ++counts.evicted_for[static_cast<size_t>(cause)];
}

void Table::State::Leave(uint32_t row, bool queued) {
  index.Erase(RowIndex::Hash(rows.header(row).id), row);
  store.Release(row);
  rows.header(row).use_count = static_cast<uint32_t>(queued);
}

}  // namespace simurgh
