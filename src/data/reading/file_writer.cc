#include "data/reading/file_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh {
namespace {

// Level 3 makes files of hashed ids 2 % smaller but takes twice the time.
constexpr int kCompressionLevel = 2;

}  // namespace

struct FileWriter::State {
  ~State() {
    ZSTD_freeCCtx(encoder);
    if (descriptor >= 0) ::close(descriptor);
    if (!temporary_path.empty()) ::unlink(temporary_path.c_str());
  }

  Status Failed(std::string_view what) const {
    const int error = errno;  // Saved before a call below changes it.
    return {absl::ErrnoToStatusCode(error),
            absl::StrCat("cannot ", absl::string_view(what.data(), what.size()), " ", path, ": ",
                         std::strerror(error), "; check its folder, permissions and free space")};
  }
  Status WriteRaw(std::string_view bytes) const;
  Status Compress(std::string_view bytes, ZSTD_EndDirective directive);

  // Opens a file without a name, which vanishes with a killed process, or a temporary one where the
  // file system does not support that.
  Status Open();
  // Gives the file its path.
  Status Rename();

  std::string path;
  std::string temporary_path;  // Empty: the file has no name yet, or its final one.
  int descriptor = -1;
  ZSTD_CCtx* encoder = nullptr;  // Owned; null for a plain file.
  std::vector<char> compressed;
};

Status FileWriter::State::Open() {
  constexpr mode_t kReadableByAll = 0644;
  const std::string folder = std::filesystem::path(path).parent_path();
  descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC,
                      kReadableByAll);
  if (descriptor < 0) {
    std::string name = path + ".XXXXXX";
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor < 0) return Failed("create");
    temporary_path = std::move(name);
  }
  return ::fchmod(descriptor, kReadableByAll) == 0 ? absl::OkStatus() : Failed("create");
}

Status FileWriter::State::Rename() {
  if (temporary_path.empty()) {
    // linkat() does not replace a file, and rename() does.
    std::string name = absl::StrCat(path, ".", ::getpid());
    ::unlink(name.c_str());
    if (::linkat(AT_FDCWD, absl::StrCat("/proc/self/fd/", descriptor).c_str(), AT_FDCWD,
                 name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return Failed("name");
    }
    temporary_path = std::move(name);
  }
  if (::rename(temporary_path.c_str(), path.c_str()) != 0) return Failed("replace");
  temporary_path.clear();
  return absl::OkStatus();
}

Status FileWriter::State::WriteRaw(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return Failed("write");
    }
  }
  return absl::OkStatus();
}

Status FileWriter::State::Compress(std::string_view bytes, ZSTD_EndDirective directive) {
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  for (;;) {
    ZSTD_outBuffer output{compressed.data(), compressed.size(), 0};
    const size_t held_back = ZSTD_compressStream2(encoder, &output, &input, directive);
    SIMURGH_CHECK(ZSTD_isError(held_back) == 0) << ZSTD_getErrorName(held_back);
    SIMURGH_RETURN_IF_ERROR(WriteRaw({compressed.data(), output.pos}));
    const bool done = directive == ZSTD_e_end ? held_back == 0 : input.pos == input.size;
    if (done) return absl::OkStatus();
  }
}

FileWriter::FileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
FileWriter::~FileWriter() = default;
FileWriter::FileWriter(FileWriter&&) noexcept = default;

StatusOr<FileWriter> FileWriter::Create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  SIMURGH_RETURN_IF_ERROR(state->Open());
  if (path.ends_with(".zst")) {
    state->encoder = ZSTD_createCCtx();
    SIMURGH_CHECK(state->encoder != nullptr) << "out of memory";
    ZSTD_CCtx_setParameter(state->encoder, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(state->encoder, ZSTD_c_compressionLevel, kCompressionLevel);
    state->compressed.resize(ZSTD_CStreamOutSize());
  }
  return FileWriter(std::move(state));
}

Status FileWriter::Append(std::string_view bytes) {
  return state_->encoder == nullptr ? state_->WriteRaw(bytes)
                                    : state_->Compress(bytes, ZSTD_e_continue);
}

Status FileWriter::Commit() {
  if (state_->encoder != nullptr) SIMURGH_RETURN_IF_ERROR(state_->Compress({}, ZSTD_e_end));
  if (::fsync(state_->descriptor) != 0) return state_->Failed("write");
  return state_->Rename();
}

}  // namespace simurgh
