#include "services/embedding_ps/initial_rows.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "simurgh/base/log.h"
#include "simurgh/model/tensor_file.h"

namespace simurgh {
namespace {

std::string Describe(const TensorSpec* tensor) {
  if (tensor == nullptr) return "none";
  return absl::StrCat(DTypeName(tensor->dtype), " [", absl::StrJoin(tensor->shape, ", "), "]");
}

// Returns the number of rows.
StatusOr<uint64_t> CheckTensors(const TensorFileReader& file, const TableConfig& table) {
  const auto find = [&](const char* name) -> const TensorSpec* {
    const auto found = std::ranges::find(file.tensors(), name, &TensorSpec::name);
    return found == file.tensors().end() ? nullptr : &*found;
  };
  const TensorSpec* const id = find("id");
  const uint64_t rows = id == nullptr ? 0 : id->rows();
  const std::vector<TensorSpec> wanted = {{"id", DType::kU64, {rows}},
                                          {"weights", DType::kF32, {rows, table.dim}}};
  for (const TensorSpec& tensor : wanted) {
    const TensorSpec* const own = find(tensor.name.c_str());
    if (own != nullptr && *own == tensor) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("table '", table.name, "': tensor ", tensor.name, ": the file has ",
                     Describe(own), ", the table needs ", Describe(&tensor),
                     "; use a file that `simurgh export embeddings` has written "
                     "for a table of this dim"));
  }
  return rows;
}

// The rows of a piece for one partition.
struct Share {
  std::vector<uint64_t> ids;
  std::vector<float> weights;
  Status result;
};

// Adds to `done` as it goes. Returns the number of rows of this server.
StatusOr<uint64_t> LoadTable(TensorFileReader& file, uint64_t rows, size_t table,
                             const RowTarget& target, absl::FunctionRef<Status(uint64_t)> on_rows) {
  const uint32_t dim = target.tables[table].dim;
  const uint32_t partitions = target.map.partitions();
  uint64_t own = 0;
  for (uint64_t first = 0; first < rows; first += kRowsPerSum) {
    const uint64_t count = std::min(kRowsPerSum, rows - first);
    std::vector<uint64_t> ids(count);
    std::vector<float> weights(count * dim);
    SIMURGH_RETURN_IF_ERROR(file.Read("id", first, count, std::as_writable_bytes(std::span(ids))));
    SIMURGH_RETURN_IF_ERROR(
        file.Read("weights", first, count, std::as_writable_bytes(std::span(weights))));
    std::vector<Share> shares(partitions);
    for (uint64_t row = 0; row < count; ++row) {
      const uint32_t slot = target.map.SlotOf(ids[row]);
      if (slot / partitions != target.server) continue;
      Share& share = shares[slot % partitions];
      const auto from = weights.begin() + static_cast<std::ptrdiff_t>(row * dim);
      share.ids.push_back(ids[row]);
      share.weights.insert(share.weights.end(), from, from + dim);
      ++own;
    }
    target.partitions.on_all([&](uint32_t p, Partition& partition) {
      shares[p].result = partition.table(table).PutInitialRows(shares[p].ids, shares[p].weights);
    });
    for (const Share& share : shares) SIMURGH_RETURN_IF_ERROR(share.result);
    SIMURGH_RETURN_IF_ERROR(on_rows(count));
  }
  return own;
}

}  // namespace

Status LoadInitialRows(const RowTarget& target, LoadProgress progress) {
  uint64_t done = 0;
  for (size_t t = 0; t < target.tables.size(); ++t) {
    const TableConfig& table = target.tables[t];
    if (table.initial_rows.empty()) continue;
    const auto load = [&]() -> Status {
      SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, TensorFileReader::Open(table.initial_rows));
      SIMURGH_ASSIGN_OR_RETURN(const uint64_t rows, CheckTensors(file, table));
      SIMURGH_ASSIGN_OR_RETURN(const uint64_t own,
                               LoadTable(file, rows, t, target, [&](uint64_t read) {
                                 done += read;
                                 return progress(done, std::max(done, rows));
                               }));
      uint64_t kept = 0;
      for (uint32_t p = 0; p < target.map.partitions(); ++p) {
        target.partitions
            .on_one(p, [&](Partition& partition) { kept += partition.table(t).stats().rows; })
            .get();
      }
      spdlog::info("loaded initial rows: table={} file={} rows={}", table.name, table.initial_rows,
                   kept);
      if (kept < own) {
        spdlog::warn("table '{}': {} initial rows did not fit; raise its capacity", table.name,
                     own - kept);
      }
      return absl::OkStatus();
    };
    SIMURGH_RETURN_IF_ERROR(Annotate(load(), absl::StrCat("initial_rows ", table.initial_rows)));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
