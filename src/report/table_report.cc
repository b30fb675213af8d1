#include "report/table_report.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"

#include "model/table_export.h"

namespace simurgh {
namespace {

// Sets the norms of rows' weights.
Status ReadNorms(const Checkpoint& checkpoint, TableReport& table) {
  std::vector<double> norms;
  const Status read = ForEachEmbedding(
      checkpoint, table.name,
      [&](std::span<const uint64_t> ids, std::span<const float> weights) -> Status {
        const size_t dim = weights.size() / std::max<size_t>(ids.size(), 1);
        for (size_t row = 0; row < ids.size(); ++row) {
          if (norms.size() == kMostNorms) return absl::CancelledError("enough rows");
          double squares = 0;
          for (const float weight : weights.subspan(row * dim, dim)) {
            squares += double{weight} * weight;
          }
          norms.push_back(std::sqrt(squares));
        }
        return absl::OkStatus();
      });
  if (!read.ok() && !absl::IsCancelled(read)) return read;
  if (norms.empty()) return absl::OkStatus();
  std::ranges::sort(norms);
  for (const double norm : norms) table.mean_norm += norm / static_cast<double>(norms.size());
  table.median_norm = (norms[(norms.size() - 1) / 2] + norms[norms.size() / 2]) / 2;
  table.high_norm = norms[norms.size() * 99 / 100];
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<TableReport>> ReadTables(const Checkpoint& checkpoint,
                                              const ClusterConfig& config) {
  std::vector<TableReport> tables;
  for (const std::string& name : TableReader::TablesOf(checkpoint.manifest)) {
    TableReport& table = tables.emplace_back();
    table.name = name;
    const auto found = std::ranges::find(config.tables, name, &TableConfig::name);
    if (found != config.tables.end()) table.dim = found->dim;
    SIMURGH_ASSIGN_OR_RETURN(const TableReader reader, TableReader::Open(checkpoint, name));
    table.rows = reader.rows();
    for (const ModelFile& file : checkpoint.manifest.files) {
      if (file.path.starts_with(absl::StrCat("rows/", name, "/"))) table.bytes += file.bytes;
    }
    SIMURGH_RETURN_IF_ERROR(ReadNorms(checkpoint, table));
  }
  return tables;
}

void SetEvicted(const TrainingHistory& history, uint64_t step, std::vector<TableReport>& tables) {
  for (const TrainingHistory::Save& save : history.saves) {
    if (save.step != step) continue;
    for (TableReport& table : tables) {
      const auto found = save.evicted.find(table.name);
      table.evicted = found == save.evicted.end() ? 0 : static_cast<uint64_t>(found->second);
    }
  }
}

}  // namespace simurgh
