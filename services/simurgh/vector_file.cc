#include "services/simurgh/vector_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "data/reading/arrow_vectors.h"
#include "data/reading/row_text.h"
#include "model/table_export.h"
#include "model/tensor_file.h"

namespace simurgh {
namespace {

// Returns the code points of UTF-8; bytes that are no UTF-8 become U+FFFD.
std::vector<uint32_t> CodePoints(std::string_view text) {
  constexpr uint32_t kReplacement = 0xFFFD;
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80    ? 1
                          : lead >= 0xF0 ? 4
                          : lead >= 0xE0 ? 3
                          : lead >= 0xC0 ? 2
                                         : 0;
    uint32_t point = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    bool is_valid = length > 0 && i + length <= text.size();
    for (size_t next = 1; is_valid && next < length; ++next) {
      const auto byte = static_cast<unsigned char>(text[i + next]);
      is_valid = (byte & 0xC0U) == 0x80;
      point = (point << 6U) | (byte & 0x3FU);
    }
    points.push_back(is_valid ? point : kReplacement);
    i += is_valid ? length : 1;
  }
  return points;
}

Status WriteNpz(const std::string& path, std::span<const std::string> ids,
                std::span<const float> vectors, size_t dim) {
  NpzWriter writer(path);
  const std::vector<int64_t> integers = IntegersOf(ids);
  if (integers.size() == ids.size()) {
    writer.Begin({"ids", DType::kU64, {ids.size()}}, "<i8");
    writer.Write(std::as_bytes(std::span(integers)));
  } else {
    size_t width = 1;
    for (const std::string& id : ids) width = std::max(width, CodePoints(id).size());
    writer.Begin({"ids", DType::kU32, {ids.size()}}, absl::StrCat("<U", width));
    for (const std::string& id : ids) {
      std::vector<uint32_t> points = CodePoints(id);
      points.resize(width);
      writer.Write(std::as_bytes(std::span(points)));
    }
  }
  writer.Begin({"vectors", DType::kF32, {ids.size(), dim}});
  writer.Write(std::as_bytes(vectors));
  return writer.Finish();
}

Status WriteTensors(const std::string& path, std::span<const std::string> ids,
                    std::span<const float> vectors, size_t dim) {
  const std::vector<int64_t> integers = IntegersOf(ids);
  const bool are_integers = integers.size() == ids.size() &&
                            std::ranges::all_of(integers, [](int64_t id) { return id >= 0; });
  std::string bytes;
  std::vector<uint64_t> offsets = {0};
  std::vector<TensorSpec> tensors = {{"vectors", DType::kF32, {ids.size(), dim}}};
  if (are_integers) {
    tensors.push_back({"ids", DType::kU64, {ids.size()}});
  } else {
    for (const std::string& id : ids) {
      bytes += id;
      offsets.push_back(bytes.size());
    }
    tensors.push_back({"ids.bytes", DType::kU8, {bytes.size()}});
    tensors.push_back({"ids.offsets", DType::kU64, {offsets.size()}});
  }
  SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter writer, TensorFileWriter::Create(path, tensors, {}));
  SIMURGH_RETURN_IF_ERROR(writer.Write("vectors", std::as_bytes(vectors)));
  if (are_integers) {
    SIMURGH_RETURN_IF_ERROR(writer.Write("ids", std::as_bytes(std::span(integers))));
  } else {
    SIMURGH_RETURN_IF_ERROR(writer.Write("ids.bytes", std::as_bytes(std::span(bytes))));
    SIMURGH_RETURN_IF_ERROR(writer.Write("ids.offsets", std::as_bytes(std::span(offsets))));
  }
  return writer.Finish().status();
}

Status WriteCsv(const std::string& path, std::span<const std::string> ids,
                std::span<const float> vectors, size_t dim) {
  std::ofstream file(path, std::ios::binary);
  file << "id,vector\n";
  std::string line;
  for (size_t i = 0; i < ids.size(); ++i) {
    line.clear();
    AppendCsvCell(ids[i], line);
    line += ",\"[";
    for (size_t d = 0; d < dim; ++d) {
      std::array<char, 32> digits;
      const auto end =
          std::to_chars(digits.data(), digits.data() + digits.size(), vectors[i * dim + d]);
      if (d > 0) line.push_back(',');
      line.append(digits.data(), end.ptr);
    }
    file << line << "]\"\n";
  }
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path, ": cannot write it; is the disk full, or the folder missing?"));
}

}  // namespace

std::vector<int64_t> IntegersOf(std::span<const std::string> ids) {
  std::vector<int64_t> integers;
  for (const std::string& id : ids) {
    int64_t integer = 0;
    if (!absl::SimpleAtoi(id, &integer) || absl::StrCat(integer) != id) return {};
    integers.push_back(integer);
  }
  return integers;
}

bool HasVectorFormat(const std::string& name) {
  return name.ends_with(".npz") || name.ends_with(".safetensors") || name.ends_with(".parquet") ||
         name.ends_with(".csv");
}

Status WriteVectors(const std::string& path, const std::string& name,
                    std::span<const std::string> ids, std::span<const float> vectors, size_t dim) {
  if (name.ends_with(".npz")) return WriteNpz(path, ids, vectors, dim);
  if (name.ends_with(".safetensors")) return WriteTensors(path, ids, vectors, dim);
  if (name.ends_with(".parquet")) {
    return WriteParquetVectors(path, IntegersOf(ids), ids, vectors, dim);
  }
  return WriteCsv(path, ids, vectors, dim);
}

}  // namespace simurgh
