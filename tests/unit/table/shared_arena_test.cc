#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/table/partition.h"
#include "table/arena.h"
#include "table/row_layout.h"
#include "table/superblock.h"

namespace simurgh {
namespace {

constexpr uint32_t kDim = 256;
constexpr uint64_t kRows = 500;

class TemporaryFile {
 public:
  TemporaryFile() {
    char path[] = "/dev/shm/simurgh-arena-XXXXXX";
    const int file = mkstemp(path);
    REQUIRE(file >= 0);
    close(file);
    path_ = path;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Weights count pushes: they begin at 0, gradients are -1 and the learning rate is 1.
std::vector<TableConfig> CountingTable() {
  TableConfig config;
  config.name = "counting";
  config.dim = kDim;
  config.capacity_rows = kRows;
  config.initializer.kind = InitializerConfig::Kind::kZero;
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  config.weight_bound = 1e9F;
  return {config};
}

// The child: makes rows 0 to kRows - 1 and pushes to all of them again and again. Writes to `ready`
// once there are rows; ends by being killed.
[[noreturn]] void PushForEver(const std::string& file, int ready) {
  auto partition = Partition::Create(CountingTable(), 1, nullptr, {.file = file});
  if (!partition.ok()) _exit(1);
  std::vector<uint64_t> ids(kRows);
  for (uint64_t i = 0; i < kRows; ++i) ids[i] = i;
  std::vector<float> rows(kRows * kDim);
  const std::vector<float> gradients(kRows * kDim, -1.0F);
  for (uint64_t step = 0;; ++step) {
    const PullGroup pull{0, ids, {rows.data(), kRows, kDim}};
    const PushGroup push{0, 1.0F, ids, {gradients.data(), kRows, kDim}};
    if (!(*partition)->Pull(LookupMode::kTrain, {1, 0, step}, step, {&pull, 1}).ok()) _exit(2);
    if (step == 0 && write(ready, "r", 1) != 1) _exit(3);
    if (!(*partition)->Push({1, 0, step}, 0, 1, {&push, 1}).ok()) _exit(4);
  }
}

uint64_t IdentityIn(const std::string& file) {
  ArenaSuperblock block = {};
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(&block), sizeof(block));
  return block.identity;
}

// What is left in a file.
struct LeftOver {
  uint64_t copies = 0;
  uint64_t torn = 0;  // Rows of unequal weights, before copies are put back.
};

// Maps it and checks every row: those that a push has reached are one ahead of the others, and no
// row is torn once the copies are put back.
LeftOver CheckLeftOver(const std::string& file) {
  const Arena arena = Arena::MapShared(file, IdentityIn(file)).value();
  REQUIRE(arena.superblock().first_table != kNoOffset);
  REQUIRE(arena.superblock().push_journal != kNoOffset);
  const auto& table =
      *reinterpret_cast<const TableRecord*>(arena.at(arena.superblock().first_table));
  const auto& push =
      *reinterpret_cast<const PushRecord*>(arena.at(arena.superblock().push_journal));
  REQUIRE(table.next == kNoOffset);
  REQUIRE(table.dim == kDim);
  REQUIRE(table.carved_rows == kRows);
  REQUIRE(table.stride_bytes == sizeof(RowHeader) + kDim * sizeof(float));
  std::byte* const rows = arena.at(table.rows);
  const uint64_t copies = push.progress & 0xff;
  const uint64_t next = push.progress >> 8 & 0xff'ffff'ffff;
  REQUIRE(copies <= PushRecord::kMaxRows);
  LeftOver left{.copies = copies};
  for (uint64_t i = 0; i < copies; ++i) {
    const std::byte* const values = rows + push.rows[i] * table.stride_bytes + sizeof(RowHeader);
    left.torn += std::memcmp(values, values + sizeof(float), (kDim - 1) * sizeof(float)) != 0;
    std::memcpy(rows + push.rows[i] * table.stride_bytes,
                arena.at(push.copies) + i * push.copy_stride_bytes, table.stride_bytes);
  }
  const bool applying = push.state == PushRecord::kApplying;
  // Between two pushes all rows are alike.
  float before = static_cast<float>(push.step);
  if (!applying) std::memcpy(&before, rows + sizeof(RowHeader), sizeof(before));
  REQUIRE(before >= static_cast<float>(push.step));
  REQUIRE(before <= static_cast<float>(push.step + 1));
  for (uint64_t row = 0; row < kRows; ++row) {
    RowHeader header;
    std::memcpy(&header, rows + row * table.stride_bytes, sizeof(header));
    REQUIRE(header.recency != kFreeRecency);
    std::vector<float> weights(kDim);
    std::memcpy(weights.data(), rows + row * table.stride_bytes + sizeof(header),
                kDim * sizeof(float));
    // Ids are positions in the push.
    const float expected = before + (applying && header.id < next ? 1.0F : 0.0F);
    INFO("row " << row << " of step " << push.step << ", next " << next << ", copies " << copies);
    REQUIRE(std::ranges::count(weights, expected) == kDim);
  }
  return left;
}

TEST_CASE("a server killed in a push leaves whole rows, torn ones with their copies") {
  const uint64_t seed = 11;
  Random random(seed);
  INFO("seed " << seed);
  for (int round = 0; round < 30; ++round) {
    const TemporaryFile file;
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) PushForEver(file.path(), pipe_ends[1]);
    close(pipe_ends[1]);
    char ready = 0;
    REQUIRE(read(pipe_ends[0], &ready, 1) == 1);
    // Wherever the child is after so many turns of ours.
    for (uint64_t turns = random.Below(200'000); turns > 0; --turns) {
      asm volatile("" ::: "memory");
    }
    REQUIRE(kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    close(pipe_ends[0]);
    CheckLeftOver(file.path());
  }
}

// The child: pushes gradients of which some cannot be read, and dies of it in the middle of a row.
[[noreturn]] void PushTooFar(const std::string& file, uint64_t readable_pages) {
  signal(SIGSEGV, SIG_DFL);
  auto partition = Partition::Create(CountingTable(), 1, nullptr, {.file = file});
  if (!partition.ok()) _exit(1);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t bytes = kRows * kDim * sizeof(float) + page;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) _exit(2);
  // Rows do not begin where pages do.
  float* const gradients = static_cast<float*>(memory) + kDim / 2;
  std::fill_n(gradients, kRows * kDim, -1.0F);
  if (mprotect(static_cast<std::byte*>(memory) + readable_pages * page, page, PROT_NONE) != 0) {
    _exit(3);
  }
  std::vector<uint64_t> ids(kRows);
  for (uint64_t i = 0; i < kRows; ++i) ids[i] = i;
  std::vector<float> rows(kRows * kDim);
  const PullGroup pull{0, ids, {rows.data(), kRows, kDim}};
  const PushGroup push{0, 1.0F, ids, {gradients, kRows, kDim}};
  if (!(*partition)->Pull(LookupMode::kTrain, {1, 0, 0}, 0, {&pull, 1}).ok()) _exit(4);
  if (!(*partition)->Push({1, 0, 0}, 0, 1, {&push, 1}).ok()) _exit(5);
  _exit(6);
}

TEST_CASE("a server that dies in the middle of a row leaves its copy and where to go on") {
  const uint64_t readable_pages = GENERATE(1, 7, 8, 40, 100);
  const TemporaryFile file;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) PushTooFar(file.path(), readable_pages);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const LeftOver left = CheckLeftOver(file.path());
  CHECK(left.copies > 0);
  CHECK(left.torn == 1);
}

TEST_CASE("a shared arena is used by one process, and kept apart from other tables'") {
  const TemporaryFile file;
  auto first = Arena::CreateShared(file.path(), uint64_t{8} << 20, 5);
  REQUIRE(first.ok());
  const uint64_t offset = first->Reserve(100);
  std::memcpy(first->at(offset), "kept", 5);
  CHECK(Arena::CreateShared(file.path(), uint64_t{8} << 20, 5).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(Arena::MapShared(file.path(), 5).status().code() == absl::StatusCode::kFailedPrecondition);
  {
    const Arena gone = std::move(*first);
  }
  CHECK(Arena::MapShared(file.path(), 6).status().code() == absl::StatusCode::kFailedPrecondition);
  auto again = Arena::MapShared(file.path(), 5);
  REQUIRE(again.ok());
  CHECK(std::strcmp(reinterpret_cast<const char*>(again->at(offset)), "kept") == 0);
}

TEST_CASE("a file that is no whole arena is refused, whatever is wrong with it") {
  const TemporaryFile file;
  {
    REQUIRE(Arena::CreateShared(file.path(), uint64_t{2} << 20, 5).ok());
  }
  REQUIRE(Arena::MapShared(file.path(), 5).ok());
  SECTION("shorter") { REQUIRE(truncate(file.path().c_str(), 4096) == 0); }
  SECTION("longer") { REQUIRE(truncate(file.path().c_str(), uint64_t{64} << 20) == 0); }
  SECTION("empty") { REQUIRE(truncate(file.path().c_str(), 0) == 0); }
  SECTION("another version, or no superblock") {
    std::fstream out(file.path(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(GENERATE(0, 8, 12));
    out.put('\x7f');
  }
  const auto mapped = Arena::MapShared(file.path(), 5);
  CHECK(mapped.status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("paths that cannot be opened and nodes that are not there are errors with the name") {
  const auto arena = Arena::CreateShared("/nowhere/at/all", 1 << 20, 0);
  CHECK(arena.status().code() == absl::StatusCode::kNotFound);
  CHECK(arena.status().message().find("/nowhere/at/all") != absl::string_view::npos);
  const auto partition = Partition::Create(CountingTable(), 1, nullptr, {.numa_node = 1023});
  CHECK(partition.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(partition.status().message().find("1023") != absl::string_view::npos);
}

}  // namespace
}  // namespace simurgh
