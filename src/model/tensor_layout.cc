#include "model/tensor_layout.h"

#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/json.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

struct DTypeTraits {
  DType dtype;
  const char* name;
  uint64_t bytes;
};
constexpr std::array<DTypeTraits, 7> kDTypes{{{DType::kU8, "U8", 1},
                                              {DType::kU16, "U16", 2},
                                              {DType::kU32, "U32", 4},
                                              {DType::kU64, "U64", 8},
                                              {DType::kF16, "F16", 2},
                                              {DType::kF32, "F32", 4},
                                              {DType::kF64, "F64", 8}}};

const DTypeTraits& Traits(DType dtype) {
  return *std::find_if(kDTypes.begin(), kDTypes.end(),
                       [&](const DTypeTraits& traits) { return traits.dtype == dtype; });
}

std::optional<uint64_t> Product(std::optional<uint64_t> a, uint64_t b) {
  uint64_t product = 0;
  if (!a.has_value() || __builtin_mul_overflow(*a, b, &product) || product >> 63 != 0) {
    return std::nullopt;
  }
  return product;
}

Status Problem(const std::string& tensor, std::string_view what) {
  return absl::DataLossError(absl::StrCat("tensor ", tensor, ": ", std::string(what)));
}

// Whether it is a list of numbers from 0 on.
bool IsCounts(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& number) {
           return number.is_number_unsigned();
         });
}

StatusOr<TensorMetadata> ParseMetadata(const Json& value) {
  TensorMetadata metadata;
  if (!value.is_object()) return Problem(kMetadataKey, "the value is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return Problem(kMetadataKey, absl::StrCat(key, " is not a text"));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

StatusOr<Tensor> ParseTensor(const std::string& name, const Json& entry) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return Problem(name, "the entry must have exactly dtype, shape and data_offsets");
  }
  Tensor tensor;
  tensor.spec.name = name;
  const Json& dtype = entry["dtype"];
  const auto* const traits = std::find_if(
      kDTypes.begin(), kDTypes.end(), [&](const DTypeTraits& one) { return dtype == one.name; });
  if (traits == kDTypes.end()) {
    return Problem(name, absl::StrCat("dtype ", JsonText(dtype),
                                      " is not one of U8, U16, U32, U64, F16, F32, F64"));
  }
  tensor.spec.dtype = traits->dtype;
  if (!IsCounts(entry["shape"])) return Problem(name, "shape is not a list of counts");
  tensor.spec.shape = entry["shape"].get<std::vector<uint64_t>>();
  const Json& offsets = entry["data_offsets"];
  if (!IsCounts(offsets) || offsets.size() != 2) {
    return Problem(name, "data_offsets is not a list of two counts");
  }
  tensor.offset = offsets[0].get<uint64_t>();
  const auto end = offsets[1].get<uint64_t>();
  const std::optional<uint64_t> bytes = TensorBytes(tensor.spec);
  if (!bytes.has_value()) return Problem(name, "its shape has 2^63 bytes or more");
  if (end < tensor.offset || end - tensor.offset != *bytes) {
    return Problem(name, absl::StrCat("dtype and shape need ", *bytes, " bytes; data_offsets are ",
                                      tensor.offset, " and ", end));
  }
  tensor.row_bytes = *RowBytes(tensor.spec);
  return tensor;
}

}  // namespace

const char* DTypeName(DType dtype) { return Traits(dtype).name; }

uint64_t ElementBytes(DType dtype) { return Traits(dtype).bytes; }

std::optional<uint64_t> RowBytes(const TensorSpec& spec) {
  std::optional<uint64_t> bytes = ElementBytes(spec.dtype);
  for (size_t i = 1; i < spec.shape.size(); ++i) bytes = Product(bytes, spec.shape[i]);
  return bytes;
}

std::optional<uint64_t> TensorBytes(const TensorSpec& spec) {
  return Product(RowBytes(spec), spec.rows());
}

uint64_t TensorSpec::row_bytes() const {
  const std::optional<uint64_t> bytes = RowBytes(*this);
  SIMURGH_CHECK(bytes.has_value()) << name << ": a row has 2^63 bytes or more";
  return *bytes;
}

std::string HeaderText(std::span<const Tensor> tensors, const TensorMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  for (const Tensor& tensor : tensors) {
    header[tensor.spec.name] = {{"dtype", DTypeName(tensor.spec.dtype)},
                                {"shape", tensor.spec.shape},
                                {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes()}}};
  }
  std::string text = JsonText(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

StatusOr<Header> ParseHeader(std::string_view text) {
  SIMURGH_ASSIGN_OR_RETURN(const Json parsed, ParseJsonObject(text));
  Header header;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == kMetadataKey) {
      SIMURGH_ASSIGN_OR_RETURN(header.metadata, ParseMetadata(entry));
      continue;
    }
    SIMURGH_ASSIGN_OR_RETURN(Tensor tensor, ParseTensor(name, entry));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tuple(a.offset, a.bytes()) < std::tuple(b.offset, b.bytes());
  });
  for (const Tensor& tensor : header.tensors) {
    if (tensor.offset != header.data_bytes) {
      return Problem(tensor.spec.name,
                     absl::StrCat("the data begins at ", tensor.offset,
                                  "; the tensor before it ends at ", header.data_bytes));
    }
    header.data_bytes += tensor.bytes();
  }
  return header;
}

uint64_t HashOfFile(std::string_view header_with_length, std::span<const uint64_t> sums) {
  ByteHasher hasher;
  hasher.Update(std::as_bytes(std::span(header_with_length)));
  hasher.Update(std::as_bytes(sums));
  return hasher.Finish();
}

}  // namespace simurgh
