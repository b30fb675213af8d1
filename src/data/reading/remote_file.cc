#include "data/reading/remote_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/data_config.h"
#include "config/uri.h"
#include "data/reading/arrow_library.h"
#include "simurgh/arrow_module.h"

namespace simurgh {

StatusOr<std::vector<RemoteFile>> ListRemoteFiles(const std::string& uri) {
  if (HasCredentials(uri)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file ", kCredentialsProblem, "; ", kCredentialsRemedy));
  }
  const auto module = ArrowModule();
  if (!module.ok()) return Annotate(module.status(), uri);
  std::vector<RemoteFile> files;
  ModuleMessage message;
  const auto found = [](void* context, const simurgh_arrow_file* file) {
    static_cast<std::vector<RemoteFile>*>(context)->push_back(
        {.path = file->path, .bytes = file->bytes, .modified_ns = file->modified_ns});
  };
  const Status listed = message.Of((*module)->list(uri.c_str(), found, &files, message.room()));
  if (!listed.ok()) {
    return absl::Status(
        listed.code(),
        absl::StrCat(uri, ": ", absl::string_view(listed.message()),
                     "; check the URI, the region and endpoint after ?, and the credentials, see "
                     "Object stores in config/README.md"));
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat(uri,
                     ": it names no file, or a folder without .parquet files; correct it, or "
                     "give a pattern such as s3://bucket/folder/*.csv.gz"));
  }
  return files;
}

StatusOr<std::vector<std::string>> WithRemoteFiles(const std::vector<std::string>& paths,
                                                   std::vector<uint64_t>* bytes) {
  std::vector<std::string> all;
  const auto add = [&](std::string path, uint64_t size) {
    all.push_back(std::move(path));
    if (bytes != nullptr) bytes->push_back(size);
  };
  for (const std::string& path : paths) {
    if (!IsUri(path)) {
      add(path, 0);
      continue;
    }
    SIMURGH_ASSIGN_OR_RETURN(std::vector<RemoteFile> files, ListRemoteFiles(path));
    for (RemoteFile& file : files) add(std::move(file.path), file.bytes);
  }
  return all;
}

StatusOr<std::unique_ptr<RemoteFileReader>> RemoteFileReader::Open(const std::string& uri) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh_arrow_module* const module, ArrowModule());
  ModuleMessage message;
  simurgh_arrow_remote* file = nullptr;
  uint64_t bytes = 0;
  SIMURGH_RETURN_IF_ERROR(
      message.Of(module->open_remote(uri.c_str(), &file, &bytes, message.room())));
  std::unique_ptr<RemoteFileReader> reader(new RemoteFileReader(*module, file, bytes));
  reader->StartBlock();
  return reader;
}

RemoteFileReader::~RemoteFileReader() {
  if (requested_.valid()) requested_.wait();
  module_.close_remote(file_);
}

void RemoteFileReader::Seek(uint64_t byte) {
  if (requested_.valid()) requested_.wait();
  requested_ = {};
  block_.clear();
  begin_ = 0;
  next_ = byte;
  StartBlock();
}

StatusOr<size_t> RemoteFileReader::Read(char* data, size_t size) {
  if (begin_ == block_.size()) {
    SIMURGH_RETURN_IF_ERROR(failure_);
    if (!requested_.valid()) return 0;
    StatusOr<std::string> block = requested_.get();
    if (!block.ok()) return failure_ = block.status();
    block_ = *std::move(block);
    begin_ = 0;
    StartBlock();
  }
  const size_t count = std::min(size, block_.size() - begin_);
  std::memcpy(data, block_.data() + begin_, count);
  begin_ += count;
  return count;
}

void RemoteFileReader::StartBlock() {
  if (next_ >= bytes_) return;
  const uint64_t byte = next_;
  const size_t size = std::min<uint64_t>(kBlockBytes, bytes_ - byte);
  next_ += size;
  requested_ = std::async(std::launch::async, [this, byte, size] { return ReadBlock(byte, size); });
}

StatusOr<std::string> RemoteFileReader::ReadBlock(uint64_t byte, size_t size) const {
  std::string block(size, '\0');
  size_t done = 0;
  while (done < size) {
    ModuleMessage message;
    size_t count = 0;
    SIMURGH_RETURN_IF_ERROR(message.Of(module_.read_remote(file_, byte + done, block.data() + done,
                                                           size - done, &count, message.room())));
    if (count == 0) {
      return absl::DataLossError(absl::StrCat("it ended at byte ", byte + done, " of ", bytes_,
                                              "; it has changed while it was read"));
    }
    done += count;
  }
  return block;
}

}  // namespace simurgh
