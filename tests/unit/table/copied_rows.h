#pragma once

// Copied rows, read back.

#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "table/table.h"

namespace simurgh {

// A row of a copy.
struct Row {
  uint32_t uses;
  uint64_t recency;
  std::vector<float> values;  // Weights, then state.

  bool operator==(const Row&) const = default;
};

inline std::map<uint64_t, Row> VisitedRows(const Table& table) {
  std::map<uint64_t, Row> rows;
  table.ForEachRow([&](const RowContents& row) {
    Row& own = rows[row.id];
    own = {row.use_count, row.recency, {row.weights.begin(), row.weights.end()}};
    own.values.insert(own.values.end(), row.state.begin(), row.state.end());
  });
  return rows;
}

template <typename T>
T At(const std::vector<std::byte>& bytes, size_t index) {
  T value;
  REQUIRE((index + 1) * sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

inline float NumberAt(const TensorSpec& tensor, const TensorMetadata& metadata,
                      const std::vector<std::byte>& bytes, size_t index) {
  if (tensor.dtype == DType::kF32) return At<float>(bytes, index);
  const auto bits = At<uint16_t>(bytes, index);
  if (tensor.dtype == DType::kU16) {
    REQUIRE(metadata.at(tensor.name + ".format") == "bf16");
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  REQUIRE(tensor.dtype == DType::kF16);
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

// The tensors of a file of copied rows. Requires that no id is there twice.
inline std::map<uint64_t, Row> ReadBack(const TableConfig& config, uint64_t count,
                                        const std::vector<std::vector<std::byte>>& parts) {
  const std::vector<TensorSpec> tensors = Table::FileTensors(config, count);
  const TensorMetadata metadata = Table::FileMetadata(config);
  CHECK(metadata.at("table") == config.name);
  REQUIRE(parts.size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(tensors[i].name);
    REQUIRE(tensors[i].rows() == count);
    REQUIRE(parts[i].size() == count * tensors[i].row_bytes());
  }
  REQUIRE(tensors[0].name == "id");
  REQUIRE(tensors[1].name == "uses");
  REQUIRE(tensors[2].name == "recency");
  REQUIRE(tensors[3].name == "weights");
  std::map<uint64_t, Row> rows;
  for (size_t r = 0; r < count; ++r) {
    Row row = {At<uint16_t>(parts[1], r), At<uint64_t>(parts[2], r), {}};
    for (size_t i = 3; i < tensors.size(); ++i) {
      const size_t width = tensors[i].shape.size() == 1 ? 1 : tensors[i].shape[1];
      for (size_t j = 0; j < width; ++j) {
        row.values.push_back(NumberAt(tensors[i], metadata, parts[i], r * width + j));
      }
    }
    REQUIRE(rows.emplace(At<uint64_t>(parts[0], r), row).second);
  }
  return rows;
}

// Appends copied rows to the parts of a file.
inline void Append(const TableConfig& config, const CopiedRows& rows,
                   std::vector<std::vector<std::byte>>& parts) {
  std::vector<std::vector<std::byte>> more(parts.size());
  Table::SplitRows(config, rows.stamp_origin, rows.blocks, more);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].insert(parts[i].end(), more[i].begin(), more[i].end());
  }
}

// A whole copy, taken while nothing changes.
inline std::map<uint64_t, Row> CopyAll(Table& table, size_t piece) {
  CopyMemory memory(/*limit_bytes=*/0);
  const uint64_t count = table.BeginCopy(memory);
  std::vector<std::vector<std::byte>> parts(Table::FileTensors(table.config(), 0).size());
  for (bool done = false; !done;) {
    const CopiedRows rows = table.TakeRows(piece);
    CHECK(rows.rows <= piece);
    Append(table.config(), rows, parts);
    done = rows.done;
  }
  table.EndCopy();
  return ReadBack(table.config(), count, parts);
}

}  // namespace simurgh
