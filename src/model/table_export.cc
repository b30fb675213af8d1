#include "model/table_export.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <minizip/zip.h>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "tensor/half.h"

namespace simurgh {
namespace {

const char* NpyType(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "|u1";
    case DType::kU16:
      return "<u2";
    case DType::kU32:
      return "<u4";
    case DType::kU64:
      return "<u8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
  }
  return "";
}

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0.
std::string NpyHeader(const TensorSpec& tensor, std::string_view type) {
  std::string text =
      absl::StrCat("{'descr': '", std::string(type), "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(tensor.shape, ", "), tensor.shape.size() == 1 ? ",), }" : "), }");
  constexpr size_t kPrefix = 10;
  text.append(63 - (kPrefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

}  // namespace

struct NpzWriter::State {
  void Note(int result) { failed = failed || result != ZIP_OK; }
  void EndEntry() {
    if (std::exchange(has_entry, false)) Note(zipCloseFileInZip(zip));
  }

  std::string path;
  zipFile zip;
  bool failed;
  bool has_entry = false;
};

NpzWriter::NpzWriter(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->zip = zipOpen64(path.c_str(), 0);
  state_->failed = state_->zip == nullptr;
}

NpzWriter::~NpzWriter() {
  if (state_->zip != nullptr) zipClose(state_->zip, nullptr);
}

void NpzWriter::Begin(const TensorSpec& tensor, std::string_view type) {
  constexpr int kStored = 0;
  constexpr int kZip64 = 1;
  state_->EndEntry();
  state_->Note(zipOpenNewFileInZip64(state_->zip, (tensor.name + ".npy").c_str(), nullptr, nullptr,
                                     0, nullptr, 0, nullptr, kStored, 0, kZip64));
  state_->has_entry = !state_->failed;
  const std::string header = NpyHeader(tensor, type.empty() ? NpyType(tensor.dtype) : type);
  Write(std::as_bytes(std::span(header)));
}

void NpzWriter::Write(std::span<const std::byte> bytes) {
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty() && !state_->failed) {
    const size_t count = std::min(bytes.size(), kMost);
    state_->Note(zipWriteInFileInZip(state_->zip, bytes.data(), static_cast<unsigned>(count)));
    bytes = bytes.subspan(count);
  }
}

Status NpzWriter::Finish() {
  state_->EndEntry();
  if (state_->zip != nullptr) state_->Note(zipClose(std::exchange(state_->zip, nullptr), nullptr));
  if (!state_->failed) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(state_->path, ": cannot write it; is the disk full, or the folder missing?"));
}

namespace {

// Compares tensors in any order: tensors without rows have no place in a file.
bool SameTensors(const RowFile& a, const RowFile& b) {
  const auto b_has = [&b](const TensorSpec& wanted) {
    const TensorSpec* const found = FindTensor(b.reader.tensors(), wanted.name);
    return found != nullptr && found->dtype == wanted.dtype &&
           found->row_bytes() == wanted.row_bytes();
  };
  return a.metadata == b.metadata && a.reader.tensors().size() == b.reader.tensors().size() &&
         std::ranges::all_of(a.reader.tensors(), b_has);
}

}  // namespace

std::vector<std::string> TableReader::TablesOf(const Manifest& manifest) {
  std::vector<std::string> tables;
  for (const ModelFile& file : manifest.files) {
    const std::string table = TableOf(file);
    if (!table.empty()) tables.push_back(table);
  }
  std::ranges::sort(tables);
  tables.erase(std::ranges::unique(tables).begin(), tables.end());
  return tables;
}

StatusOr<TableReader> TableReader::Open(const Checkpoint& checkpoint, const std::string& table) {
  TableReader reader;
  SIMURGH_ASSIGN_OR_RETURN(reader.servers_, OpenRows(checkpoint, table));
  for (const SavedRows& server : reader.servers_) {
    for (const RowFile& file : server.files) {
      if (!file.reader.tensors().empty() && SameTensors(file, reader.first())) continue;
      return absl::DataLossError(
          absl::StrCat(file.path,
                       ": its tensors are not those of the table's other files; use another "
                       "checkpoint"));
    }
    reader.rows_ += server.rows;
  }
  if (!reader.servers_.empty()) return reader;
  return absl::NotFoundError(absl::StrCat(checkpoint.folder, ": there is no table '", table,
                                          "'; use ",
                                          absl::StrJoin(TablesOf(checkpoint.manifest), ", ")));
}

Status TableReader::ForEachPiece(std::span<const size_t> tensors,
                                 absl::FunctionRef<Status(Parts)> visit) {
  std::vector<std::string> names;
  for (const size_t tensor : tensors) names.push_back(this->tensors()[tensor].name);
  for (SavedRows& server : servers_) {
    SIMURGH_RETURN_IF_ERROR(server.ForEachPiece(names, visit));
  }
  return absl::OkStatus();
}

namespace {

template <typename T>
T At(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Returns a number with enough digits to read the same number again.
std::string NumberText(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kU8:
      return absl::StrCat(At<uint8_t>(from));
    case DType::kU16:
      return absl::StrCat(At<uint16_t>(from));
    case DType::kU32:
      return absl::StrCat(At<uint32_t>(from));
    case DType::kU64:
      return absl::StrCat(At<uint64_t>(from));
    case DType::kF16:
      return absl::StrFormat("%.9g", FromF16(At<uint16_t>(from)));
    case DType::kF32:
      return absl::StrFormat("%.9g", At<float>(from));
    case DType::kF64:
      return absl::StrFormat("%.17g", At<double>(from));
  }
  return "";
}

// The rows and tensors that are exported.
class Selection {
 public:
  static StatusOr<Selection> Open(const Checkpoint& checkpoint, const TableExport& options) {
    SIMURGH_ASSIGN_OR_RETURN(TableReader table, TableReader::Open(checkpoint, options.table));
    Selection selection(std::move(table), options);
    for (const char* name : {"id", "uses", "recency", "weights"}) {
      const bool is_wanted = options.has_all_tensors || std::string_view(name) == "id" ||
                             std::string_view(name) == "weights";
      if (is_wanted) selection.Add(name);
    }
    if (selection.columns_.empty() || selection.tensors_[0].name != "id") {
      return absl::DataLossError("the table has no tensor id");
    }
    for (const TensorSpec& tensor : selection.table_.tensors()) {
      if (options.has_all_tensors) selection.Add(tensor.name);
    }
    return selection;
  }

  // The exported tensors. Their shapes have the number of rows after Count().
  const std::vector<TensorSpec>& tensors() const { return tensors_; }

  // Counts the exported rows. Reads all ids if only some rows are exported.
  Status Count() {
    uint64_t rows = has_all_rows_ ? table_.rows() : 0;
    if (!has_all_rows_) {
      SIMURGH_RETURN_IF_ERROR(ForEachPiece({{0}}, [&](uint64_t kept, Parts) {
        rows += kept;
        return absl::OkStatus();
      }));
    }
    for (TensorSpec& tensor : tensors_) tensor.shape[0] = rows;
    return absl::OkStatus();
  }

  // Calls visit(rows, parts) for each piece. which: indexes into tensors(); begins with 0.
  using Parts = std::span<const std::vector<std::byte>>;
  Status ForEachPiece(std::span<const size_t> which,
                      absl::FunctionRef<Status(uint64_t rows, Parts parts)> visit) {
    std::vector<size_t> columns;
    for (const size_t tensor : which) columns.push_back(columns_[tensor].index);
    std::vector<std::vector<std::byte>> kept(which.size());
    return table_.ForEachPiece(columns, [&](TableReader::Parts parts) {
      const size_t rows = parts[0].size() / sizeof(uint64_t);
      uint64_t count = rows;
      for (std::vector<std::byte>& part : kept) part.clear();
      if (has_all_rows_) {
        for (size_t i = 0; i < which.size(); ++i) Take(which[i], parts[i], kept[i]);
      } else {
        count = 0;
        for (size_t row = 0; row < rows; ++row) {
          if (!ids_.contains(At<uint64_t>(parts[0].data() + row * sizeof(uint64_t)))) continue;
          ++count;
          for (size_t i = 0; i < which.size(); ++i) {
            const size_t bytes = parts[i].size() / rows;
            Take(which[i], std::span(parts[i]).subspan(row * bytes, bytes), kept[i]);
          }
        }
      }
      return visit(count, kept);
    });
  }

 private:
  enum class Widening { kNone, kBf16, kF16 };
  struct Column {
    size_t index;  // Index of the tensor in the table.
    Widening widening;
  };

  Selection(TableReader table, const TableExport& options)
      : table_(std::move(table)), has_all_rows_(!options.ids.has_value()) {
    if (options.ids) ids_.insert(options.ids->begin(), options.ids->end());
  }

  // Adds a tensor that the table has, once.
  void Add(const std::string& name) {
    const std::vector<TensorSpec>& tensors = table_.tensors();
    const TensorSpec* const found = FindTensor(tensors, name);
    if (found == nullptr || FindTensor(tensors_, name) != nullptr) return;
    Widening widening = Widening::kNone;
    if (found->dtype == DType::kF16) widening = Widening::kF16;
    if (table_.metadata().contains(name + ".format")) widening = Widening::kBf16;
    columns_.push_back({static_cast<size_t>(found - tensors.data()), widening});
    tensors_.push_back(*found);
    if (widening != Widening::kNone) tensors_.back().dtype = DType::kF32;
  }

  // Appends numbers in the exported type.
  void Take(size_t tensor, std::span<const std::byte> from, std::vector<std::byte>& to) const {
    const Widening widening = columns_[tensor].widening;
    if (widening == Widening::kNone) {
      to.insert(to.end(), from.begin(), from.end());
      return;
    }
    for (size_t at = 0; at < from.size(); at += sizeof(uint16_t)) {
      const auto half = At<uint16_t>(from.data() + at);
      const float value = widening == Widening::kBf16 ? FromBf16(half) : FromF16(half);
      const auto bytes = std::as_bytes(std::span(&value, 1));
      to.insert(to.end(), bytes.begin(), bytes.end());
    }
  }

  TableReader table_;
  const bool has_all_rows_;
  absl::flat_hash_set<uint64_t> ids_;
  std::vector<Column> columns_;
  std::vector<TensorSpec> tensors_;
};

std::vector<size_t> AllOf(const Selection& rows) {
  std::vector<size_t> all(rows.tensors().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

Status ForEachEmbedding(
    const Checkpoint& checkpoint, const std::string& table,
    absl::FunctionRef<Status(std::span<const uint64_t> ids, std::span<const float> weights)>
        visit) {
  SIMURGH_ASSIGN_OR_RETURN(Selection selection,
                           Selection::Open(checkpoint, {.table = table, .ids = {}}));
  if (selection.tensors().size() != 2) return absl::DataLossError("the table has no weights");
  std::vector<uint64_t> ids;
  std::vector<float> weights;
  return selection.ForEachPiece({{0, 1}}, [&](uint64_t rows, Selection::Parts parts) {
    ids.resize(rows);
    weights.resize(parts[1].size() / sizeof(float));
    std::memcpy(ids.data(), parts[0].data(), parts[0].size());
    std::memcpy(weights.data(), parts[1].data(), parts[1].size());
    return visit(ids, weights);
  });
}

Status ExportCsv(const Checkpoint& checkpoint, const TableExport& options,
                 absl::FunctionRef<Status(std::string_view text)> append) {
  SIMURGH_ASSIGN_OR_RETURN(Selection selection, Selection::Open(checkpoint, options));
  std::string text;
  std::vector<size_t> numbers;  // Numbers per row, indexed by tensor.
  for (const TensorSpec& tensor : selection.tensors()) {
    const bool is_scalar = tensor.shape.size() == 1;
    numbers.push_back(is_scalar ? 1 : tensor.shape[1]);
    for (size_t i = 0; i < numbers.back(); ++i) {
      absl::StrAppend(&text, text.empty() ? "" : ",", tensor.name);
      if (!is_scalar) absl::StrAppend(&text, ".", i);
    }
  }
  text += '\n';
  SIMURGH_RETURN_IF_ERROR(
      selection.ForEachPiece(AllOf(selection), [&](uint64_t rows, Selection::Parts parts) {
        for (uint64_t row = 0; row < rows; ++row) {
          for (size_t i = 0; i < parts.size(); ++i) {
            const TensorSpec& tensor = selection.tensors()[i];
            const std::byte* from = parts[i].data() + row * tensor.row_bytes();
            for (size_t n = 0; n < numbers[i]; ++n) {
              if (i + n > 0) text += ',';
              text += NumberText(tensor.dtype, from + n * (tensor.row_bytes() / numbers[i]));
            }
          }
          text += '\n';
        }
        const Status appended = append(text);
        text.clear();
        return appended;
      }));
  return append(text);  // The header of a table without rows.
}

// Reads the files once for each tensor, since an archive is written entry by entry.
Status ExportNpz(const Checkpoint& checkpoint, const TableExport& options,
                 const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(Selection selection, Selection::Open(checkpoint, options));
  SIMURGH_RETURN_IF_ERROR(selection.Count());
  NpzWriter file(path);
  for (size_t i = 0; i < selection.tensors().size(); ++i) {
    file.Begin(selection.tensors()[i]);
    SIMURGH_RETURN_IF_ERROR(selection.ForEachPiece({{0, i}}, [&](uint64_t, Selection::Parts parts) {
      file.Write(parts[1]);
      return absl::OkStatus();
    }));
  }
  return file.Finish();
}

Status ExportTensors(const Checkpoint& checkpoint, const TableExport& options,
                     const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(Selection selection, Selection::Open(checkpoint, options));
  SIMURGH_RETURN_IF_ERROR(selection.Count());
  SIMURGH_ASSIGN_OR_RETURN(
      TensorFileWriter file,
      TensorFileWriter::Create(path, selection.tensors(), {{"table", options.table}}));
  SIMURGH_RETURN_IF_ERROR(
      selection.ForEachPiece(AllOf(selection), [&](uint64_t rows, Selection::Parts parts) {
        const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
        return file.Append(rows, views);
      }));
  return file.Finish().status();
}

}  // namespace simurgh
