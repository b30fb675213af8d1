// Regions of shared memory, without a connection.

#include "rpc/region.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/support/skip.h"
#include "tests/support/waiting.h"

namespace simurgh::rpc {
namespace {

// A lender and its borrower.
struct Ends {
  explicit Ends(uint64_t bytes = 64 * kPageBytes)
      : lender(*OutgoingRegion::Create(bytes)),
        borrower(*IncomingRegion::Create()),
        file(lender->TakeFile()) {
    REQUIRE(borrower->Connect(file) == absl::OkStatus());
    lender->Connect(*MapPeerMemory(borrower->TakeBoard(), kBoardBytes, kBoardBytes));
  }

  std::shared_ptr<OutgoingRegion> lender;
  std::shared_ptr<IncomingRegion> borrower;
  FileDescriptor file;  // The lender's.
};

void Fill(const SegmentBuffer& buffer, uint8_t value) {
  std::ranges::fill(buffer.bytes, static_cast<std::byte>(value));
}

bool AllAre(const ReceivedSegment& segment, uint8_t value) {
  const auto& bytes = segment.bytes;
  // Each byte equals the next one.
  return bytes.empty() || (bytes.front() == static_cast<std::byte>(value) &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// The allocated size of the file.
uint64_t ResidentBytes(const FileDescriptor& file) {
  struct stat info{};
  REQUIRE(::fstat(file.number(), &info) == 0);
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

TEST_CASE("the borrower reads what the lender wrote") {
  Ends ends;
  const SegmentBuffer buffer = *ends.lender->Allocate(10'000);
  CHECK(reinterpret_cast<uintptr_t>(buffer.bytes.data()) % 64 == 0);
  Fill(buffer, 7);
  const BorrowedSegment segment = *ends.lender->Lend(buffer.bytes);
  const ReceivedSegment view = *ends.borrower->Borrow(segment, buffer.bytes.size());
  CHECK(view.bytes.size() == 10'000);
  CHECK(view.bytes.data() != buffer.bytes.data());
  CHECK(AllAre(view, 7));
}

TEST_CASE("parts of blocks can be lent repeatedly, other memory cannot") {
  Ends ends;
  const SegmentBuffer first = *ends.lender->Allocate(kPageBytes);
  SegmentBuffer second = *ends.lender->Allocate(kPageBytes);
  Fill(second, 9);
  const auto part = second.bytes.subspan(128, 50);
  const BorrowedSegment once = *ends.lender->Lend(part), again = *ends.lender->Lend(part);
  CHECK(once.offset == kPageBytes + 128);
  CHECK(again.offset == once.offset);
  CHECK(again.slot != once.slot);
  CHECK(AllAre(*ends.borrower->Borrow(once, 50), 9));

  CHECK_FALSE(ends.lender->Lend(second.bytes.subspan(32, 50)).has_value());
  const std::vector<std::byte> elsewhere(10);
  CHECK_FALSE(ends.lender->Lend(elsewhere).has_value());
  const std::span across(first.bytes.data(), 2 * kPageBytes);  // Two blocks.
  CHECK(ends.lender->Holds(across));
  CHECK_FALSE(ends.lender->Lend(across).has_value());
  const std::span freed = second.bytes;
  second.owner.reset();
  ends.lender->TakeBack(again);
  CHECK_FALSE(ends.lender->Lend(freed).has_value());
}

TEST_CASE("a block is in use until its owner and all segments have released it") {
  Ends ends;
  std::optional<SegmentBuffer> buffer = ends.lender->Allocate(kPageBytes);
  const BorrowedSegment one = *ends.lender->Lend(buffer->bytes),
                        other = *ends.lender->Lend(buffer->bytes);
  std::optional<ReceivedSegment> view = *ends.borrower->Borrow(one, kPageBytes);
  std::optional<ReceivedSegment> another = *ends.borrower->Borrow(other, kPageBytes);
  view.reset();
  another.reset();
  CHECK(ends.lender->used_bytes() == kPageBytes);
  const BorrowedSegment last = *ends.lender->Lend(buffer->bytes);
  buffer.reset();
  CHECK(ends.lender->used_bytes() == kPageBytes);
  REQUIRE(ends.borrower->Borrow(last, kPageBytes).ok());  // Returned at once.
  CHECK(ends.lender->used_bytes() == 0);
}

TEST_CASE("under random load borrowed segments neither overlap nor leak") {
  const uint64_t seed = GENERATE(range(uint64_t{1}, uint64_t{6}));
  INFO("seed " << seed);
  Random random(seed);
  Ends ends;
  struct Held {
    ReceivedSegment view;
    uint8_t value;
  };
  std::list<Held> held;
  uint64_t lent = 0, refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random.Below(2) == 0) {
      const auto value = static_cast<uint8_t>(random());
      const std::optional<SegmentBuffer> buffer =
          ends.lender->Allocate(1 + random.Below(6 * kPageBytes));
      if (!buffer) {
        ++refused;
        continue;
      }
      Fill(*buffer, value);
      const BorrowedSegment segment = *ends.lender->Lend(buffer->bytes);
      if (random.Below(10) == 0) {
        ends.lender->TakeBack(segment);
        continue;
      }
      held.push_back({*ends.borrower->Borrow(segment, buffer->bytes.size()), value});
      ++lent;
    } else if (!held.empty()) {
      const auto victim =
          std::next(held.begin(), static_cast<ptrdiff_t>(random.Below(held.size())));
      REQUIRE(AllAre(victim->view, victim->value));
      held.erase(victim);
    }
  }
  CHECK(lent > 1'000);
  CHECK(refused > 10);
  for (const Held& one : held) CHECK(AllAre(one.view, one.value));
  held.clear();
  CHECK(ends.lender->used_bytes() == 0);
}

TEST_CASE("a full region has space again after segments are returned") {
  Ends ends(4 * kPageBytes);
  std::optional<SegmentBuffer> all = ends.lender->Allocate(4 * kPageBytes);
  REQUIRE(all.has_value());
  CHECK_FALSE(ends.lender->Allocate(1).has_value());
  CHECK_FALSE(ends.lender->Allocate(5 * kPageBytes).has_value());
  std::optional<ReceivedSegment> view =
      *ends.borrower->Borrow(*ends.lender->Lend(all->bytes), kPageBytes);
  all.reset();
  CHECK_FALSE(ends.lender->Allocate(1).has_value());
  view.reset();
  CHECK(ends.lender->Allocate(4 * kPageBytes).has_value());
  CHECK_FALSE(ends.lender->Allocate(0).has_value());
}

TEST_CASE("the number of borrowed segments is limited") {
  Ends ends;
  const SegmentBuffer buffer = *ends.lender->Allocate(kPageBytes);
  std::vector<BorrowedSegment> borrowed;
  for (uint32_t i = 0; i < kMaxBorrowedSegments; ++i)
    borrowed.push_back(*ends.lender->Lend(buffer.bytes));
  CHECK_FALSE(ends.lender->Lend(buffer.bytes).has_value());
  ends.lender->TakeBack(borrowed[17]);
  const BorrowedSegment next = *ends.lender->Lend(buffer.bytes);
  CHECK(next.slot == borrowed[17].slot);
  // The peer has not seen the first one, and expects its generation.
  CHECK(next.generation == borrowed[17].generation);
}

TEST_CASE("an invalid segment is refused") {
  Ends ends;
  const auto refused = [&](const BorrowedSegment& segment, uint64_t length) {
    const Status status = ends.borrower->Borrow(segment, length).status();
    CHECK(absl::IsDataLoss(status));
    return std::string(status.message());
  };
  const uint64_t size = 64 * kPageBytes;
  CHECK_THAT(refused({.offset = size, .slot = 0}, 1), Catch::Contains("the region has 262144"));
  CHECK_THAT(refused({.offset = size - 64, .slot = 0}, 65), Catch::Contains("the region has"));
  CHECK_THAT(refused({.offset = 32, .slot = 0}, 2), Catch::Contains("not a multiple of 64"));
  CHECK_THAT(refused({.offset = 0, .slot = 0}, size + 1), Catch::Contains("the region has"));
  CHECK_THAT(refused({.offset = UINT64_MAX, .slot = 0}, 2), Catch::Contains("the region has"));
  CHECK_THAT(refused({.offset = 64, .slot = 0}, UINT64_MAX), Catch::Contains("the region has"));
  CHECK_THAT(refused({.slot = kMaxBorrowedSegments}, 1), Catch::Contains("there are 4096"));
  CHECK_THAT(refused({.slot = UINT32_MAX}, 1), Catch::Contains("there are"));
  const ReceivedSegment view =
      *ends.borrower->Borrow({.offset = 0, .slot = 3, .generation = 1}, size);
  for (const uint32_t generation : {0U, 2U, UINT32_MAX}) {
    CHECK_THAT(refused({.offset = 0, .slot = 4, .generation = generation}, 1),
               Catch::Contains("instead of 1"));
  }
  CHECK(ends.borrower->Borrow({.offset = 0, .slot = 4, .generation = 1}, 1).ok());
  CHECK_THAT(refused({.offset = 0, .slot = 4, .generation = 1}, 1),
             Catch::Contains("the generation is 1 instead of 2"));
  CHECK(ends.borrower->Borrow({.offset = 0, .slot = 4, .generation = 2}, 1).ok());
  CHECK_THAT(refused({.offset = 0, .slot = 3, .generation = 1}, 1),
             Catch::Contains("the slot is in use"));
}

TEST_CASE("a closed region lends and allocates nothing, and borrowed bytes stay readable") {
  Ends ends;
  std::optional<SegmentBuffer> buffer = ends.lender->Allocate(kPageBytes);
  Fill(*buffer, 3);
  const BorrowedSegment segment = *ends.lender->Lend(buffer->bytes);
  const ReceivedSegment view = *ends.borrower->Borrow(segment, kPageBytes);
  ends.lender->Close();
  CHECK_FALSE(ends.lender->Allocate(1).has_value());
  CHECK_FALSE(ends.lender->Lend(buffer->bytes).has_value());
  CHECK(ends.lender->used_bytes() == kPageBytes);  // The owner's.
  ends.lender.reset();
  ends.borrower.reset();
  CHECK(AllAre(view, 3));
  Fill(*buffer, 4);  // Still owned.
  buffer.reset();
}

TEST_CASE("a closed region releases no pages, which the peer may read") {
  Ends ends;
  std::optional<SegmentBuffer> buffer = ends.lender->Allocate(8 * kPageBytes);
  Fill(*buffer, 3);
  const ReceivedSegment view =
      *ends.borrower->Borrow(*ends.lender->Lend(buffer->bytes), 8 * kPageBytes);
  buffer.reset();
  ends.lender->Close();
  for (int i = 0; i < 3; ++i) CHECK_FALSE(ends.lender->Trim(0));
  CHECK(AllAre(view, 3));
}

TEST_CASE("Allocate() concurrent with Close() returns no lent memory") {
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    Ends ends(16 * kPageBytes);
    std::optional<SegmentBuffer> buffer = ends.lender->Allocate(kPageBytes);
    Fill(*buffer, 3);
    const ReceivedSegment view =
        *ends.borrower->Borrow(*ends.lender->Lend(buffer->bytes), kPageBytes);
    buffer.reset();
    std::atomic<bool> producing = false;
    std::thread producer([&] {
      while (const auto other = ends.lender->Allocate(kPageBytes)) {
        Fill(*other, 4);
        producing = true;
      }
    });
    testing::Eventually([&] { return !(!producing); });
    ends.lender->Close();
    producer.join();
    if (!AllAre(view, 3)) FAIL("changed in round " << round);
  }
}

TEST_CASE("any thread may release blocks and segments") {
  Ends ends(16 * kPageBytes);
  constexpr int kRounds = 2'000;
  std::array<std::thread, 3> threads;
  Mutex mutex;  // For Borrow(), which one thread may call at a time.
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < kRounds; ++i) {
        const auto buffer = ends.lender->Allocate(2 * kPageBytes);
        if (!buffer) continue;
        Fill(*buffer, static_cast<uint8_t>(i));
        const BorrowedSegment segment = *ends.lender->Lend(buffer->bytes);
        StatusOr<ReceivedSegment> view;
        {
          MutexLock lock(mutex);
          view = ends.borrower->Borrow(segment, buffer->bytes.size());
        }
        if (!view.ok() || !AllAre(*view, static_cast<uint8_t>(i))) std::abort();
        ends.lender->Trim(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ends.lender->used_bytes() == 0);
}

// An emulator of another processor may accept MADV_REMOVE and ignore it.
void SkipWithoutRemove() {
  const SharedMemory memory = *SharedMemory::Create("test", kPageBytes);
  memory.mapping.data()[0] = std::byte{1};
  REQUIRE(ResidentBytes(memory.file) > 0);
  const bool removes = ::madvise(memory.mapping.data(), kPageBytes, MADV_REMOVE) == 0 &&
                       ResidentBytes(memory.file) == 0;
  if (!removes) SIMURGH_SKIP("MADV_REMOVE releases no pages, as in an emulator");
}

TEST_CASE("idle pages are released to the system") {
  SkipWithoutRemove();
  Ends ends(256 * kPageBytes);
  std::optional<SegmentBuffer> buffer = ends.lender->Allocate(200 * kPageBytes);
  Fill(*buffer, 1);
  CHECK(ResidentBytes(ends.file) == 200 * kPageBytes);
  buffer.reset();
  CHECK(ends.lender->Trim(0));  // Used since the last call.
  CHECK(ResidentBytes(ends.file) == 200 * kPageBytes);
  CHECK_FALSE(ends.lender->Trim(8 * kPageBytes));
  CHECK(ResidentBytes(ends.file) == 8 * kPageBytes);
}

TEST_CASE("released pages hold no byte of another block, whatever the size of a page") {
  CHECK(WholePages({65'536, 131'072}, 65'536) == BlockSpace::Range{65'536, 131'072});
  CHECK(WholePages({65'536, 4'096}, 65'536).length == 0);
  CHECK(WholePages({61'440, 8'192}, 65'536).length == 0);
  CHECK(WholePages({4'096, 200'000}, 65'536) == BlockSpace::Range{65'536, 131'072});
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 1'000; ++i) {
    const uint64_t page = uint64_t{4'096} << random.Below(5);
    const BlockSpace::Range range{random.Below(1'000) * kPageBytes,
                                  (1 + random.Below(1'000)) * kPageBytes};
    const auto [first, length] = WholePages(range, page);
    REQUIRE(first % page == 0);
    REQUIRE(length % page == 0);
    // Fewer than two pages stay, one at each end.
    REQUIRE(length + 2 * page > range.length);
    if (length == 0) continue;
    REQUIRE(first >= range.offset);
    REQUIRE(first + length <= range.offset + range.length);
  }
}

// Whether the function kills a child process.
template <typename Function>
bool Faults(Function function) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    function();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

TEST_CASE("the borrower can neither write nor resize the file") {
  Ends ends;
  const SegmentBuffer buffer = *ends.lender->Allocate(kPageBytes);
  const ReceivedSegment view = *ends.borrower->Borrow(*ends.lender->Lend(buffer.bytes), kPageBytes);
  CHECK(Faults([&] { const_cast<std::byte*>(view.bytes.data())[0] = std::byte{1}; }));
  const int file = ends.file.number();
  CHECK(::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  CHECK(::write(file, "x", 1) == -1);
  CHECK(::ftruncate(file, 0) == -1);
  CHECK(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes) == -1);
  CHECK(::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == -1);
}

FileDescriptor Memfd(uint64_t size, int seals) {
  FileDescriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(file.valid());
  REQUIRE(::ftruncate(file.number(), static_cast<off_t>(size)) == 0);
  REQUIRE(::fcntl(file.number(), F_ADD_SEALS, seals) == 0);
  return file;
}

TEST_CASE("files that are unsafe to read are refused with a reason") {
  const auto refused = [](const FileDescriptor& file) {
    const auto region = *IncomingRegion::Create();
    const Status status = region->Connect(file);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  const FileDescriptor device(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  CHECK_THAT(refused(device), Catch::Contains("not a memfd"));
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const FileDescriptor out(ends[0]), in(ends[1]);
  CHECK_THAT(refused(out), Catch::Contains("not a memfd"));
  const FileDescriptor folder(::open("/", O_RDONLY | O_CLOEXEC));
  CHECK_THAT(refused(folder), Catch::Contains("not a memfd"));
  CHECK_THAT(refused(Memfd(1 << 20, F_SEAL_GROW)), Catch::Contains("not sealed against shrinking"));
  CHECK_THAT(refused(Memfd(0, F_SEAL_SHRINK)), Catch::Contains("has 0 bytes, expected 4096 to"));
  CHECK_THAT(refused(Memfd(4'095, F_SEAL_SHRINK)), Catch::Contains("has 4095 bytes"));
  CHECK_THAT(refused(Memfd(uint64_t{2} << 40, F_SEAL_SHRINK)), Catch::Contains("expected 4096 to"));
  const FileDescriptor closed;
  CHECK_FALSE((*IncomingRegion::Create())->Connect(closed).ok());
  const Status short_board =
      MapPeerMemory(Memfd(kBoardBytes - 1, F_SEAL_SHRINK), kBoardBytes, kBoardBytes).status();
  CHECK_THAT(std::string(short_board.message()), Catch::Contains("expected 16384 to 16384"));
}

}  // namespace
}  // namespace simurgh::rpc
