#include "table/cold_rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <semaphore>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/arena.h"
#include "table/cold_disk.h"
#include "table/cold_index.h"
#include "table/partition.h"
#include "table/row_index.h"
#include "table/table.h"
#include "tensor/matrix_view.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

constexpr uint64_t kSmallSegment = uint64_t{128} << 10;
const RowLayout kLayout(RowFormat{.dim = 16, .shape = {1, 0}});

std::vector<std::byte> RecordOf(uint64_t id, uint32_t recency) {
  std::vector<std::byte> record(kLayout.stride_bytes, static_cast<std::byte>(id * 7 + recency));
  const RowHeader header{.id = id, .recency = recency, .use_count = 3};
  std::memcpy(record.data(), &header, sizeof(header));
  return record;
}

bool IsEqual(const ColdRows::Row& row, const std::vector<std::byte>& record) {
  return std::memcmp(row.record, record.data(), record.size()) == 0;
}

TableConfig ConfigOf(uint64_t memory_rows) {
  TableConfig config;
  config.name = "a";
  config.dim = 16;
  config.capacity_rows = 100'000;
  config.memory_rows = memory_rows;
  return config;
}

// A partition of one table.
std::unique_ptr<Partition> PartitionOf(uint64_t memory_rows, const TemporaryFolder& folder) {
  return Partition::Create(
             {ConfigOf(memory_rows)}, 1, nullptr,
             {.arena_directory = {}, .numa_node = {}, .cold_directory = folder.path()})
      .value();
}

// A disk whose faults a test chooses.
class FaultyDisk : public ColdDisk {
 public:
  ~FaultyDisk() override { StopThread(); }
  explicit FaultyDisk(const std::string& folder, bool by_ring = true)
      : ColdDisk(kSmallSegment), disk_(ColdDisk::Create(folder, kSmallSegment, by_ring).value()) {}

  Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    if (fails_writes) return absl::UnknownError("input/output error");
    return disk_->Write(offset, bytes.first(torn_bytes.value_or(bytes.size())));
  }
  Status Read(std::span<const Part> parts, Reader reader) override {
    ++reads;
    if (fails_reads) return absl::DataLossError("cannot read cold rows: input/output error");
    return disk_->Read(parts, reader);
  }
  std::string Method() const override { return "faulty"; }

  std::atomic<int> reads = 0;
  bool fails_writes = false;
  bool fails_reads = false;
  bool is_full = false;
  std::optional<size_t> torn_bytes;

 private:
  Status Extend(uint64_t /*offset*/) override {
    if (is_full) return absl::ResourceExhaustedError("no space left on device");
    return disk_->Allocate().status();
  }

  const std::unique_ptr<ColdDisk> disk_;
};

TEST_CASE("An index of cold rows agrees with a map, and takes at most 12 bytes an entry") {
  ColdIndex index;
  std::unordered_map<uint64_t, uint32_t> expected;  // Keys are ids.
  Random random(7);
  const auto places_of = [&](uint64_t id) {
    std::vector<uint32_t> places;
    index.ForEach(RowIndex::Hash(id), [&](uint32_t place) { places.push_back(place); });
    return places;
  };
  for (uint32_t i = 0; i < 400'000; ++i) {
    const uint64_t id = random.Below(150'000);
    const auto found = expected.find(id);
    if (found == expected.end()) {
      index.Insert(RowIndex::Hash(id), i);
      expected[id] = i;
    } else if (random.Below(4) == 0) {
      index.Replace(RowIndex::Hash(id), found->second, i);
      found->second = i;
    } else if (random.Below(2) == 0) {
      index.Erase(RowIndex::Hash(id), found->second);
      expected.erase(found);
    }
  }
  CHECK(index.size() == expected.size());
  bool are_equal = true;
  for (uint64_t id = 0; id < 150'000; ++id) {
    const auto found = expected.find(id);
    are_equal = are_equal &&
                places_of(id) == (found == expected.end() ? std::vector<uint32_t>()
                                                          : std::vector<uint32_t>{found->second});
  }
  CHECK(are_equal);

  ColdIndex large;
  constexpr uint32_t kRows = 2'000'000;
  for (uint32_t i = 0; i < kRows; ++i) large.Insert(RowIndex::Hash(i), i);
  CHECK(large.bytes_used() <= uint64_t{12} * kRows);
}

TEST_CASE("Cold rows agree with a map, in order, and leave few gaps") {
  const bool by_ring = GENERATE(true, false);
  const bool has_faults = GENERATE(true, false);
  CAPTURE(by_ring, has_faults);
  const TemporaryFolder folder;
  const auto disk = std::make_unique<FaultyDisk>(folder.path(), by_ring);
  ColdRows rows(*disk, kLayout);
  std::map<uint64_t, uint64_t> order;                 // Number of the append -> id.
  std::unordered_map<uint64_t, uint64_t> appended;    // Id -> number of the append.
  std::unordered_map<uint64_t, uint32_t> recency_of;  // Id -> recency.
  Random random(11);
  uint64_t appends = 0;
  std::vector<uint64_t> copied;  // Ids of the copy in progress.
  std::vector<std::byte> copy;
  uint32_t rebased = 0;
  for (int step = 0; step < 3000; ++step) {
    disk->fails_writes = has_faults && step < 2500 && random.Below(10) == 0;
    disk->is_full = has_faults && step < 2500 && random.Below(4) == 0;
    for (uint64_t left = random.Below(60); left > 0; --left) {
      const uint64_t id = random.Below(30'000);
      if (appended.contains(id)) continue;
      const auto recency = static_cast<uint32_t>(1000 + step);
      if (!rows.Add(RecordOf(id, recency).data()).ok()) {
        REQUIRE((disk->fails_writes || disk->is_full));
        break;
      }
      appended[id] = appends;
      recency_of[id] = recency;
      order[appends++] = id;
    }
    std::vector<uint64_t> wanted;
    for (uint64_t left = random.Below(60); left > 0; --left) {
      wanted.push_back(random.Below(30'000));
    }
    const auto found = rows.Fetch(wanted);
    REQUIRE(found.ok());
    std::vector<uint64_t> found_ids;
    for (const ColdRows::Row& row : *found) found_ids.push_back(wanted[row.at]);
    std::vector<uint64_t> expected = wanted;
    std::erase_if(expected, [&](uint64_t id) { return !appended.contains(id); });
    REQUIRE(found_ids == expected);
    for (const ColdRows::Row& row : *found) {
      const uint64_t id = wanted[row.at];
      if (!rows.Has(row)) {
        CHECK(!appended.contains(id));  // Given twice.
        continue;
      }
      REQUIRE(IsEqual(row, RecordOf(id, recency_of[id])) == (rebased == 0));
      if (random.Below(3) == 0) continue;
      rows.Remove(row);
      order.erase(appended[id]);
      appended.erase(id);
    }
    if (!order.empty() && random.Below(4) == 0) {
      const auto oldest = rows.Oldest();
      REQUIRE(oldest.ok());
      const uint64_t oldest_id = oldest->header().id;  // The header may be unaligned.
      REQUIRE(oldest_id == order.begin()->second);
    }
    if (step % 500 == 100) {
      rows.BeginCopy(CopyBase::kUnnoted);
      copied.clear();
      copy.clear();
      for (const auto& [id, number] : appended) copied.push_back(id);
    }
    if (step % 500 == 250) {
      while (!rows.copy_done()) REQUIRE(rows.TakeCopied(100, copy).ok());
      std::vector<uint64_t> ids;
      for (size_t at = 0; at < copy.size(); at += kLayout.stride_bytes) {
        RowHeader header;
        std::memcpy(&header, copy.data() + at, sizeof(header));
        ids.push_back(header.id);
      }
      std::ranges::sort(ids);
      std::ranges::sort(copied);
      REQUIRE(ids == copied);
      rows.EndCopy();
    }
    REQUIRE((step % 8 == 0 ? rows.Reclaim() : rows.Maintain()).ok());
  }
  REQUIRE(rows.size() == order.size());
  // Rows and checksums.
  const uint64_t live = rows.size() * (kLayout.stride_bytes + 4);
  CHECK(rows.disk_bytes() <= live * 13 / 10 + 2 * kSmallSegment);
  CHECK(rows.counts().compacted_bytes > 0);

  REQUIRE(rows.Rebase(1500).ok());
  uint64_t visited = 0;
  auto next = order.begin();
  bool in_order = true;
  REQUIRE(rows.ForEach([&](const ColdRows::Row& row) {
                const uint64_t id = row.header().id;
                const uint32_t recency = recency_of[id];
                in_order = in_order && next != order.end() && next->second == id &&
                           row.header().recency == recency - std::min(recency, 1500U);
                ++next;
                ++visited;
              })
              .ok());
  CHECK(in_order);
  CHECK(visited == rows.size());
}

TEST_CASE("Cold rows stay in order while rows at random places go") {
  const TemporaryFolder folder;
  const auto disk = ColdDisk::Create(folder.path(), kSmallSegment).value();
  ColdRows rows(*disk, kLayout);
  Random random(5);
  std::vector<uint64_t> live;
  uint64_t next = 0;
  const auto add = [&](int count) {
    for (; count > 0; --count) {
      REQUIRE(rows.Add(RecordOf(next, 1).data()).ok());
      live.push_back(next++);
    }
  };
  add(60'000);
  for (int step = 0; step < 3000; ++step) {
    std::vector<uint64_t> gone;
    while (gone.size() < 20) {
      std::swap(live[random.Below(live.size())], live.back());
      gone.push_back(live.back());
      live.pop_back();
    }
    const auto fetched = rows.Fetch(gone);
    REQUIRE(fetched->size() == gone.size());
    for (const ColdRows::Row& row : *fetched) rows.Remove(row);
    add(20);
    REQUIRE((step % 64 == 0 ? rows.Reclaim() : rows.Maintain()).ok());
    if (step % 100 != 99) continue;
    std::vector<uint64_t> seen;
    REQUIRE(rows.ForEach([&](const ColdRows::Row& row) {
                  const uint64_t id = row.header().id;  // The header may be unaligned.
                  seen.push_back(id);
                })
                .ok());
    REQUIRE(seen.size() == live.size());
    REQUIRE(std::ranges::is_sorted(seen));
  }
  CHECK(rows.counts().compacted_bytes > 0);
}

TEST_CASE("Urgent tasks of a disk come first, each queue in its order") {
  // The disk's thread uses these until the disk has gone.
  std::counting_semaphore<100> ended(0);
  std::binary_semaphore go(0);
  std::string order;
  const TemporaryFolder folder;
  const auto disk = ColdDisk::Create(folder.path(), kSmallSegment).value();
  disk->SetWake([&] { ended.release(); });
  // Each task has three parts.
  const auto post = [&](char name, ColdDisk::Urgency urgency, const void* key) {
    disk->Post(
        [&order, name, left = 3]() mutable {
          order += name;
          return --left == 0;
        },
        urgency, key);
  };
  disk->Post(
      [&] {
        go.acquire();
        return true;
      },
      ColdDisk::Urgency::kUrgent, nullptr);
  const int hurried = 0;
  post('a', ColdDisk::Urgency::kNormal, nullptr);
  post('b', ColdDisk::Urgency::kNormal, &hurried);
  post('A', ColdDisk::Urgency::kUrgent, nullptr);
  post('B', ColdDisk::Urgency::kUrgent, nullptr);
  disk->Hurry(&hurried);
  go.release();
  for (int i = 0; i < 5; ++i) ended.acquire();
  CHECK(order == "AAABBBbbbaaa");
}

TEST_CASE("A read ahead that has been forgotten is not made") {
  // The disk's thread uses these until the disk has gone.
  std::counting_semaphore<100> ended(0);
  std::binary_semaphore go(0);
  const TemporaryFolder folder;
  FaultyDisk disk(folder.path());
  ColdRows rows(disk, kLayout);
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 5000; ++id) {
    REQUIRE(rows.Add(RecordOf(id, 1).data()).ok());
    ids.push_back(id);
  }
  disk.SetWake([&] { ended.release(); });
  disk.Post(
      [&] {
        go.acquire();
        return true;
      },
      ColdDisk::Urgency::kUrgent, nullptr);
  {
    const auto dropped = rows.ReadAhead(ids, ColdDisk::Urgency::kNormal);
  }
  go.release();
  for (int i = 0; i < 2; ++i) ended.acquire();
  CHECK(disk.reads == 0);
  CHECK(disk.ahead_bytes() == 0);
}

TEST_CASE("A copy of cold rows has those of its begin") {
  const TemporaryFolder folder;
  const auto disk = ColdDisk::Create(folder.path(), kSmallSegment).value();
  ColdRows rows(*disk, kLayout);
  constexpr uint64_t kRows = 5000;
  for (uint64_t id = 0; id < kRows; ++id) REQUIRE(rows.Add(RecordOf(id, 1).data()).ok());
  rows.BeginCopy(CopyBase::kUnnoted);
  for (uint64_t id = 0; id < kRows; ++id) {
    const auto found = rows.Fetch({&id, 1});
    REQUIRE(found->size() == 1);
    rows.Remove(found->front());
    REQUIRE(rows.Add(RecordOf(id, 2).data()).ok());
    REQUIRE((id % 8 == 0 ? rows.Reclaim() : rows.Maintain()).ok());
  }
  std::vector<std::byte> copy;
  uint64_t taken = 0;
  while (!rows.copy_done()) taken += rows.TakeCopied(700, copy).value();
  CHECK(taken == kRows);
  bool are_equal = true;
  for (uint64_t id = 0; id < kRows; ++id) {
    const std::vector<std::byte> expected = RecordOf(id, 1);
    are_equal = are_equal && std::memcmp(copy.data() + id * kLayout.stride_bytes, expected.data(),
                                         expected.size()) == 0;
  }
  CHECK(are_equal);
}

TEST_CASE("A full disk takes no more rows, and loses none") {
  const TemporaryFolder folder;
  FaultyDisk disk(folder.path());
  ColdRows rows(disk, kLayout);
  uint64_t id = 0;
  for (; id < 2000; ++id) REQUIRE(rows.Add(RecordOf(id, 1).data()).ok());
  disk.is_full = true;
  while (rows.Add(RecordOf(id, 1).data()).ok()) ++id;
  CHECK(rows.Add(RecordOf(id, 1).data()).code() == absl::StatusCode::kResourceExhausted);
  CHECK(rows.size() == id);
  for (uint64_t i = 0; i < id; ++i) REQUIRE(rows.Fetch({&i, 1})->size() == 1);
  disk.is_full = false;
  CHECK(rows.Add(RecordOf(id, 1).data()).ok());
}

TEST_CASE("A failed write loses no row, a torn one is found out") {
  const TemporaryFolder folder;
  FaultyDisk disk(folder.path());
  ColdRows rows(disk, kLayout);
  disk.fails_writes = true;
  uint64_t id = 0;
  while (rows.Add(RecordOf(id, 1).data()).ok()) ++id;
  for (uint64_t i = 0; i < id; ++i) REQUIRE(rows.Fetch({&i, 1})->size() == 1);
  disk.fails_writes = false;
  disk.torn_bytes = 512;
  while (rows.counts().written_bytes == 0) REQUIRE(rows.Add(RecordOf(id++, 1).data()).ok());
  const uint64_t first = 0;
  CHECK(rows.Fetch({&first, 1}).ok());
  const uint64_t last = id - 1;
  const auto lost = rows.Fetch({&last, 1});
  CHECK(lost.status().code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(lost.status().message()), Catch::Contains("wrong checksum"));
}

TEST_CASE("A read error of the disk fails the table's requests") {
  const TemporaryFolder folder;
  FaultyDisk disk(folder.path());
  TableConfig config = ConfigOf(100);
  Arena arena = Arena::Create(Table::ReservationFor(config)).value();
  Table table(config, 1, arena, nullptr, &disk);
  std::vector<uint64_t> ids(4000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::vector<float> values(ids.size() * config.dim);
  const MatrixView<float> rows(values.data(), ids.size(), config.dim);
  CHECK(table.Pull(ids, rows, 1).created == ids.size());
  CHECK(table.stats().cold_rows == ids.size() - config.memory_rows);
  const std::vector<float> first = values;
  CHECK(table.Evaluate(ids, rows) == ids.size());
  CHECK(values == first);
  CHECK(table.failure().ok());
  disk.fails_reads = true;
  table.Pull(ids, rows, 2);
  CHECK(table.failure().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("With a full disk a table evicts rows") {
  const TemporaryFolder folder;
  FaultyDisk disk(folder.path());
  disk.is_full = true;
  TableConfig config = ConfigOf(100);
  config.when_full = GENERATE(WhenFull::kEvict, WhenFull::kRefuse);
  Arena arena = Arena::Create(Table::ReservationFor(config)).value();
  Table table(config, 1, arena, nullptr, &disk);
  std::vector<uint64_t> ids(400);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::vector<float> values(ids.size() * config.dim);
  const PullReport report =
      table.Pull(ids, MatrixView<float>(values.data(), ids.size(), config.dim), 1);
  const bool evicts = config.when_full == WhenFull::kEvict;
  CHECK(report.evicted_for_space == (evicts ? 300 : 0));
  CHECK(report.rejected_full == (evicts ? 0 : 300));
  CHECK(table.failure().ok());
}

// A table of 100 rows in memory, and a disk that took the first of 20,000 rows before it was full.
struct FullDisk {
  explicit FullDisk(WhenFull when_full) {
    config.when_full = when_full;
    arena.emplace(Arena::Create(Table::ReservationFor(config)).value());
    table.emplace(config, 1, *arena, nullptr, &disk);
    Pull(0, 15'000);
    disk.is_full = true;
    Pull(15'000, 20'000);
  }

  PullReport Pull(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> ids;
    for (uint64_t id = begin; id < end; ++id) ids.push_back(id);
    values.resize(ids.size() * config.dim);
    return table->Pull(ids, MatrixView<float>(values.data(), ids.size(), config.dim), ++stamp);
  }

  const TemporaryFolder folder;
  FaultyDisk disk{folder.path()};
  TableConfig config = ConfigOf(100);
  std::optional<Arena> arena;
  std::optional<Table> table;
  std::vector<float> values;
  uint64_t stamp = 0;
};

TEST_CASE("With a full disk, rows still come and go, and none is lost") {
  FullDisk full(WhenFull::kRefuse);
  const uint64_t rows = full.table->stats().rows;
  CHECK(full.table->stats().rejected_full == 20'000 - rows);
  for (uint64_t id = 0; id < 15'000; id += 500) {
    CHECK(full.Pull(id, id + 500).found == 500);
    REQUIRE(full.table->failure().ok());
  }
  CHECK(full.table->stats().rows == rows);
  CHECK(full.table->cold_refusal().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("With a full disk, the oldest cold rows are evicted") {
  FullDisk full(WhenFull::kEvict);
  CHECK(full.table->stats().evicted > 0);
  CHECK(full.Pull(19'000, 20'000).found == 1000);
  REQUIRE(full.table->failure().ok());
  uint64_t newest_gone = 0;
  std::vector<bool> is_there(20'000);
  full.table->ForEachRow([&](const RowContents& row) { is_there[row.id] = true; });
  for (uint64_t id = 0; id < 20'000; ++id) {
    if (!is_there[id]) newest_gone = id;
  }
  CHECK(newest_gone < 10'000);
  CHECK(is_there[newest_gone + 1]);
}

TEST_CASE("A pull finds what was read ahead for it, and does not wait") {
  // The disk's thread uses these until the disk has gone.
  std::counting_semaphore<1000> wakes(0);
  const TemporaryFolder folder;
  const auto partition = PartitionOf(5000, folder);
  partition->SetWake([&] { wakes.release(); });
  std::vector<uint64_t> ids(20'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::vector<float> values(ids.size() * kLayout.format.dim);
  const MatrixView<float> rows(values.data(), ids.size(), kLayout.format.dim);
  for (size_t at = 0; at < ids.size(); at += 1000) {
    partition->table(0).Pull(std::span(ids).subspan(at, 1000), rows.Rows(at, 1000), at);
  }
  const TableStats before = partition->table(0).stats();
  // The second has rows of the first.
  const auto first = std::span(ids).first(2000);
  const auto second = std::span(ids).subspan(1000, 2000);
  for (const auto& share : {first, second}) {
    partition->ReadAhead(std::vector{IdGroup{0, share}});
    wakes.acquire();
  }
  for (const auto& share : {first, second}) {
    const std::vector<PullGroup> groups{{0, share, rows.Rows(0, share.size())}};
    PullWork work(*partition, LookupMode::kTrain, StepId{1, 0, 1}, NeededPushes{}, groups);
    REQUIRE(work.Ready(share.size()));
    REQUIRE(work.Advance(share.size()).value());
    CHECK(!work.cold_wait());
    CHECK(work.report().found == share.size());
  }
  const TableStats after = partition->table(0).stats();
  CHECK(after.warmed - before.warmed == 3000);
  CHECK(after.cold_late == before.cold_late);
}

TEST_CASE("Reads ahead that no pull uses are bounded") {
  // The disk's thread uses these until the disk has gone.
  std::counting_semaphore<1000> wakes(0);
  const TemporaryFolder folder;
  const auto disk = ColdDisk::Create(folder.path()).value();
  disk->SetWake([&] { wakes.release(); });
  const RowLayout layout(RowFormat{.dim = 1024, .shape = {1, 0}});
  ColdRows rows(*disk, layout);
  std::vector<std::byte> record(layout.stride_bytes);
  std::vector<uint64_t> ids;
  while (ids.size() * layout.stride_bytes < 2 * ColdDisk::kMostAhead) {
    const RowHeader header{.id = ids.size(), .recency = 1, .use_count = 1};
    std::memcpy(record.data(), &header, sizeof(header));
    REQUIRE(rows.Add(record.data()).ok());
    ids.push_back(header.id);
  }
  constexpr size_t kShare = 1000;
  std::deque<ColdRows::Ahead> ahead;
  for (size_t at = 0; at + kShare <= ids.size(); at += kShare) {
    ahead.push_back(rows.ReadAhead(std::span(ids).subspan(at, kShare), ColdDisk::Urgency::kNormal));
  }
  CHECK(disk->ahead_bytes() <= ColdDisk::kMostAhead + kShare * (layout.stride_bytes + 4));
  CHECK(ahead.back().done());
  CHECK(ahead.back().is_used_up());
  CHECK(!ahead.front().is_used_up());
  wakes.acquire();
  ahead.clear();
  CHECK(disk->ahead_bytes() == 0);
  CHECK(rows.Fetch(std::span(ids).first(kShare))->size() == kShare);
}

TEST_CASE("Pulls that wait for cold rows end when the rows are cleared") {
  const TemporaryFolder folder;
  const auto partition = PartitionOf(100, folder);
  std::vector<uint64_t> ids(20'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::vector<float> values(ids.size() * kLayout.format.dim);
  const MatrixView<float> rows(values.data(), ids.size(), kLayout.format.dim);
  partition->table(0).Pull(ids, rows, 1);
  const std::vector<PullGroup> groups{{0, ids, rows}};
  std::deque<PullWork> works;
  for (int i = 0; i < 20; ++i) {
    works.emplace_back(*partition, LookupMode::kTrain, StepId{1, 0, 1}, NeededPushes{}, groups);
    works.back().Ready(1000);
  }
  REQUIRE(partition->Clear(uint64_t{1} << 40).ok());
  for (PullWork& work : works) {
    REQUIRE(work.Ready(1000));
    CHECK(work.Advance(1000).ok());  // The run is of another training.
  }
}

TEST_CASE("A folder that does not exist is named") {
  const auto disk = ColdDisk::Create("/nonexistent/cold");
  CHECK_THAT(std::string(disk.status().message()),
             Catch::Equals("/nonexistent/cold: No such file or directory"));
}

}  // namespace
}  // namespace simurgh
