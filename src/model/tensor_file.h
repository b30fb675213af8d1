#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "model/file_system.h"
#include "model/manifest.h"

namespace simurgh {

// Files of tensors in the safetensors format, with checksums: src/model/FORMAT.md.

// Numbers are little-endian. bf16 is stored as kU16 with the metadata "NAME.format": "bf16".
enum class DType : uint8_t { kU8, kU16, kU32, kU64, kF16, kF32, kF64 };

const char* DTypeName(DType dtype);  // Name in the format, such as "F32".

struct TensorSpec {
  // Rows are the first dimension. A tensor without dimensions is one row.
  uint64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  uint64_t row_bytes() const;

  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;

  bool operator==(const TensorSpec&) const = default;
};

// Texts by key; the file's `__metadata__`.
using TensorMetadata = std::map<std::string, std::string>;

// Number of rows that one checksum covers.
inline constexpr uint64_t kRowsPerSum = 65'536;

// Writes a file whose shapes are known in advance. After an error the file is removed, and every
// later call returns the same error. The destructor removes a file that is not finished.
//
// Threads: one owner.
class TensorFileWriter {
 public:
  // Writes the header and reserves the room of the whole file. The folder must exist.
  // Requires: unequal names, none of them `sums` or `__metadata__`; less than 2^63 bytes.
  // Errors: RESOURCE_EXHAUSTED for a full disk, with folder, bytes needed and bytes free;
  // ALREADY_EXISTS; INVALID_ARGUMENT for a header of more than kMaxHeaderBytes.
  static StatusOr<TensorFileWriter> Create(const std::string& path,
                                           const std::vector<TensorSpec>& tensors,
                                           const TensorMetadata& metadata,
                                           FileSystem& files = FileSystem::Real());
  // Returns the size of such a file. Requires: see Create.
  static uint64_t BytesOf(const std::vector<TensorSpec>& tensors, const TensorMetadata& metadata);
  ~TensorFileWriter();
  TensorFileWriter(TensorFileWriter&&) noexcept;
  TensorFileWriter& operator=(TensorFileWriter&&) noexcept;

  // Writes the next `rows` rows of every tensor: parts[i] belongs to tensors[i] of Create and has
  // rows * row_bytes bytes. Cost: a system call per tensor; append some thousand rows at once.
  // Requires: the sizes fit, and no tensor gets more rows than its shape has.
  Status Append(uint64_t rows, std::span<const std::span<const std::byte>> parts);
  // Writes the next rows of one tensor, or all of it. Requires: see Append; whole rows.
  Status Write(std::string_view tensor, std::span<const std::byte> bytes);

  // Writes the checksums and syncs the file. Must be the last call. The caller syncs the folder.
  // Returns the file for the manifest; its path is that of Create.
  // Errors: FAILED_PRECONDITION if rows are missing, naming the tensor.
  StatusOr<ModelFile> Finish();
  // Finishes several files and syncs them together. After an error, none is there.
  // Requires: files of one file system.
  static StatusOr<std::vector<ModelFile>> FinishAll(std::span<TensorFileWriter* const> writers);

 private:
  struct State;
  explicit TensorFileWriter(std::unique_ptr<State> state);
  // Returns the state of a writer that has not created its file.
  static std::unique_ptr<State> Plan(const std::string& path,
                                     const std::vector<TensorSpec>& tensors,
                                     const TensorMetadata& metadata);

  std::unique_ptr<State> state_;
};

// Longest header that is written or read: some 100,000 tensors.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;

// Reads such a file, and files of other programs, which have no checksums.
//
// Threads: one owner. Several readers can read one file.
class TensorFileReader {
 public:
  // Reads and checks the header: shapes, types, sizes and offsets, with no gap and no overlap.
  // Errors: DATA_LOSS for a damaged file, naming file and tensor, what was found and what to do.
  static StatusOr<TensorFileReader> Open(const std::string& path,
                                         FileSystem& files = FileSystem::Real());
  ~TensorFileReader();
  TensorFileReader(TensorFileReader&&) noexcept;
  TensorFileReader& operator=(TensorFileReader&&) noexcept;

  // The tensors in the order of the file, without `sums`.
  const std::vector<TensorSpec>& tensors() const;
  const TensorMetadata& metadata() const;
  bool has_sums() const;
  // Size and hash for a manifest. The hash covers the header and the checksums, and thereby all
  // rows: compare it before the first Read.
  const ModelFile& file() const;

  // Reads rows [first_row, first_row + rows) of a tensor into `bytes`.
  //
  // Reads that begin at a multiple of kRowsPerSum, or where the last Read of this tensor ended, are
  // checked: each checksum is compared when its last row has been read. Hence reading a tensor from
  // its first to its last row checks all of it. Rows from other places are not checked.
  //
  // Requires: bytes.size() == rows * row_bytes.
  // Errors: NOT_FOUND and OUT_OF_RANGE for tensors and rows that the file does not have; DATA_LOSS
  // for damage, naming file, tensor and rows. The destination then has the damaged rows.
  Status Read(std::string_view tensor, uint64_t first_row, uint64_t rows,
              std::span<std::byte> bytes);

  // Maps all rows of a tensor, without a comparison of checksums; null for a tensor without bytes.
  // See File::Map(). Errors: NOT_FOUND for a tensor that the file does not have; those of Map().
  StatusOr<std::shared_ptr<const std::byte>> Map(std::string_view tensor);

 private:
  struct State;
  explicit TensorFileReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Tensors that grow row by row, to write a file of them when their shapes are known. Until then
// the rows are in a temporary file without a name.
//
// Memory: 64 KiB for each tensor, and 16 bytes for each 64 KiB of rows. Threads: one owner.
class TensorSpool {
 public:
  // folder: the folder of the temporary file. tensors: shapes with any number of rows.
  // Errors: those of FileSystem.
  static StatusOr<TensorSpool> Create(const std::string& folder, std::vector<TensorSpec> tensors);

  // tensor: its index. Requires whole rows. Errors: those of File.
  Status Append(size_t tensor, std::span<const std::byte> rows);

  // Writes all rows to a new file. Errors: those of TensorFileWriter and NpzWriter.
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
    std::vector<std::byte> last;  // Rows that are not in the file yet.
  };

  TensorSpool(std::unique_ptr<File> file, std::vector<TensorSpec> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)), rows_(tensors_.size()) {}

  Status Flush(Rows& rows);
  // Returns the tensors with their numbers of rows.
  std::vector<TensorSpec> Specs() const;
  Status ForEachChunk(size_t tensor,
                      absl::FunctionRef<Status(std::span<const std::byte> rows)> visit);

  std::unique_ptr<File> file_;
  uint64_t end_ = 0;
  std::vector<TensorSpec> tensors_;
  std::vector<Rows> rows_;  // The rows of each tensor.
};

}  // namespace simurgh
