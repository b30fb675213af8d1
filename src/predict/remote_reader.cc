#include "predict/remote_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "predict/row_encoding.h"

namespace simurgh {
namespace {

constexpr size_t kAhead = 8;  // Prefetch distance in the index.
// Byte behind a row in the cache.
constexpr std::byte kHasRow{1};
constexpr std::byte kNoRow{0};
// Rows of a batch begin at multiples of it.
constexpr size_t kAlignment = 8;

}  // namespace

RemoteReader::RemoteReader(RemoteRows& rows, const std::vector<TableConfig>& tables,
                           VectorPrecision precision, size_t hot_row_bytes)
    : rows_(rows),
      hot_row_bytes_(hot_row_bytes),
      servers_(0, rows.servers()),
      reads_(rows.servers()),
      wanted_(rows.servers()),
      answers_(rows.servers()) {
  for (RowRead& read : reads_) read.precision = precision;
  for (const TableConfig& table : tables) {
    row_bytes_.push_back(RowEncoding(table, precision).row_bytes());
  }
}

bool RemoteReader::Follows(uint64_t checksum, const RowChanges& changes) {
  if (hot_row_bytes_ == 0) return false;
  if (cache_ && checksum == cached_) return true;
  // The version is older, or is being checked.
  if (checksum != rows_.current()) return false;
  if (!cache_) {
    std::vector<size_t> bytes;
    for (const size_t row_bytes : row_bytes_) bytes.push_back(row_bytes + sizeof(kHasRow));
    cache_.emplace(hot_row_bytes_, /*max_age_steps=*/UINT32_MAX, std::move(bytes));
  } else if (!changes.Since(cached_,
                            [this](uint32_t table, uint64_t id) { cache_->Erase(table, id); })) {
    cache_->Clear();
  }
  cached_ = checksum;
  return true;
}

void RemoteReader::Collect(std::span<const List> lists, bool caches) {
  const auto place_bytes = [this](uint32_t table) {
    return (row_bytes_[table] + sizeof(kHasRow) + kAlignment - 1) / kAlignment * kAlignment;
  };
  size_t bytes = 0;
  uint64_t ids = 0;
  uint64_t misses = 0;
  std::vector<std::vector<const List*>> of_table(row_bytes_.size());
  for (const List& list : lists) {
    bytes += list.ids.size() * place_bytes(list.table);
    ids += list.ids.size();
    of_table[list.table].push_back(&list);
  }
  memory_.resize(std::max(memory_.size(), bytes));
  for (size_t server = 0; server < reads_.size(); ++server) {
    reads_[server].groups.clear();
    reads_[server].ids.clear();
    wanted_[server].clear();
  }
  std::byte* place = memory_.data();
  for (uint32_t table = 0; table < of_table.size(); ++table) {
    const size_t row_bytes = row_bytes_[table];
    for (const List* const list : of_table[table]) {
      for (size_t i = 0; i < list->ids.size(); ++i, place += place_bytes(table)) {
        const uint64_t id = list->ids[i];
        if (caches) {
          if (i + kAhead < list->ids.size()) cache_->Prefetch(table, list->ids[i + kAhead]);
          if (cache_->Find(table, id, 0, {place, row_bytes + sizeof(kHasRow)})) {
            list->found[i] = place[row_bytes] == kHasRow ? place : nullptr;
            continue;
          }
        }
        ++misses;
        const uint32_t server = servers_.ServerOf(id);
        RowRead& read = reads_[server];
        if (read.groups.empty() || read.groups.back().table != table) {
          read.groups.push_back({.table = table});
        }
        ++read.groups.back().ids;
        read.ids.push_back(id);
        wanted_[server].push_back({table, id, place, &list->found[i]});
      }
    }
  }
  rows_.OnCache(ids - misses, misses);
}

Status RemoteReader::Take(const RowAnswer& answer, std::span<const Wanted> wanted, bool caches) {
  size_t bytes = 0;
  const bool has_bits = answer.present.size() == (wanted.size() + 7) / 8;
  for (size_t i = 0; has_bits && i < wanted.size(); ++i) {
    if (answer.Has(i)) bytes += row_bytes_[wanted[i].table];
  }
  if (!has_bits || bytes != answer.rows.size()) {
    return absl::InternalError(absl::StrCat(
        "a server of rows answers ", wanted.size(), " ids with ", answer.present.size(),
        " bytes of bits and ", answer.rows.size(), " bytes of rows instead of ", bytes));
  }
  const std::byte* row = answer.rows.data();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Wanted& one = wanted[i];
    const size_t row_bytes = row_bytes_[one.table];
    const bool has_row = answer.Has(i);
    one.place[row_bytes] = has_row ? kHasRow : kNoRow;
    *one.found = has_row ? one.place : nullptr;
    if (has_row) {
      std::memcpy(one.place, row, row_bytes);
      row += row_bytes;
    } else {
      std::memset(one.place, 0, row_bytes);
    }
    if (caches) cache_->Insert(one.table, one.id, 0, {one.place, row_bytes + sizeof(kHasRow)});
  }
  return absl::OkStatus();
}

Status RemoteReader::Read(uint64_t checksum, const RowChanges& changes,
                          std::span<const List> lists) {
  const bool caches = Follows(checksum, changes);
  Collect(lists, caches);
  if (std::ranges::all_of(wanted_, [](const auto& ids) { return ids.empty(); })) {
    return absl::OkStatus();
  }
  SIMURGH_RETURN_IF_ERROR(rows_.Read(checksum, reads_, answers_));
  for (size_t server = 0; server < wanted_.size(); ++server) {
    if (wanted_[server].empty()) continue;
    SIMURGH_RETURN_IF_ERROR(Take(answers_[server], wanted_[server], caches));
    answers_[server] = {};
  }
  return absl::OkStatus();
}

}  // namespace simurgh
