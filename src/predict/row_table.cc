#include "predict/row_table.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "absl/strings/str_cat.h"

#include "base/hash.h"

namespace simurgh {
namespace {

constexpr size_t kAhead = 32;  // Searches under way at once.

uint64_t SlotsFor(uint64_t entries) { return entries * 3 / 2 + 1; }

// Differs from the hash that places ids on servers: its top bits are nearly equal on one of them.
uint64_t Hash(uint64_t id) { return Mix64(id + 0x9fb21c651e98df25ULL); }

// Allocates whole huge pages if there are enough bytes.
AlignedBuffer Allocate(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes < 2 * kHugePage) return AlignedBuffer(bytes);
  const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory = std::aligned_alloc(kHugePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, whole, MADV_HUGEPAGE);  // Only a hint.
  return {static_cast<std::byte*>(memory), bytes, [](std::byte* data) { std::free(data); }};
}

// Returns the rows of both; those of `newer` count. is_whole: there is no older table.
StatusOr<std::shared_ptr<const RowTable>> Join(const TableConfig& config, const RowTable& older,
                                               const RowTable& newer, bool is_whole) {
  std::vector<uint32_t> replaced(older.entries());
  newer.Find(older.ids(), replaced);
  uint64_t rows = newer.rows();
  uint64_t removed = is_whole ? 0 : newer.entries() - newer.rows();
  for (uint64_t i = 0; i < older.entries(); ++i) {
    if (replaced[i] != RowTable::kAbsent) continue;
    ++(i < older.rows() ? rows : removed);
  }
  SIMURGH_ASSIGN_OR_RETURN(std::shared_ptr<RowTable> joined,
                           RowTable::Create(config, rows, removed));
  const size_t row_bytes = joined->row_bytes();
  uint64_t next = newer.rows();
  uint64_t next_removed = rows;
  std::ranges::copy(newer.ids().first(newer.rows()), joined->ids().begin());
  const std::span<const std::byte> weights = newer.weights();
  std::ranges::copy(weights, joined->weights().begin());
  for (uint64_t i = 0; i < older.rows(); ++i) {
    if (replaced[i] != RowTable::kAbsent) continue;
    joined->ids()[next] = older.ids()[i];
    std::memcpy(joined->weights().data() + next * row_bytes, older.row(static_cast<uint32_t>(i)),
                row_bytes);
    ++next;
  }
  if (!is_whole) {
    for (uint64_t i = newer.rows(); i < newer.entries(); ++i) {
      joined->ids()[next_removed++] = newer.ids()[i];
    }
    for (uint64_t i = older.rows(); i < older.entries(); ++i) {
      if (replaced[i] == RowTable::kAbsent) joined->ids()[next_removed++] = older.ids()[i];
    }
  }
  SIMURGH_RETURN_IF_ERROR(joined->Index());
  return joined;
}

}  // namespace

StatusOr<std::shared_ptr<RowTable>> RowTable::Create(const TableConfig& config, uint64_t rows,
                                                     uint64_t removed) {
  const size_t row_bytes = RowBytes(config);
  if (rows + removed > kMaxRows) {
    return absl::ResourceExhaustedError(absl::StrCat("table '", config.name, "': ", rows + removed,
                                                     " rows are more than one process can serve, ",
                                                     kMaxRows));
  }
  try {
    return std::shared_ptr<RowTable>(new RowTable(rows, removed, row_bytes));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat("table '", config.name, "': no memory for ",
                                                     rows, " rows of ", row_bytes, " bytes"));
  }
}

uint64_t RowTable::BytesOf(const TableConfig& config, uint64_t rows) {
  return rows * (sizeof(uint64_t) + RowBytes(config)) + SlotsFor(rows) * sizeof(Slot);
}

RowTable::RowTable(uint64_t rows, uint64_t removed, size_t row_bytes)
    : rows_(rows),
      row_bytes_(row_bytes),
      slot_count_(SlotsFor(rows + removed)),
      ids_(Allocate((rows + removed) * sizeof(uint64_t))),
      weights_(Allocate(rows * row_bytes)),
      slots_(Allocate(slot_count_ * sizeof(Slot))) {}

uint64_t RowTable::SlotOf(uint64_t hash) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * slot_count_) >> 64);
}

Status RowTable::Index() {
  std::memset(slots_.data(), 0xff, slots_.size());
  const std::span<Slot> slots = slots_.as<Slot>(slot_count_);
  const std::span<const uint64_t> ids = this->ids();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) __builtin_prefetch(&slots[SlotOf(Hash(ids[i + kAhead]))], 1);
    const uint64_t hash = Hash(ids[i]);
    const auto tag = static_cast<uint32_t>(hash);
    uint64_t at = SlotOf(hash);
    for (; slots[at].row != kAbsent; at = at + 1 == slots.size() ? 0 : at + 1) {
      if (slots[at].tag == tag && ids[slots[at].row] == ids[i]) {
        return absl::DataLossError(absl::StrCat("id ", ids[i], " occurs twice"));
      }
    }
    slots[at] = {static_cast<uint32_t>(i), tag};
  }
  return absl::OkStatus();
}

void RowTable::Find(std::span<const uint64_t> ids, std::span<uint32_t> rows) const {
  const std::span<const Slot> slots = slots_.as<const Slot>(slot_count_);
  const std::span<const uint64_t> own = this->ids();
  const auto search = [&](uint64_t id, const auto& visit) {
    const uint64_t hash = Hash(id);
    uint64_t at = SlotOf(hash);
    for (; slots[at].row != kAbsent; at = at + 1 == slots.size() ? 0 : at + 1) {
      if (slots[at].tag == static_cast<uint32_t>(hash) && visit(slots[at].row)) return;
    }
  };
  for (size_t first = 0; first < ids.size(); first += kAhead) {
    const std::span<const uint64_t> some = ids.subspan(first, std::min(kAhead, ids.size() - first));
    for (const uint64_t id : some) __builtin_prefetch(&slots[SlotOf(Hash(id))]);
    for (const uint64_t id : some) {
      search(id, [&](uint32_t row) {
        __builtin_prefetch(&own[row]);
        if (row < rows_) {
          for (size_t byte = 0; byte < row_bytes_; byte += 64) {
            __builtin_prefetch(this->row(row) + byte);
          }
        }
        return true;
      });
    }
    for (size_t i = 0; i < some.size(); ++i) {
      uint32_t& found = rows[first + i] = kAbsent;
      search(some[i], [&](uint32_t row) {
        if (own[row] != some[i]) return false;
        found = row < rows_ ? row : kRemoved;
        return true;
      });
    }
  }
}

uint64_t RowLayers::bytes(const RowLayers* besides) const {
  uint64_t bytes = 0;
  for (const auto& layer : layers_) {
    const bool is_shared =
        besides != nullptr && std::ranges::find(besides->layers_, layer) != besides->layers_.end();
    if (!is_shared) bytes += layer->bytes();
  }
  return bytes;
}

void RowLayers::Find(std::span<const uint64_t> ids, std::span<const std::byte*> rows,
                     std::vector<uint32_t>& scratch) const {
  std::ranges::fill(rows, nullptr);
  scratch.resize(std::max(scratch.size(), ids.size()));
  const std::span<uint32_t> found = std::span(scratch).first(ids.size());
  // The oldest layer comes first, so that newer ones overwrite.
  for (const auto& layer : layers_) {
    layer->Find(ids, found);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (found[i] == RowTable::kAbsent) continue;
      rows[i] = found[i] == RowTable::kRemoved ? nullptr : layer->row(found[i]);
    }
  }
}

StatusOr<RowLayers> RowLayers::With(const TableConfig& config,
                                    std::shared_ptr<const RowTable> newest) const {
  if (newest->entries() == 0) return *this;
  constexpr uint64_t kRatio = 4;  // A layer has at least this multiple of the next one's entries.
  std::vector<uint32_t> found(newest->entries());
  std::vector<const std::byte*> before(newest->entries());
  Find(newest->ids(), before, found);
  uint64_t rows = rows_;
  for (uint64_t i = 0; i < newest->entries(); ++i) {
    const bool is_row = i < newest->rows();
    if (is_row && before[i] == nullptr) ++rows;
    if (!is_row && before[i] != nullptr) --rows;
  }
  std::vector<std::shared_ptr<const RowTable>> layers = layers_;
  while (!layers.empty() && layers.back()->entries() < kRatio * newest->entries()) {
    SIMURGH_ASSIGN_OR_RETURN(newest, Join(config, *layers.back(), *newest, layers.size() == 1));
    layers.pop_back();
  }
  layers.push_back(std::move(newest));
  return RowLayers(std::move(layers), rows);
}

}  // namespace simurgh
