#include "model/model_report.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "base/hash.h"
#include "model/json.h"
#include "model/row_files.h"
#include "model/table_export.h"
#include "model/tensor_file.h"

namespace simurgh {
namespace {

std::string TimeText(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

std::string KindText(const Manifest& manifest) {
  if (!manifest.parent.has_value()) return "full";
  return absl::StrCat("delta of step ", manifest.parent->step);
}

std::string MetricsText(const Manifest& manifest, const char* separator) {
  return absl::StrJoin(manifest.metrics, separator, [](std::string* text, const auto& metric) {
    absl::StrAppendFormat(text, "%s=%.6g", metric.first, metric.second);
  });
}

uint64_t TotalBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ModelFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

// Returns an entry of the list of checkpoints.
Json EntryOf(ModelDirectory& model, uint64_t step, bool is_best) {
  const StatusOr<Checkpoint> checkpoint = model.Open(step);
  if (!checkpoint.ok()) {
    return {{"step", step}, {"problem", std::string(checkpoint.status().message())}};
  }
  Json entry = {{"bytes", TotalBytes(checkpoint->manifest)}, {"best", is_best}};
  const Json manifest = Json::parse(checkpoint->manifest.ToJson());
  for (const char* key :
       {"step", "kind", "parent", "generation", "step_time", "samples", "metrics"}) {
    if (manifest.contains(key)) entry[key] = manifest[key];
  }
  return entry;
}

StatusOr<std::string> DescribeAsJson(const Checkpoint& checkpoint) {
  Json tensors = Json::object();
  for (const ModelFile& file : checkpoint.manifest.files) {
    if (!file.path.ends_with(".safetensors")) continue;
    SIMURGH_ASSIGN_OR_RETURN(const TensorFileReader reader,
                             TensorFileReader::Open(checkpoint.Path(file.path), *checkpoint.files));
    Json& list = tensors[file.path] = Json::array();
    for (const TensorSpec& tensor : reader.tensors()) {
      list.push_back(
          {{"name", tensor.name}, {"dtype", DTypeName(tensor.dtype)}, {"shape", tensor.shape}});
    }
  }
  const Json all = {{"folder", checkpoint.folder},
                    {"checksum", absl::StrCat(absl::Hex(checkpoint.checksum, absl::kZeroPad16))},
                    {"manifest", Json::parse(checkpoint.manifest.ToJson())},
                    {"tensors", tensors}};
  return JsonText(all) + "\n";
}

struct RowHash {
  uint64_t id;
  uint64_t uses;      // Hash of this tensor.
  uint64_t contents;  // Hash of the others.

  friend auto operator<=>(const RowHash&, const RowHash&) = default;
};

// Hashes in ascending order.
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
      hashes[tensor.name] = HashBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
  return hashes;
}

// Lines about keys that one map lacks or whose values differ.
template <typename Map>
std::string CompareMaps(const Map& a, const Map& b, const char* what) {
  std::string text;
  for (const auto& [key, value] : a) {
    const auto found = b.find(key);
    if (found == b.end()) {
      absl::StrAppend(&text, what, key, ": only in the first\n");
    } else if (found->second != value) {
      absl::StrAppend(&text, what, key, ": differs\n");
    }
  }
  for (const auto& [key, value] : b) {
    if (!a.contains(key)) absl::StrAppend(&text, what, key, ": only in the second\n");
  }
  return text;
}

Status MergeRows(SavedRows& server, const std::string& to, FileSystem& files) {
  const RowFile& newest = server.files.back();
  std::vector<TensorSpec> tensors = newest.reader.tensors();
  std::vector<std::string> names;
  for (TensorSpec& tensor : tensors) {
    if (tensor.shape.empty()) {
      return absl::DataLossError(
          absl::StrCat(newest.path, ": tensor ", tensor.name, " has no rows"));
    }
    tensor.shape[0] = server.rows;
    names.push_back(tensor.name);
  }
  SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter writer,
                           TensorFileWriter::Create(to, tensors, newest.metadata, files));
  const uint64_t row_bytes = std::max<uint64_t>(tensors.empty() ? 0 : tensors[0].row_bytes(), 1);
  uint64_t written = 0;
  SIMURGH_RETURN_IF_ERROR(server.ForEachPiece(names, [&](SavedRows::Parts parts) {
    const uint64_t rows = parts[0].size() / row_bytes;
    written += rows;
    if (written > server.rows) return server.CheckCount(written);
    const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    return writer.Append(rows, views);
  }));
  return writer.Finish().status();
}

Status CopyFile(const Checkpoint& checkpoint, const ModelFile& file, const std::string& to,
                FileSystem& files) {
  // Compared with the manifest before and, by Publish(), after.
  if (file.path.ends_with(".safetensors")) {
    SIMURGH_RETURN_IF_ERROR(checkpoint.OpenTensors(file.path).status());
  }
  constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> from,
                           checkpoint.files->Open(checkpoint.Path(file.path)));
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<File> copy, files.Create(to));
  SIMURGH_RETURN_IF_ERROR(copy->Allocate(file.bytes));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < file.bytes; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.bytes - at));
    SIMURGH_RETURN_IF_ERROR(from->Read(at, piece));
    SIMURGH_RETURN_IF_ERROR(copy->Write(at, piece));
  }
  return copy->Sync();
}

}  // namespace

StatusOr<std::string> ListCheckpoints(ModelDirectory& model, ReportForm form) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, model.Steps());
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, model.BestStep());
  if (form == ReportForm::kJson) {
    Json list = Json::array();
    for (const uint64_t step : steps) list.push_back(EntryOf(model, step, step == best));
    return JsonText({{"checkpoints", list}}) + "\n";
  }
  std::string text;
  for (const uint64_t step : steps) {
    const StatusOr<Checkpoint> checkpoint = model.Open(step);
    if (absl::IsNotFound(checkpoint.status())) continue;  // A training has removed it meanwhile.
    if (!checkpoint.ok()) {
      absl::StrAppend(&text, "step-", step, "  unreadable: ", checkpoint.status().message(), "\n");
      continue;
    }
    const Manifest& manifest = checkpoint->manifest;
    absl::StrAppend(&text, "step-", step, "  ", KindText(manifest), "  generation ",
                    manifest.generation, "  ", TimeText(manifest.step_time), "  ", manifest.samples,
                    " samples  ", TotalBytes(manifest), " bytes  ", MetricsText(manifest, " "),
                    step == best ? "  best\n" : "\n");
  }
  return text.empty() ? absl::StrCat("no checkpoints\n") : text;
}

StatusOr<std::string> DescribeCheckpoint(const Checkpoint& checkpoint, ReportForm form) {
  if (form == ReportForm::kJson) return DescribeAsJson(checkpoint);
  const Manifest& manifest = checkpoint.manifest;
  std::string text = absl::StrCat("folder: ", checkpoint.folder, "\nkind: ", KindText(manifest),
                                  "\nrun: ", manifest.run, "\ngeneration: ", manifest.generation,
                                  "\nstep: ", manifest.step, "\nsamples: ", manifest.samples,
                                  "\nstep time: ", TimeText(manifest.step_time),
                                  "\nchecksum: ", absl::Hex(checkpoint.checksum, absl::kZeroPad16),
                                  "\nmetrics: ", MetricsText(manifest, " "), "\n");
  for (const auto& [key, value] : manifest.extra) absl::StrAppend(&text, key, ": ", value, "\n");
  for (const auto& [name, values] : manifest.statistics) {
    absl::StrAppend(&text, "statistics ", name, ": ", values.size(), " numbers\n");
  }
  for (const ModelFile& file : manifest.files) {
    absl::StrAppend(&text, "file ", file.path, ": ", file.bytes, " bytes, hash ",
                    absl::Hex(file.hash, absl::kZeroPad16), "\n");
    if (!file.path.ends_with(".safetensors")) continue;
    SIMURGH_ASSIGN_OR_RETURN(const TensorFileReader reader,
                             TensorFileReader::Open(checkpoint.Path(file.path), *checkpoint.files));
    for (const TensorSpec& tensor : reader.tensors()) {
      absl::StrAppend(&text, "  ", tensor.name, " ", DescribeTensor(tensor), "\n");
    }
    for (const auto& [key, value] : reader.metadata()) {
      absl::StrAppend(&text, "  ", key, ": ", value, "\n");
    }
  }
  for (const auto& [key, value] : manifest.config) {
    absl::StrAppend(&text, "config ", key, " = ", value, "\n");
  }
  return text;
}

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
  text += CompareMaps(tensors_a, tensors_b, "tensor ");
  text += CompareMaps(a.manifest.statistics, b.manifest.statistics, "statistic ");
  return text;
}

StatusOr<Checkpoint> MergeCheckpoint(const Checkpoint& checkpoint, const std::string& to) {
  ModelDirectory model(to);
  const StatusOr<std::vector<uint64_t>> steps = model.Steps();
  if (!steps.ok() && !absl::IsNotFound(steps.status())) return steps.status();
  if (steps.ok() && !steps->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(to, ": the folder has a model of step ",
                                                   steps->back(), " already; name another folder"));
  }
  SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> rows, OpenRows(checkpoint));
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t generation, model.NewGeneration());
  SIMURGH_RETURN_IF_ERROR(model.KeepRun(checkpoint.manifest.run, generation).status());
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt,
                           model.Begin(checkpoint.manifest.step, generation));
  for (SavedRows& server : rows) {
    SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path(server.name));
    SIMURGH_RETURN_IF_ERROR(MergeRows(server, path, model.files()));
  }
  Manifest manifest = checkpoint.manifest;
  manifest.parent.reset();
  manifest.files.clear();
  for (const ModelFile& file : checkpoint.manifest.files) {
    if (!TableOf(file).empty() || file.path.starts_with("removed/")) continue;
    SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path(file.path));
    SIMURGH_RETURN_IF_ERROR(CopyFile(checkpoint, file, path, model.files()));
    manifest.files.push_back(file);
  }
  return attempt.Publish(std::move(manifest));
}

}  // namespace simurgh
