#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

#include "simurgh/base/status.h"
#include "simurgh/model/file_system.h"
#include "simurgh/model/tensor_file.h"

namespace simurgh {

// Tensors that grow row by row, to write a file of them when their shapes are known. Until then
// the rows are in a temporary file without a name.
//
// Memory: 64 KiB for each tensor, and 16 bytes for each 64 KiB of rows. Threads: one owner.
class TensorSpool {
 public:
  // folder: of the temporary file. tensors: with any number of rows.
  // Errors: those of FileSystem.
  static StatusOr<TensorSpool> Create(const std::string& folder, std::vector<TensorSpec> tensors);

  // tensor: its index. Requires whole rows. Errors: those of File.
  Status Append(size_t tensor, std::span<const std::byte> rows);

  // Writes all rows to a new file. Errors: of TensorFileWriter and NpzWriter.
  Status WriteTensors(const std::string& path, const TensorMetadata& metadata);
  Status WriteNpz(const std::string& path);

 private:
  struct Rows {
    struct Chunk {
      uint64_t offset;
      uint64_t bytes;
    };
    uint64_t bytes = 0;
    std::vector<Chunk> chunks;
    std::vector<std::byte> last;  // Not in the file yet.
  };

  TensorSpool(std::unique_ptr<File> file, std::vector<TensorSpec> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)), rows_(tensors_.size()) {}

  Status Flush(Rows& rows);
  // The tensors with their numbers of rows.
  std::vector<TensorSpec> Specs() const;
  Status ForEachChunk(size_t tensor,
                      absl::FunctionRef<Status(std::span<const std::byte> rows)> visit);

  std::unique_ptr<File> file_;
  uint64_t end_ = 0;
  std::vector<TensorSpec> tensors_;
  std::vector<Rows> rows_;  // By tensor.
};

}  // namespace simurgh
