#include "predict/row_table.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "absl/strings/str_cat.h"

#include "predict/huge_buffer.h"

namespace simurgh {
namespace {

using Layer = std::shared_ptr<const RowTable>;

// Adds the rows of a layer for which keeps(ids, is_kept) says so. first_row: number of the layer's
// first mapped row.
template <typename Keeps>
Status AddLayer(RowTableBuilder& builder, const RowTable& layer, uint64_t first_row, Keeps keeps) {
  Status status;
  std::vector<uint64_t> ids;
  std::vector<uint32_t> numbers;
  std::vector<const std::byte*> rows;
  layer.ForEachRow([&](std::span<const uint64_t> all, std::span<const uint32_t> places) {
    if (!status.ok()) return;
    ids.clear();
    numbers.clear();
    rows.clear();
    keeps(all, [&](size_t i) {
      ids.push_back(all[i]);
      if (layer.is_mapped()) {
        numbers.push_back(static_cast<uint32_t>(first_row + places[i]));
      } else {
        rows.push_back(layer.row(places[i]));
      }
    });
    status = layer.is_mapped() ? builder.AddMapped(ids, numbers) : builder.AddEncoded(ids, rows);
  });
  return status;
}

// Returns the rows of both; those of `newer` count. is_whole: there is no older table.
StatusOr<Layer> Join(const TableConfig& config, const RowEncoding& encoding, bool is_mapped,
                     const RowTable& older, const RowTable& newer, bool is_whole) {
  SIMURGH_ASSIGN_OR_RETURN(
      RowTableBuilder builder,
      RowTableBuilder::Create(config, encoding, is_mapped, older.rows() + newer.rows()));
  std::vector<uint32_t> found;
  // Calls keep(i) for each id that `newer` does not have.
  const auto if_older = [&](std::span<const uint64_t> ids, auto keep) {
    found.resize(ids.size());
    newer.Find(ids, found);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (found[i] == RowTable::kAbsent) keep(i);
    }
  };
  std::vector<uint64_t> kept;
  older.ForEachRow([&](std::span<const uint64_t> ids, std::span<const uint32_t> /*rows*/) {
    kept.clear();
    if_older(ids, [&](size_t i) { kept.push_back(ids[i]); });
    builder.Count(kept);
  });
  newer.ForEachRow([&](std::span<const uint64_t> ids, std::span<const uint32_t> /*rows*/) {
    builder.Count(ids);
  });
  SIMURGH_RETURN_IF_ERROR(builder.EndCount());
  SIMURGH_RETURN_IF_ERROR(AddLayer(builder, older, 0, if_older));
  SIMURGH_RETURN_IF_ERROR(
      AddLayer(builder, newer, older.mapped().rows(), [](std::span<const uint64_t> ids, auto keep) {
        for (size_t i = 0; i < ids.size(); ++i) keep(i);
      }));
  builder.mapped().Add(older.mapped());
  builder.mapped().Add(newer.mapped());
  if (!is_whole) {
    std::vector<uint64_t> removed;
    newer.ForEachRemoved([&](std::span<const uint64_t> ids) {
      removed.insert(removed.end(), ids.begin(), ids.end());
    });
    older.ForEachRemoved([&](std::span<const uint64_t> ids) {
      if_older(ids, [&](size_t i) { removed.push_back(ids[i]); });
    });
    SIMURGH_RETURN_IF_ERROR(builder.Remove(removed));
  }
  return builder.Finish();
}

}  // namespace

uint64_t RowTable::BytesOf(const RowEncoding& encoding, uint64_t rows, bool is_mapped) {
  return PackedIndex::BytesOf(rows, is_mapped) + (is_mapped ? 0 : rows * encoding.row_bytes());
}

void RowTable::Find(std::span<const uint64_t> ids, std::span<uint32_t> rows) const {
  const auto prefetch = [this](uint32_t row) {
    if (is_mapped_) return;
    const std::byte* const begin = weights_.data() + row * row_bytes_;
    for (size_t byte = 0; byte < row_bytes_; byte += 64) __builtin_prefetch(begin + byte);
  };
  index_.Find(ids, rows, prefetch);
  if (removed_.size() == 0) return;
  std::vector<uint32_t> gone(ids.size());
  removed_.Find(ids, gone, [](uint32_t /*row*/) {});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (gone[i] != kAbsent) rows[i] = kRemoved;  // It has no row: see Finish().
  }
}

StatusOr<RowTableBuilder> RowTableBuilder::Create(const TableConfig& config,
                                                  const RowEncoding& encoding, bool is_mapped,
                                                  uint64_t about) {
  std::shared_ptr<RowTable> table(new RowTable(encoding.row_bytes(), is_mapped));
  RowTableBuilder builder(config, encoding, std::move(table));
  if (about > RowTable::kMaxRows) return builder.TooLarge(about);
  try {
    builder.table_->index_ = PackedIndex(about, is_mapped);
  } catch (const std::bad_alloc&) {
    return builder.TooLarge(about);
  }
  return builder;
}

Status RowTableBuilder::TooLarge(uint64_t rows) const {
  if (rows > RowTable::kMaxRows) {
    return absl::ResourceExhaustedError(absl::StrCat("table '", name_, "': ", rows,
                                                     " rows are more than one process can serve, ",
                                                     RowTable::kMaxRows));
  }
  return absl::ResourceExhaustedError(absl::StrCat("table '", name_, "': no memory for ", rows,
                                                   " rows of ", table_->row_bytes_, " bytes"));
}

Status RowTableBuilder::EndCount() {
  const uint64_t rows = counted();
  if (rows > RowTable::kMaxRows) return TooLarge(rows);
  try {
    table_->index_.EndCount();
    if (!table_->is_mapped_) table_->weights_ = HugeBuffer(rows * table_->row_bytes_);
  } catch (const std::bad_alloc&) {
    return TooLarge(rows);
  }
  return absl::OkStatus();
}

Status RowTableBuilder::Add(std::span<const uint64_t> ids, std::span<const std::byte* const> rows) {
  positions_.resize(ids.size());
  SIMURGH_RETURN_IF_ERROR(table_->index_.Add(ids, positions_));
  for (size_t i = 0; i < ids.size(); ++i) encoding_.EncodeFrom(stored_, rows[i], Place(i));
  return absl::OkStatus();
}

Status RowTableBuilder::AddEncoded(std::span<const uint64_t> ids,
                                   std::span<const std::byte* const> rows) {
  positions_.resize(ids.size());
  SIMURGH_RETURN_IF_ERROR(table_->index_.Add(ids, positions_));
  for (size_t i = 0; i < ids.size(); ++i) std::memcpy(Place(i), rows[i], table_->row_bytes_);
  return absl::OkStatus();
}

Status RowTableBuilder::Remove(std::span<const uint64_t> ids) {
  if (ids.empty()) return absl::OkStatus();
  if (ids.size() > RowTable::kMaxRows) return TooLarge(ids.size());
  try {
    PackedIndex removed(ids.size(), /*has_rows=*/false);
    removed.Count(ids);
    removed.EndCount();
    std::vector<uint32_t> positions(ids.size());
    SIMURGH_RETURN_IF_ERROR(removed.Add(ids, positions));
    SIMURGH_RETURN_IF_ERROR(removed.EndAdd());
    table_->removed_ = std::move(removed);
  } catch (const std::bad_alloc&) {
    return TooLarge(ids.size());
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const RowTable>> RowTableBuilder::Finish() {
  if (table_->mapped_.rows() > RowTable::kMaxRows) return TooLarge(table_->mapped_.rows());
  SIMURGH_RETURN_IF_ERROR(table_->index_.EndAdd());
  std::optional<uint64_t> twice;
  table_->ForEachRemoved([&](std::span<const uint64_t> ids) {
    positions_.resize(ids.size());
    table_->index_.Find(ids, positions_, [](uint32_t /*row*/) {});
    for (size_t i = 0; i < ids.size(); ++i) {
      if (positions_[i] != RowTable::kAbsent) twice = ids[i];
    }
  });
  if (twice) return absl::DataLossError(absl::StrCat("id ", *twice, " occurs twice"));
  return std::shared_ptr<const RowTable>(std::move(table_));
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

StatusOr<RowLayers> RowLayers::With(const TableConfig& config, const RowEncoding& encoding,
                                    bool is_mapped, std::shared_ptr<const RowTable> newest) const {
  if (newest->entries() == 0) return *this;
  constexpr uint64_t kRatio = 4;  // A layer has at least this multiple of the next one's entries.
  std::vector<uint32_t> found;
  std::vector<const std::byte*> before;
  uint64_t rows = rows_;
  // Calls count(whether there was a row) for each id.
  const auto for_each = [&](std::span<const uint64_t> ids, auto count) {
    before.resize(ids.size());
    Find(ids, before, found);
    for (const std::byte* const row : before) count(row != nullptr);
  };
  newest->ForEachRow([&](std::span<const uint64_t> ids, std::span<const uint32_t> /*rows*/) {
    for_each(ids, [&](bool had_row) { rows += had_row ? 0 : 1; });
  });
  newest->ForEachRemoved([&](std::span<const uint64_t> ids) {
    for_each(ids, [&](bool had_row) { rows -= had_row ? 1 : 0; });
  });
  std::vector<Layer> layers = layers_;
  while (!layers.empty() && layers.back()->entries() < kRatio * newest->entries()) {
    SIMURGH_ASSIGN_OR_RETURN(newest, Join(config, encoding, is_mapped, *layers.back(), *newest,
                                          /*is_whole=*/layers.size() == 1));
    layers.pop_back();
  }
  layers.push_back(std::move(newest));
  return RowLayers(std::move(layers), rows);
}

}  // namespace simurgh
