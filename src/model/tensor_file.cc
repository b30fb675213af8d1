#include "model/tensor_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/hash.h"
#include "model/json.h"
#include "model/table_export.h"

namespace simurgh {
namespace {

// Bytes of one tensor to write back at once. The disk works while the rest is written.
constexpr uint64_t kWriteBackBytes = uint64_t{8} << 20;

// Value of Tensor::next_row when the next Read in order does not continue a checksum.
constexpr uint64_t kNowhere = std::numeric_limits<uint64_t>::max();

constexpr size_t kChunkBytes = size_t{64} << 10;

constexpr char kMetadataKey[] = "__metadata__";
constexpr char kSumsName[] = "sums";
constexpr uint64_t kLengthBytes = sizeof(uint64_t);  // Size of the header's length.

// The place of a tensor in its file, and how far it has been written or read.
struct Tensor {
  uint64_t bytes() const { return spec.rows() * row_bytes; }
  // Number of checksums; 0 for a tensor without bytes.
  uint64_t sum_count() const { return bytes() == 0 ? 0 : (spec.rows() - 1) / kRowsPerSum + 1; }

  TensorSpec spec;
  uint64_t row_bytes = 0;
  uint64_t offset = 0;     // Offset from the start of the data, which follows the header.
  uint64_t first_sum = 0;  // Index of its first checksum.
  // The next row in order. The hasher has the rows from the last multiple of kRowsPerSum on.
  uint64_t next_row = 0;
  ByteHasher hasher;
  uint64_t sent = 0;  // Bytes that the writer has asked to write back.
};

struct Header {
  TensorMetadata metadata;
  std::vector<Tensor> tensors;  // All tensors in the order of the file, `sums` among them.
  uint64_t data_bytes = 0;
};

// Hashes rows from next_row on, and calls done(index of the checksum, first row, end, hash) for
// each checksum whose last row is among them. Requires: whole rows, no more than the tensor has.
template <typename Done>
Status HashRows(Tensor& tensor, std::span<const std::byte> bytes, Done done) {
  while (!bytes.empty()) {
    const uint64_t index = tensor.next_row / kRowsPerSum;
    const uint64_t sum_end = std::min((index + 1) * kRowsPerSum, tensor.spec.rows());
    const uint64_t rows = std::min(bytes.size() / tensor.row_bytes, sum_end - tensor.next_row);
    tensor.hasher.Update(bytes.first(rows * tensor.row_bytes));
    bytes = bytes.subspan(rows * tensor.row_bytes);
    tensor.next_row += rows;
    if (tensor.next_row != sum_end) break;
    SIMURGH_RETURN_IF_ERROR(
        done(tensor.first_sum + index, index * kRowsPerSum, sum_end, tensor.hasher.Finish()));
  }
  return absl::OkStatus();
}

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

uint64_t ElementBytes(DType dtype) { return Traits(dtype).bytes; }

// Returns the bytes of a row; nothing if the number has more than 63 bits.
std::optional<uint64_t> RowBytes(const TensorSpec& spec) {
  std::optional<uint64_t> bytes = ElementBytes(spec.dtype);
  for (size_t i = 1; i < spec.shape.size(); ++i) bytes = Product(bytes, spec.shape[i]);
  return bytes;
}

std::optional<uint64_t> TensorBytes(const TensorSpec& spec) {
  return Product(RowBytes(spec), spec.rows());
}

Status Problem(const std::string& tensor, std::string_view what) {
  return absl::DataLossError(absl::StrCat("tensor ", tensor, ": ", std::string(what)));
}

// Returns whether a value is a list of unsigned numbers.
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

// Returns the header without its length, padded to a multiple of 8 bytes. `tensors` include `sums`.
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

// Errors: DATA_LOSS naming the tensor.
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

// Returns the hash of a file in a manifest.
uint64_t HashOfFile(std::string_view header_with_length, std::span<const uint64_t> sums) {
  ByteHasher hasher;
  hasher.Update(std::as_bytes(std::span(header_with_length)));
  hasher.Update(std::as_bytes(sums));
  return hasher.Finish();
}

}  // namespace

const char* DTypeName(DType dtype) { return Traits(dtype).name; }

uint64_t TensorSpec::row_bytes() const {
  const std::optional<uint64_t> bytes = RowBytes(*this);
  SIMURGH_CHECK(bytes.has_value()) << name << ": a row has 2^63 bytes or more";
  return *bytes;
}

struct TensorFileWriter::State {
  ~State() {
    if (file != nullptr) Discard(absl::CancelledError("not finished")).IgnoreError();
  }

  // Removes the file: nothing is known about its content.
  Status Discard(Status why);
  // Writes the checksums. Errors: FAILED_PRECONDITION if rows are missing.
  Status Complete();
  Status Store(uint64_t offset, std::span<const std::byte> bytes);
  Status AppendTo(Tensor& tensor, std::span<const std::byte> bytes);

  FileSystem* files = nullptr;
  std::string path;
  std::unique_ptr<File> file;  // Null after an error and after Finish.
  Status failure;
  std::vector<Tensor> tensors;  // The tensors of Create in their order, then `sums`.
  std::map<std::string, size_t, std::less<>> index;
  std::string header;  // The header's length and text.
  std::vector<uint64_t> sums;
  uint64_t bytes = 0;
};

Status TensorFileWriter::State::Discard(Status why) {
  file.reset();
  files->Remove(path).IgnoreError();
  failure = std::move(why);
  return failure;
}

Status TensorFileWriter::State::Store(uint64_t offset, std::span<const std::byte> content) {
  Status written = file->Write(offset, content);
  return written.ok() ? written : Discard(std::move(written));
}

Status TensorFileWriter::State::AppendTo(Tensor& tensor, std::span<const std::byte> rows) {
  if (!failure.ok()) return failure;
  SIMURGH_CHECK(file != nullptr) << path << " is finished";
  const uint64_t begin = tensor.next_row * tensor.row_bytes;
  SIMURGH_CHECK_LE(rows.size(), tensor.bytes() - begin) << tensor.spec.name;
  SIMURGH_CHECK(rows.empty() || rows.size() % tensor.row_bytes == 0) << tensor.spec.name;
  const uint64_t at = header.size() + tensor.offset;
  SIMURGH_RETURN_IF_ERROR(Store(at + begin, rows));
  const uint64_t end = begin + rows.size();
  if (end - tensor.sent >= kWriteBackBytes) {
    file->StartWriteBack(at + tensor.sent, end - tensor.sent);
    tensor.sent = end;
  }
  return HashRows(tensor, rows, [&](uint64_t sum, uint64_t, uint64_t, uint64_t hash) {
    sums[sum] = hash;
    return absl::OkStatus();
  });
}

TensorFileWriter::TensorFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorFileWriter::~TensorFileWriter() = default;
TensorFileWriter::TensorFileWriter(TensorFileWriter&&) noexcept = default;
TensorFileWriter& TensorFileWriter::operator=(TensorFileWriter&&) noexcept = default;

std::unique_ptr<TensorFileWriter::State> TensorFileWriter::Plan(
    const std::string& path, const std::vector<TensorSpec>& specs, const TensorMetadata& metadata) {
  auto state = std::make_unique<State>();
  state->path = path;
  std::vector<Tensor>& tensors = state->tensors;
  const auto add = [&](const TensorSpec& spec) -> Tensor& {
    SIMURGH_CHECK(TensorBytes(spec).has_value()) << spec.name << ": 2^63 bytes or more";
    SIMURGH_CHECK(state->index.emplace(spec.name, tensors.size()).second &&
                  spec.name != kMetadataKey)
        << spec.name << ": the name is reserved or used twice";
    Tensor& tensor = tensors.emplace_back();
    tensor.spec = spec;
    tensor.row_bytes = spec.row_bytes();
    return tensor;
  };
  uint64_t sum_count = 0;
  for (const TensorSpec& spec : specs) sum_count += add(spec).sum_count();
  add({kSumsName, DType::kU64, {sum_count}});
  state->sums.resize(sum_count);

  // Places the checksums, then large elements before small ones: all are aligned without gaps.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::rotate(order.begin(), order.end() - 1, order.end());
  std::sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) {
    const uint64_t a_bytes = ElementBytes(tensors[a].spec.dtype);
    const uint64_t b_bytes = ElementBytes(tensors[b].spec.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
  });
  uint64_t first_sum = 0;
  for (const size_t i : order) {
    tensors[i].offset = state->bytes;
    state->bytes += tensors[i].bytes();
    if (i == specs.size()) continue;
    tensors[i].first_sum = first_sum;
    first_sum += tensors[i].sum_count();
    SIMURGH_CHECK(state->bytes >> 63 == 0) << path << ": 2^63 bytes or more";
  }
  const std::string text = HeaderText(tensors, metadata);
  const uint64_t length = text.size();
  state->header.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
  state->header += text;
  state->bytes += state->header.size();
  return state;
}

uint64_t TensorFileWriter::BytesOf(const std::vector<TensorSpec>& specs,
                                   const TensorMetadata& metadata) {
  return Plan("", specs, metadata)->bytes;
}

StatusOr<TensorFileWriter> TensorFileWriter::Create(const std::string& path,
                                                    const std::vector<TensorSpec>& specs,
                                                    const TensorMetadata& metadata,
                                                    FileSystem& files) {
  std::unique_ptr<State> state = Plan(path, specs, metadata);
  if (const uint64_t text = state->header.size() - kLengthBytes; text > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the header has ", text, " bytes; at most ", kMaxHeaderBytes,
                     " are allowed; use fewer tensors or shorter metadata"));
  }
  state->files = &files;
  SIMURGH_ASSIGN_OR_RETURN(state->file, files.Create(path));
  Status room = state->file->Allocate(state->bytes);
  if (!room.ok()) return state->Discard(std::move(room));
  SIMURGH_RETURN_IF_ERROR(state->Store(0, std::as_bytes(std::span(state->header))));
  return TensorFileWriter(std::move(state));
}

Status TensorFileWriter::Append(uint64_t rows, std::span<const std::span<const std::byte>> parts) {
  SIMURGH_CHECK_EQ(parts.size() + 1, state_->tensors.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    Tensor& tensor = state_->tensors[i];
    SIMURGH_CHECK_EQ(parts[i].size(), rows * tensor.row_bytes) << tensor.spec.name;
    SIMURGH_RETURN_IF_ERROR(state_->AppendTo(tensor, parts[i]));
  }
  return absl::OkStatus();
}

Status TensorFileWriter::Write(std::string_view tensor, std::span<const std::byte> bytes) {
  const auto found = state_->index.find(tensor);
  SIMURGH_CHECK(found != state_->index.end() && tensor != kSumsName)
      << tensor << " is not a tensor of " << state_->path;
  return state_->AppendTo(state_->tensors[found->second], bytes);
}

Status TensorFileWriter::State::Complete() {
  if (!failure.ok()) return failure;
  for (const Tensor& tensor : tensors) {
    if (tensor.spec.name == kSumsName || tensor.bytes() == tensor.next_row * tensor.row_bytes) {
      continue;
    }
    return Discard(absl::FailedPreconditionError(
        absl::StrCat(path, ": tensor ", tensor.spec.name, " got ", tensor.next_row, " of ",
                     tensor.spec.rows(), " rows; the file is removed")));
  }
  return Store(header.size() + tensors.back().offset, std::as_bytes(std::span(sums)));
}

StatusOr<ModelFile> TensorFileWriter::Finish() {
  TensorFileWriter* const own = this;
  SIMURGH_ASSIGN_OR_RETURN(std::vector<ModelFile> files, FinishAll({&own, 1}));
  return std::move(files[0]);
}

StatusOr<std::vector<ModelFile>> TensorFileWriter::FinishAll(
    std::span<TensorFileWriter* const> writers) {
  Status status;
  std::vector<File*> files;
  for (TensorFileWriter* const writer : writers) {
    if (status.ok()) status = writer->state_->Complete();
    files.push_back(writer->state_->file.get());
  }
  if (status.ok() && !files.empty()) status = writers[0]->state_->files->SyncFiles(files);
  std::vector<ModelFile> finished;
  for (TensorFileWriter* const writer : writers) {
    State& state = *writer->state_;
    if (status.ok()) {
      state.file.reset();
      finished.push_back({state.path, state.bytes, HashOfFile(state.header, state.sums)});
    } else if (state.file != nullptr) {
      state.Discard(status).IgnoreError();
    }
  }
  SIMURGH_RETURN_IF_ERROR(status);
  return finished;
}

struct TensorFileReader::State {
  Status Damaged(std::string_view what) const {
    return absl::DataLossError(absl::StrCat(file.path, ": ", std::string(what),
                                            "; the file is damaged, use another checkpoint"));
  }
  Status ReadHeader();
  Status ReadSums();
  StatusOr<Tensor*> Find(std::string_view name);
  Status Check(Tensor& tensor, uint64_t first_row, std::span<const std::byte> bytes);

  std::unique_ptr<File> input;
  ModelFile file;
  Header header;
  uint64_t data_begin = 0;
  std::string header_text;  // The header's length and text. Empty once hashed.
  std::vector<TensorSpec> specs;
  std::map<std::string, size_t, std::less<>> index;
  std::optional<std::vector<uint64_t>> sums;
};

Status TensorFileReader::State::ReadHeader() {
  if (file.bytes < kLengthBytes) return Damaged(absl::StrCat("it has ", file.bytes, " bytes"));
  uint64_t length = 0;
  SIMURGH_RETURN_IF_ERROR(input->Read(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxHeaderBytes || length > file.bytes - kLengthBytes) {
    return Damaged(absl::StrCat("it has ", file.bytes, " bytes and a header of ", length,
                                ", of which ", kMaxHeaderBytes, " are allowed"));
  }
  data_begin = kLengthBytes + length;
  header_text.resize(data_begin);
  SIMURGH_RETURN_IF_ERROR(input->Read(0, std::as_writable_bytes(std::span(header_text))));
  StatusOr<Header> parsed = ParseHeader(std::string_view(header_text).substr(kLengthBytes));
  if (!parsed.ok()) return Damaged(std::string(parsed.status().message()));
  header = *std::move(parsed);
  if (file.bytes - data_begin != header.data_bytes) {
    return Damaged(absl::StrCat("it has ", file.bytes, " bytes; its header describes ",
                                data_begin + header.data_bytes));
  }
  return absl::OkStatus();
}

// Moves the checksums out of the list of tensors.
Status TensorFileReader::State::ReadSums() {
  const auto stored = std::find_if(header.tensors.begin(), header.tensors.end(),
                                   [](const Tensor& one) { return one.spec.name == kSumsName; });
  if (stored == header.tensors.end()) return absl::OkStatus();
  const TensorSpec spec = stored->spec;
  const uint64_t at = data_begin + stored->offset;
  header.tensors.erase(stored);
  uint64_t count = 0;
  for (Tensor& tensor : header.tensors) count += tensor.sum_count();
  if (spec.dtype != DType::kU64 || spec.shape != std::vector<uint64_t>{count}) {
    return Damaged(absl::StrCat("tensor sums has the shape [", absl::StrJoin(spec.shape, ", "),
                                "]; the other tensors need ", count, " numbers of type U64"));
  }
  sums.emplace(count);
  return input->Read(at, std::as_writable_bytes(std::span(*sums)));
}

StatusOr<Tensor*> TensorFileReader::State::Find(std::string_view name) {
  const auto found = index.find(name);
  if (found != index.end()) return &header.tensors[found->second];
  return absl::NotFoundError(
      absl::StrCat(file.path, ": there is no tensor ", std::string(name), "; the file has ",
                   absl::StrJoin(specs, ", ", [](std::string* text, const TensorSpec& spec) {
                     absl::StrAppend(text, spec.name);
                   })));
}

Status TensorFileReader::State::Check(Tensor& tensor, uint64_t first_row,
                                      std::span<const std::byte> bytes) {
  if (!sums.has_value() || bytes.empty()) return absl::OkStatus();
  const uint64_t end = first_row + bytes.size() / tensor.row_bytes;
  if (first_row != tensor.next_row) {
    // The first row of a checksum at or after first_row.
    const uint64_t start = (first_row + kRowsPerSum - 1) / kRowsPerSum * kRowsPerSum;
    tensor.hasher.Finish();
    tensor.next_row = start < end ? start : kNowhere;
    if (start >= end) return absl::OkStatus();
    bytes = bytes.subspan((start - first_row) * tensor.row_bytes);
  }
  return HashRows(tensor, bytes, [&](uint64_t sum, uint64_t first, uint64_t last, uint64_t hash) {
    if (hash == (*sums)[sum]) return absl::OkStatus();
    tensor.next_row = kNowhere;
    return Damaged(absl::StrCat("tensor ", tensor.spec.name, ", rows ", first, " to ", last - 1,
                                ": the checksum is ", absl::Hex(hash, absl::kZeroPad16),
                                " and not ", absl::Hex((*sums)[sum], absl::kZeroPad16)));
  });
}

TensorFileReader::TensorFileReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorFileReader::~TensorFileReader() = default;
TensorFileReader::TensorFileReader(TensorFileReader&&) noexcept = default;
TensorFileReader& TensorFileReader::operator=(TensorFileReader&&) noexcept = default;

StatusOr<TensorFileReader> TensorFileReader::Open(const std::string& path, FileSystem& files) {
  auto state = std::make_unique<State>();
  state->file.path = path;
  SIMURGH_ASSIGN_OR_RETURN(state->input, files.Open(path));
  SIMURGH_ASSIGN_OR_RETURN(state->file.bytes, state->input->Size());
  SIMURGH_RETURN_IF_ERROR(state->ReadHeader());
  SIMURGH_RETURN_IF_ERROR(state->ReadSums());
  state->file.hash = HashOfFile(state->header_text, state->sums.has_value()
                                                        ? std::span<const uint64_t>(*state->sums)
                                                        : std::span<const uint64_t>());
  state->header_text = {};
  uint64_t first_sum = 0;
  for (Tensor& tensor : state->header.tensors) {
    tensor.next_row = kNowhere;
    tensor.first_sum = first_sum;
    first_sum += tensor.sum_count();
    state->index.emplace(tensor.spec.name, state->specs.size());
    state->specs.push_back(tensor.spec);
  }
  return TensorFileReader(std::move(state));
}

const std::vector<TensorSpec>& TensorFileReader::tensors() const { return state_->specs; }
const TensorMetadata& TensorFileReader::metadata() const { return state_->header.metadata; }
bool TensorFileReader::has_sums() const { return state_->sums.has_value(); }
const ModelFile& TensorFileReader::file() const { return state_->file; }

Status TensorFileReader::Read(std::string_view name, uint64_t first_row, uint64_t rows,
                              std::span<std::byte> bytes) {
  State& state = *state_;
  SIMURGH_ASSIGN_OR_RETURN(Tensor* const place, state.Find(name));
  Tensor& tensor = *place;
  if (first_row > tensor.spec.rows() || rows > tensor.spec.rows() - first_row) {
    return absl::OutOfRangeError(absl::StrCat(state.file.path, ": tensor ", std::string(name),
                                              " has ", tensor.spec.rows(), " rows; row ", first_row,
                                              " and ", rows, " in all were requested"));
  }
  SIMURGH_CHECK_EQ(bytes.size(), rows * tensor.row_bytes) << name;
  const uint64_t at = first_row * tensor.row_bytes;
  const uint64_t begin = state.data_begin + tensor.offset;
  SIMURGH_RETURN_IF_ERROR(state.input->Read(begin + at, bytes));
  // The system reads ahead of one place in a file only, and tensors are read in turns.
  const uint64_t end = at + bytes.size();
  state.input->StartRead(begin + end, std::min<uint64_t>(bytes.size(), tensor.bytes() - end));
  return state.Check(tensor, first_row, bytes);
}

StatusOr<std::shared_ptr<const std::byte>> TensorFileReader::Map(std::string_view name) {
  SIMURGH_ASSIGN_OR_RETURN(const Tensor* const tensor, state_->Find(name));
  return state_->input->Map(state_->data_begin + tensor->offset, tensor->bytes());
}

StatusOr<TensorSpool> TensorSpool::Create(const std::string& folder,
                                          std::vector<TensorSpec> tensors) {
  const std::string path = absl::StrCat(folder, "/.tensors.tmp-", getpid());
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, FileSystem::Real().Create(path));
  SIMURGH_RETURN_IF_ERROR(FileSystem::Real().Remove(path));
  for (TensorSpec& tensor : tensors) tensor.shape[0] = 1;
  return TensorSpool(std::move(file), std::move(tensors));
}

Status TensorSpool::Append(size_t tensor, std::span<const std::byte> rows) {
  Rows& own = rows_[tensor];
  own.bytes += rows.size();
  own.last.insert(own.last.end(), rows.begin(), rows.end());
  return own.last.size() < kChunkBytes ? absl::OkStatus() : Flush(own);
}

Status TensorSpool::Flush(Rows& rows) {
  SIMURGH_RETURN_IF_ERROR(file_->Write(end_, rows.last));
  rows.chunks.push_back({end_, rows.last.size()});
  end_ += rows.last.size();
  rows.last.clear();
  return absl::OkStatus();
}

std::vector<TensorSpec> TensorSpool::Specs() const {
  std::vector<TensorSpec> specs = tensors_;
  for (size_t i = 0; i < specs.size(); ++i)
    specs[i].shape[0] = rows_[i].bytes / specs[i].row_bytes();
  return specs;
}

Status TensorSpool::ForEachChunk(size_t tensor,
                                 absl::FunctionRef<Status(std::span<const std::byte> rows)> visit) {
  std::vector<std::byte> bytes;
  for (const auto& chunk : rows_[tensor].chunks) {
    bytes.resize(chunk.bytes);
    SIMURGH_RETURN_IF_ERROR(file_->Read(chunk.offset, bytes));
    SIMURGH_RETURN_IF_ERROR(visit(bytes));
  }
  return visit(rows_[tensor].last);
}

Status TensorSpool::WriteTensors(const std::string& path, const TensorMetadata& metadata) {
  const std::vector<TensorSpec> specs = Specs();
  SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter file, TensorFileWriter::Create(path, specs, metadata));
  for (size_t i = 0; i < specs.size(); ++i) {
    SIMURGH_RETURN_IF_ERROR(
        ForEachChunk(i, [&](auto rows) { return file.Write(specs[i].name, rows); }));
  }
  return file.Finish().status();
}

Status TensorSpool::WriteNpz(const std::string& path) {
  NpzWriter file(path);
  const std::vector<TensorSpec> specs = Specs();
  for (size_t i = 0; i < specs.size(); ++i) {
    file.Begin(specs[i]);
    SIMURGH_RETURN_IF_ERROR(ForEachChunk(i, [&](auto rows) {
      file.Write(rows);
      return absl::OkStatus();
    }));
  }
  return file.Finish();
}

}  // namespace simurgh
