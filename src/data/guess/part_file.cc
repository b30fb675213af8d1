#include "data/guess/part_file.h"

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/file_descriptor.h"
#include "base/random.h"
#include "data/reading/file_writer.h"

namespace simurgh {
namespace {

constexpr size_t kBuckets = 256;
constexpr uint64_t kSeed = 1;
constexpr size_t kPieceBytes = size_t{1} << 20;

// Lines with their ends.
struct Lines {
  std::string text;
  std::vector<uint32_t> sizes;
};

}  // namespace

// Each line goes to a random bucket, and each bucket is shuffled in memory. Source: Rao, "Note on
// the generation of random permutations", Sankhya 1961; Durstenfeld, "Algorithm 235: random
// permutation", 1964.
struct PartFile::State {
  State(FileWriter output, std::string name, Order of_lines, uint64_t limit)
      : file(std::move(output)), path(std::move(name)), order(of_lines), memory(limit) {}

  // A range of the temporary file with lines of a bucket.
  struct Extent {
    uint64_t begin;
    uint64_t bytes;
    std::vector<uint32_t> sizes;
  };
  struct Bucket {
    Lines lines;
    std::vector<Extent> extents;
  };

  // Appends to the file, in large pieces.
  Status Append(std::string_view line);
  Status Flush();
  Status Failed(const char* what) const {
    return ErrnoStatus(errno,
                       absl::StrCat("cannot ", what, " a temporary file in the folder of ", path));
  }
  Status OpenTemporary();
  Status WriteTemporary(std::string_view bytes);
  Status ReadTemporary(const Extent& extent, Lines& lines) const;
  // Moves all lines to the temporary file.
  Status Spill();
  // Adds the lines of a bucket to the file, in random order.
  Status Write(Bucket& bucket);

  FileWriter file;
  const std::string path;
  const Order order;
  const uint64_t memory;
  std::string piece;
  uint64_t added = 0;  // Number of lines.
  uint64_t held = 0;   // Bytes in memory.
  FileDescriptor temporary;
  uint64_t written = 0;  // Bytes in the temporary file.
  std::array<Bucket, kBuckets> buckets;
  Random random{kSeed};
};

Status PartFile::State::Append(std::string_view line) {
  piece += line;
  return piece.size() < kPieceBytes ? absl::OkStatus() : Flush();
}

Status PartFile::State::Flush() {
  const Status status = file.Append(piece);
  piece.clear();
  return status;
}

Status PartFile::State::OpenTemporary() {
  if (temporary.valid()) return absl::OkStatus();
  std::string name = path + ".XXXXXX";
  temporary = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!temporary.valid()) return Failed("create");
  ::unlink(name.c_str());
  return absl::OkStatus();
}

Status PartFile::State::WriteTemporary(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(temporary.number(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      written += static_cast<uint64_t>(count);
    } else if (errno != EINTR) {
      return Failed("write");
    }
  }
  return absl::OkStatus();
}

Status PartFile::State::ReadTemporary(const Extent& extent, Lines& lines) const {
  size_t at = lines.text.size();
  lines.text.resize(at + extent.bytes);
  for (uint64_t done = 0; done < extent.bytes;) {
    const ssize_t count = ::pread(temporary.number(), lines.text.data() + at, extent.bytes - done,
                                  static_cast<off_t>(extent.begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Failed("read");
    at += static_cast<size_t>(count);
    done += static_cast<uint64_t>(count);
  }
  lines.sizes.insert(lines.sizes.end(), extent.sizes.begin(), extent.sizes.end());
  return absl::OkStatus();
}

Status PartFile::State::Spill() {
  SIMURGH_RETURN_IF_ERROR(OpenTemporary());
  for (Bucket& bucket : buckets) {
    Lines lines = std::exchange(bucket.lines, {});
    bucket.extents.push_back({written, lines.text.size(), std::move(lines.sizes)});
    SIMURGH_RETURN_IF_ERROR(WriteTemporary(lines.text));
  }
  held = 0;
  return absl::OkStatus();
}

Status PartFile::State::Write(Bucket& bucket) {
  Lines lines;
  for (const Extent& extent : bucket.extents) {
    SIMURGH_RETURN_IF_ERROR(ReadTemporary(extent, lines));
  }
  lines.text += bucket.lines.text;
  lines.sizes.insert(lines.sizes.end(), bucket.lines.sizes.begin(), bucket.lines.sizes.end());
  bucket = {};
  std::vector<std::string_view> shuffled;
  shuffled.reserve(lines.sizes.size());
  size_t begin = 0;
  for (const uint32_t size : lines.sizes) {
    shuffled.push_back(std::string_view(lines.text).substr(begin, size));
    begin += size;
  }
  for (size_t left = shuffled.size(); left > 1; --left) {
    std::swap(shuffled[left - 1], shuffled[random.Below(left)]);
  }
  for (const std::string_view line : shuffled) SIMURGH_RETURN_IF_ERROR(Append(line));
  return absl::OkStatus();
}

PartFile::PartFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
PartFile::~PartFile() = default;
PartFile::PartFile(PartFile&&) noexcept = default;
PartFile& PartFile::operator=(PartFile&&) noexcept = default;

StatusOr<PartFile> PartFile::Create(const std::string& path, std::string_view header, Order order,
                                    uint64_t memory) {
  SIMURGH_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  SIMURGH_RETURN_IF_ERROR(file.Append(header));
  return PartFile(std::make_unique<State>(std::move(file), path, order, memory));
}

Status PartFile::Add(std::string_view line) {
  ++state_->added;
  if (state_->order == Order::kKept) {
    SIMURGH_RETURN_IF_ERROR(state_->Append(line));
    return state_->Append("\n");
  }
  Lines& lines = state_->buckets[state_->random.Below(kBuckets)].lines;
  lines.text += line;
  lines.text.push_back('\n');
  lines.sizes.push_back(static_cast<uint32_t>(line.size() + 1));
  state_->held += line.size() + 1 + sizeof(uint32_t);
  return state_->held < state_->memory ? absl::OkStatus() : state_->Spill();
}

uint64_t PartFile::lines() const { return state_->added; }

Status PartFile::Commit() {
  for (State::Bucket& bucket : state_->buckets) SIMURGH_RETURN_IF_ERROR(state_->Write(bucket));
  SIMURGH_RETURN_IF_ERROR(state_->Flush());
  return state_->file.Commit();
}

}  // namespace simurgh
