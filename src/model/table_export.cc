// Exports the rows of a table to formats of other programs.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include <minizip/zip.h>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "simurgh/model/model_report.h"
#include "simurgh/model/table_reader.h"
#include "simurgh/tensor/half.h"

namespace simurgh {
namespace {

using Ids = std::optional<std::vector<uint64_t>>;

// Which rows of a piece are exported.
class RowFilter {
 public:
  explicit RowFilter(const Ids& ids) : all_(!ids.has_value()) {
    if (!all_) ids_.insert(ids->begin(), ids->end());
  }

  bool all() const { return all_; }
  bool Includes(const std::vector<std::byte>& ids, size_t row) const {
    if (all_) return true;
    uint64_t id = 0;
    std::memcpy(&id, ids.data() + row * sizeof(id), sizeof(id));
    return ids_.contains(id);
  }

 private:
  const bool all_;
  absl::flat_hash_set<uint64_t> ids_;
};

bool IsBf16(const TableReader& table, const TensorSpec& tensor) {
  return table.metadata().contains(tensor.name + ".format");
}

size_t IndexOfIds(const TableReader& table) {
  return std::ranges::find(table.tensors(), "id", &TensorSpec::name) - table.tensors().begin();
}

// Identity first, then values.
std::vector<size_t> ColumnOrder(const TableReader& table) {
  std::vector<size_t> order = {IndexOfIds(table)};
  for (const char* name : {"uses", "recency", "weights"}) {
    const auto found = std::ranges::find(table.tensors(), name, &TensorSpec::name);
    if (found != table.tensors().end()) order.push_back(found - table.tensors().begin());
  }
  for (size_t i = 0; i < table.tensors().size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  return order;
}

template <typename T>
T At(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Enough digits to read the same number again.
std::string NumberText(DType dtype, bool is_bf16, const std::byte* from) {
  switch (dtype) {
    case DType::kU8:
      return absl::StrCat(At<uint8_t>(from));
    case DType::kU16:
      if (is_bf16) return absl::StrFormat("%.9g", FromBf16(At<uint16_t>(from)));
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

// A zip archive of uncompressed entries.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : path_(path), zip_(zipOpen64(path.c_str(), 0)) {
    failed_ = zip_ == nullptr;
  }
  ~ZipWriter() {
    if (zip_ != nullptr) zipClose(zip_, nullptr);
  }

  void Begin(const std::string& name) {
    constexpr int kStored = 0;
    constexpr int kZip64 = 1;
    Note(zipOpenNewFileInZip64(zip_, name.c_str(), nullptr, nullptr, 0, nullptr, 0, nullptr,
                               kStored, 0, kZip64));
  }
  void Write(const void* bytes, size_t count) {
    constexpr size_t kMost = size_t{1} << 30;
    const char* from = static_cast<const char*>(bytes);
    for (; count > 0 && !failed_; from += std::min(count, kMost), count -= std::min(count, kMost)) {
      Note(zipWriteInFileInZip(zip_, from, static_cast<unsigned>(std::min(count, kMost))));
    }
  }
  void End() { Note(zipCloseFileInZip(zip_)); }
  Status Close() {
    if (zip_ != nullptr) Note(zipClose(std::exchange(zip_, nullptr), nullptr));
    if (!failed_) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat(path_, ": cannot write it; is the disk full, or the folder missing?"));
  }

 private:
  void Note(int result) { failed_ = failed_ || result != ZIP_OK; }

  const std::string path_;
  zipFile zip_;
  bool failed_;
};

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0.
std::string NpyHeader(const char* type, const std::vector<uint64_t>& shape) {
  std::string text = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                                  absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  constexpr size_t kPrefix = 10;
  text.append(63 - (kPrefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

const char* NpyType(DType dtype, bool is_bf16) {
  switch (dtype) {
    case DType::kU8:
      return "|u1";
    case DType::kU16:
      return is_bf16 ? "<f4" : "<u2";
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

}  // namespace

Status ExportCsv(const Checkpoint& checkpoint, const std::string& name, const Ids& ids,
                 absl::FunctionRef<Status(std::string_view text)> append) {
  SIMURGH_ASSIGN_OR_RETURN(TableReader table, TableReader::Open(checkpoint, name));
  const std::vector<size_t> order = ColumnOrder(table);
  struct Column {
    DType dtype;
    bool is_bf16;
    size_t numbers;
    size_t row_bytes;
  };
  std::vector<Column> columns;
  std::string text;
  for (const size_t at : order) {
    const TensorSpec& tensor = table.tensors()[at];
    const bool is_scalar = tensor.shape.size() == 1;
    const size_t numbers = is_scalar ? 1 : tensor.shape[1];
    columns.push_back({tensor.dtype, IsBf16(table, tensor), numbers, tensor.row_bytes()});
    for (size_t i = 0; i < numbers; ++i) {
      absl::StrAppend(&text, text.empty() ? "" : ",", tensor.name);
      if (!is_scalar) absl::StrAppend(&text, ".", i);
    }
  }
  text += '\n';
  const RowFilter filter(ids);
  SIMURGH_RETURN_IF_ERROR(table.ForEachPiece(order, [&](TableReader::Parts parts) {
    for (size_t row = 0; row < parts[0].size() / sizeof(uint64_t); ++row) {
      if (!filter.Includes(parts[0], row)) continue;
      for (size_t i = 0; i < columns.size(); ++i) {
        const Column& column = columns[i];
        const std::byte* from = parts[i].data() + row * column.row_bytes;
        for (size_t n = 0; n < column.numbers; ++n) {
          if (i + n > 0) text += ',';
          text += NumberText(column.dtype, column.is_bf16,
                             from + n * (column.row_bytes / column.numbers));
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

// A pass over the files for each tensor, since an archive is written entry by entry.
Status ExportNpz(const Checkpoint& checkpoint, const std::string& name, const Ids& ids,
                 const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(TableReader table, TableReader::Open(checkpoint, name));
  const std::vector<size_t> order = ColumnOrder(table);
  const RowFilter filter(ids);
  uint64_t rows = filter.all() ? table.rows() : 0;
  if (!filter.all()) {
    SIMURGH_RETURN_IF_ERROR(
        table.ForEachPiece(std::span(order).first(1), [&](TableReader::Parts parts) {
          for (size_t row = 0; row < parts[0].size() / sizeof(uint64_t); ++row) {
            rows += static_cast<uint64_t>(filter.Includes(parts[0], row));
          }
          return absl::OkStatus();
        }));
  }
  ZipWriter zip(path);
  for (const size_t at : order) {
    const TensorSpec& tensor = table.tensors()[at];
    const bool is_bf16 = IsBf16(table, tensor);
    std::vector<uint64_t> shape = tensor.shape;
    shape[0] = rows;
    const std::string header = NpyHeader(NpyType(tensor.dtype, is_bf16), shape);
    zip.Begin(tensor.name + ".npy");
    zip.Write(header.data(), header.size());
    const size_t row_bytes = tensor.row_bytes();
    std::vector<std::byte> kept;
    std::vector<float> wide;
    const std::array<size_t, 2> with_ids = {order[0], at};
    SIMURGH_RETURN_IF_ERROR(table.ForEachPiece(with_ids, [&](TableReader::Parts parts) {
      const std::vector<std::byte>* bytes = &parts[1];
      if (!filter.all()) {
        kept.clear();
        for (size_t row = 0; row < parts[0].size() / sizeof(uint64_t); ++row) {
          if (!filter.Includes(parts[0], row)) continue;
          const auto first = parts[1].begin() + static_cast<ptrdiff_t>(row * row_bytes);
          kept.insert(kept.end(), first, first + static_cast<ptrdiff_t>(row_bytes));
        }
        bytes = &kept;
      }
      if (is_bf16) {
        wide.clear();
        for (size_t i = 0; i < bytes->size() / 2; ++i) {
          wide.push_back(FromBf16(At<uint16_t>(bytes->data() + 2 * i)));
        }
        zip.Write(wide.data(), wide.size() * sizeof(float));
      } else {
        zip.Write(bytes->data(), bytes->size());
      }
      return absl::OkStatus();
    }));
    zip.End();
  }
  return zip.Close();
}

}  // namespace simurgh
