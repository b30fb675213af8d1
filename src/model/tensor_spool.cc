#include "simurgh/model/tensor_spool.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "simurgh/model/table_export.h"

namespace simurgh {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;

}  // namespace

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
