// What differs between two checkpoints.

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/hash.h"
#include "simurgh/model/model_report.h"
#include "simurgh/model/table_reader.h"

namespace simurgh {
namespace {

struct RowHash {
  uint64_t id;
  uint64_t uses;      // Hash of this tensor.
  uint64_t contents;  // Hash of the others.

  friend auto operator<=>(const RowHash&, const RowHash&) = default;
};

// Sorted.
using RowHashes = std::vector<RowHash>;

StatusOr<RowHashes> HashRows(TableReader& table) {
  const std::vector<TensorSpec>& tensors = table.tensors();
  std::vector<size_t> all(tensors.size());
  size_t id_at = 0;
  size_t uses_at = tensors.size();
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
    if (tensors[i].name == "id") id_at = i;
    if (tensors[i].name == "uses") uses_at = i;
  }
  RowHashes rows;
  rows.reserve(table.rows());
  std::string contents;
  SIMURGH_RETURN_IF_ERROR(table.ForEachPiece(all, [&](TableReader::Parts parts) {
    for (size_t row = 0; row < parts[id_at].size() / sizeof(uint64_t); ++row) {
      RowHash hash{};
      contents.clear();
      for (size_t i = 0; i < parts.size(); ++i) {
        const size_t bytes = tensors[i].row_bytes();
        const auto* const first = reinterpret_cast<const char*>(parts[i].data()) + row * bytes;
        if (i == uses_at) {
          hash.uses = HashBytes({first, bytes});
        } else {
          contents.append(first, bytes);
        }
      }
      hash.contents = HashBytes(contents);
      std::memcpy(&hash.id, parts[id_at].data() + row * sizeof(hash.id), sizeof(hash.id));
      rows.push_back(hash);
    }
    return absl::OkStatus();
  }));
  std::ranges::sort(rows);
  return rows;
}

// Counts ids and remembers the first.
struct Ids {
  void Add(uint64_t id) {
    if (count++ == 0) first = id;
  }
  std::string Text(std::string_view what) const {
    if (count == 0) return "";
    return absl::StrCat("; ", count, " ", std::string(what), ", such as id ", first);
  }

  uint64_t count = 0;
  uint64_t first = 0;
};

std::string CompareRows(const RowHashes& a, const RowHashes& b) {
  Ids missing;
  Ids added;
  Ids changed;
  Ids used;
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() || y != b.end()) {
    if (y == b.end() || (x != a.end() && x->id < y->id)) {
      missing.Add((x++)->id);
    } else if (x == a.end() || y->id < x->id) {
      added.Add((y++)->id);
    } else {
      if (x->contents != y->contents) {
        changed.Add(x->id);
      } else if (x->uses != y->uses) {
        used.Add(x->id);
      }
      ++x, ++y;
    }
  }
  const std::string text =
      absl::StrCat(changed.Text("rows differ"), used.Text("rows differ only in uses"),
                   missing.Text("rows only in the first"), added.Text("rows only in the second"));
  return text.empty() ? "" : text.substr(2);
}

// The tables with the same tensors, compared row by row.
StatusOr<std::string> CompareTable(const Checkpoint& a, const Checkpoint& b,
                                   const std::string& name) {
  SIMURGH_ASSIGN_OR_RETURN(TableReader table_a, TableReader::Open(a, name));
  SIMURGH_ASSIGN_OR_RETURN(TableReader table_b, TableReader::Open(b, name));
  const auto describe = [](const TableReader& table) {
    std::set<std::string> texts;
    for (const TensorSpec& tensor : table.tensors()) {
      texts.insert(
          absl::StrCat(tensor.name, " ", DTypeName(tensor.dtype), " ", tensor.row_bytes()));
    }
    return texts;
  };
  if (describe(table_a) != describe(table_b) || table_a.metadata() != table_b.metadata()) {
    return "another dim, optimizer or precision";
  }
  SIMURGH_ASSIGN_OR_RETURN(const RowHashes rows_a, HashRows(table_a));
  SIMURGH_ASSIGN_OR_RETURN(const RowHashes rows_b, HashRows(table_b));
  return CompareRows(rows_a, rows_b);
}

using TensorHashes = std::map<std::string, uint64_t>;

// The tensors of dense.safetensors, by name.
StatusOr<TensorHashes> HashTensors(const Checkpoint& checkpoint) {
  TensorHashes hashes;
  for (const ModelFile& file : checkpoint.manifest.files) {
    if (file.path != "dense.safetensors") continue;
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, checkpoint.OpenTensors(file.path));
    const std::vector<TensorSpec> tensors = reader.tensors();
    for (const TensorSpec& tensor : tensors) {
      std::vector<std::byte> bytes(tensor.rows() * tensor.row_bytes());
      SIMURGH_RETURN_IF_ERROR(reader.Read(tensor.name, 0, tensor.rows(), bytes));
      hashes["tensor " + tensor.name] =
          HashBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
  return hashes;
}

// Lines about keys that one map lacks or whose values differ.
template <typename Map>
std::string CompareMaps(const Map& a, const Map& b) {
  std::string text;
  for (const auto& [key, value] : a) {
    const auto found = b.find(key);
    if (found == b.end()) {
      absl::StrAppend(&text, key, ": only in the first\n");
    } else if (found->second != value) {
      absl::StrAppend(&text, key, ": differs\n");
    }
  }
  for (const auto& [key, value] : b) {
    if (!a.contains(key)) absl::StrAppend(&text, key, ": only in the second\n");
  }
  return text;
}

}  // namespace

StatusOr<std::string> DescribeDifferences(const Checkpoint& a, const Checkpoint& b) {
  std::string text;
  const std::vector<std::string> tables_a = TableReader::TablesOf(a.manifest);
  const std::vector<std::string> tables_b = TableReader::TablesOf(b.manifest);
  for (const std::string& table : tables_a) {
    std::string difference = "only in the first";
    if (std::ranges::binary_search(tables_b, table)) {
      SIMURGH_ASSIGN_OR_RETURN(difference, CompareTable(a, b, table));
    }
    if (!difference.empty()) absl::StrAppend(&text, "table ", table, ": ", difference, "\n");
  }
  for (const std::string& table : tables_b) {
    if (!std::ranges::binary_search(tables_a, table)) {
      absl::StrAppend(&text, "table ", table, ": only in the second\n");
    }
  }
  SIMURGH_ASSIGN_OR_RETURN(const TensorHashes tensors_a, HashTensors(a));
  SIMURGH_ASSIGN_OR_RETURN(const TensorHashes tensors_b, HashTensors(b));
  text += CompareMaps(tensors_a, tensors_b);
  std::map<std::string, std::vector<double>> statistics_a;
  for (const auto& [name, values] : a.manifest.statistics)
    statistics_a["statistic " + name] = values;
  std::map<std::string, std::vector<double>> statistics_b;
  for (const auto& [name, values] : b.manifest.statistics)
    statistics_b["statistic " + name] = values;
  text += CompareMaps(statistics_a, statistics_b);
  return text;
}

}  // namespace simurgh
