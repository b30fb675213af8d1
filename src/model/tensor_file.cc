#include "simurgh/model/tensor_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/tensor_layout.h"

#include "simurgh/base/check.h"
#include "simurgh/model/table_export.h"

namespace simurgh {
namespace {

// Of one tensor. The disk works while the rest is written.
constexpr uint64_t kWriteBackBytes = uint64_t{8} << 20;

// Of Tensor::next_row: the next Read in order does not continue a checksum.
constexpr uint64_t kNowhere = std::numeric_limits<uint64_t>::max();

constexpr size_t kChunkBytes = size_t{64} << 10;

}  // namespace

struct TensorFileWriter::State {
  ~State() {
    if (file != nullptr) Discard(absl::CancelledError("not finished")).IgnoreError();
  }

  // Removes the file: nothing is known about its content.
  Status Discard(Status why);
  Status Store(uint64_t offset, std::span<const std::byte> bytes);
  Status AppendTo(Tensor& tensor, std::span<const std::byte> bytes);

  FileSystem* files = nullptr;
  std::string path;
  std::unique_ptr<File> file;  // Null after an error and after Finish.
  Status failure;
  std::vector<Tensor> tensors;  // In the order of Create, and `sums`.
  std::map<std::string, size_t, std::less<>> index;
  std::string header;  // With its length.
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

  // The checksums, then large elements before small ones: all are aligned without gaps.
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

StatusOr<ModelFile> TensorFileWriter::Finish() {
  State& state = *state_;
  if (!state.failure.ok()) return state.failure;
  for (const Tensor& tensor : state.tensors) {
    if (tensor.spec.name == kSumsName || tensor.bytes() == tensor.next_row * tensor.row_bytes) {
      continue;
    }
    return state.Discard(absl::FailedPreconditionError(
        absl::StrCat(state.path, ": tensor ", tensor.spec.name, " got ", tensor.next_row, " of ",
                     tensor.spec.rows(), " rows; the file is removed")));
  }
  const uint64_t at = state.header.size() + state.tensors.back().offset;
  SIMURGH_RETURN_IF_ERROR(state.Store(at, std::as_bytes(std::span(state.sums))));
  Status synced = state.file->Sync();
  if (!synced.ok()) return state.Discard(std::move(synced));
  state.file.reset();
  return ModelFile{state.path, state.bytes, HashOfFile(state.header, state.sums)};
}

struct TensorFileReader::State {
  Status Damaged(std::string_view what) const {
    return absl::DataLossError(absl::StrCat(file.path, ": ", std::string(what),
                                            "; the file is damaged, use another checkpoint"));
  }
  Status ReadHeader();
  Status ReadSums();
  Status Check(Tensor& tensor, uint64_t first_row, std::span<const std::byte> bytes);

  std::unique_ptr<File> input;
  ModelFile file;
  Header header;
  uint64_t data_begin = 0;
  std::string header_text;  // With its length. Empty once hashed.
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

// Takes the checksums out of the tensors.
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
  const auto found = state.index.find(name);
  if (found == state.index.end()) {
    return absl::NotFoundError(absl::StrCat(
        state.file.path, ": there is no tensor ", std::string(name), "; the file has ",
        absl::StrJoin(state.specs, ", ", [](std::string* text, const TensorSpec& spec) {
          absl::StrAppend(text, spec.name);
        })));
  }
  Tensor& tensor = state.header.tensors[found->second];
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
