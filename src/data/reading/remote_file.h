#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

struct simurgh_arrow_module;
struct simurgh_arrow_remote;

// Files of object stores, whose paths are URIs such as s3://bucket/key. libsimurgh_arrow.so reads
// them.
namespace simurgh {

struct RemoteFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // Nanoseconds since 1970.
};

// Returns the files that a URI names, in the order of their names, as the module lists them.
// Errors: those of the module; NOT_FOUND for none.
StatusOr<std::vector<RemoteFile>> ListRemoteFiles(const std::string& uri);

// Returns the paths, with URIs replaced by the files that they name. bytes: set to the sizes of
// remote files, and 0 for others; may be null. Errors: those of ListRemoteFiles.
StatusOr<std::vector<std::string>> WithRemoteFiles(const std::vector<std::string>& paths,
                                                   std::vector<uint64_t>* bytes = nullptr);

// Reads a file in order, by large requests. One is under way while the caller reads another's
// bytes.
//
// Memory: two blocks of kBlockBytes.
// Threads: one owner.
class RemoteFileReader {
 public:
  static constexpr size_t kBlockBytes = size_t{8} * 1024 * 1024;

  // Opens a file at its first byte. Errors: those of the module, without the path, as for all
  // functions.
  static StatusOr<std::unique_ptr<RemoteFileReader>> Open(const std::string& uri);
  RemoteFileReader(const RemoteFileReader&) = delete;
  RemoteFileReader& operator=(const RemoteFileReader&) = delete;
  ~RemoteFileReader();

  // Continues at this byte.
  void Seek(uint64_t byte);
  // Reads up to `size` bytes to `data` and returns their number; 0: the end. After an error all
  // further calls return it.
  StatusOr<size_t> Read(char* data, size_t size);

 private:
  RemoteFileReader(const simurgh_arrow_module& module, simurgh_arrow_remote* file, uint64_t bytes)
      : module_(module), file_(file), bytes_(bytes) {}
  // Begins to read the block at next_, if the file has one.
  void StartBlock();
  StatusOr<std::string> ReadBlock(uint64_t byte, size_t size) const;

  const simurgh_arrow_module& module_;
  simurgh_arrow_remote* const file_;
  const uint64_t bytes_;
  std::string block_;
  size_t begin_ = 0;   // Place of the first unread byte in the block.
  uint64_t next_ = 0;  // Byte of the file where the next request begins.
  std::future<StatusOr<std::string>> requested_;
  Status failure_ = absl::OkStatus();  // The first error of a request.
};

}  // namespace simurgh
