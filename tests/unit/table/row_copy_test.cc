// Copies that are taken while a table trains, against its rows when the copy began.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/arena.h"
#include "table/cold_disk.h"
#include "table/memory_budget.h"
#include "table/partition.h"
#include "table/table.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/table/copied_rows.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

using Kind = SparseOptimizerConfig::Kind;

constexpr uint64_t kSegmentBytes = uint64_t{128} << 10;
constexpr uint32_t kDim = 5;  // Odd: 16-bit parts have padding.

TableConfig Config(RowPrecision precision, Kind kind, uint64_t capacity_rows) {
  TableConfig config;
  config.name = "clicks";
  config.dim = kDim;
  config.capacity_rows = capacity_rows;
  config.precision = precision;
  // Vectors of state are not f16.
  config.state_precision = precision == RowPrecision::kF16 ? RowPrecision::kBf16 : precision;
  config.optimizer.kind = kind;
  return config;
}

struct Case {
  const char* name;
  TableConfig config;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"adagrad", Config(RowPrecision::kF32, Kind::kAdagrad, 3'000)},
      {"adam in bf16", Config(RowPrecision::kBf16, Kind::kAdam, 3'000)},
      {"full", Config(RowPrecision::kF32, Kind::kAdam, 150)},
      {"full, f16", Config(RowPrecision::kF16, Kind::kAdagrad, 150)},
      {"one row", Config(RowPrecision::kF32, Kind::kSgd, 1)},
      {"idle steps", Config(RowPrecision::kF32, Kind::kAdagrad, 400)},
      {"all rules", Config(RowPrecision::kBf16, Kind::kAdagrad, 400)},
      {"idle time", Config(RowPrecision::kF32, Kind::kAdagrad, 400)},
      {"refusing, with admission", Config(RowPrecision::kF32, Kind::kFtrl, 200)},
      {"most rows cold", Config(RowPrecision::kF32, Kind::kAdagrad, 3'000)},
      {"few rows cold, bf16", Config(RowPrecision::kBf16, Kind::kAdam, 3'000)},
  };
  cases[5].config.eviction.idle_steps = 6;
  cases[6].config.eviction = {.idle_steps = 30,
                              .low_use = {.below = 3, .idle_steps = 5},
                              .small_norm = {.below = 0.05F, .idle_steps = 3}};
  cases[7].config.eviction.idle_time = std::chrono::seconds(10);
  cases[8].config.when_full = WhenFull::kRefuse;
  cases[8].config.admission = {
      .kind = AdmissionConfig::Kind::kOccurrences, .occurrences = 2, .sketch_width = 16};
  cases[9].config.memory_rows = 20;
  cases[10].config.memory_rows = 250;
  return cases;
}

// A table with a copy in progress, and one that trains alike without copies and without cold rows.
class Training {
 public:
  Training(const TableConfig& config, uint64_t seed)
      : config_(config), random_(seed), arena_(Arena::Create(ArenaBytes()).value()) {
    if (config.memory_rows > 0) disk_ = ColdDisk::Create(folder_.path(), kSegmentBytes).value();
    for (const auto& table : {&table_, &control_}) {
      ColdDisk* const disk = table == &table_ ? disk_.get() : nullptr;
      *table = std::make_unique<Table>(config, 7, arena_, nullptr, disk);
      (*table)->SetClock([this] { return now_; });
    }
  }

  Table& table() { return *table_; }
  CopyMemory& memory() { return memory_; }

  void Step() {
    stamp_ += 1 + random_.Below(3);
    now_ += std::chrono::milliseconds(random_.Below(2'000));
    if (random_.Below(4) != 0) Pull();
    if (random_.Below(4) != 0) Push();  // Also of rows that were pulled long ago.
    if (random_.Below(8) == 0) Evaluate();
  }

  void BeginCopy() {
    expected_ = CopyAll(*table_, 1'000);
    const std::map<uint64_t, Row> visited = VisitedRows(*table_);
    // Beyond them, only expired rows.
    for (const auto& [id, row] : visited) REQUIRE(expected_.at(id) == row);
    REQUIRE(expected_.size() == table_->stats().rows);
    parts_.assign(Table::FileTensors(config_, 0).size(), {});
    REQUIRE(table_->BeginCopy(memory_) == expected_.size());
    done_ = false;
  }

  // Begins a copy of all rows, or of the changes since `base` where they are known.
  void BeginCopy(CopyBase base, bool wants_changes) {
    expected_ = CopyAll(*control_, 1'000);
    parts_.assign(Table::FileTensors(config_, 0).size(), {});
    count_ = table_->BeginCopy(memory_, base);
    REQUIRE(count_ == expected_.size());
    removed_.reset();
    done_ = false;
    const std::optional<TableChanges> changes = table_->changes();
    if (!changes || !wants_changes) return;
    count_ = changes->rows;
    removed_.emplace(changes->removed.begin(), changes->removed.end());
    table_->CopyChanges();
  }

  // Completes the copy, and applies it to what its base had.
  std::map<uint64_t, Row> Apply(std::map<uint64_t, Row> base) {
    while (!done_) Take();
    REQUIRE(memory_.used_bytes() == 0);
    const std::map<uint64_t, Row> copied = ReadBack(config_, count_, parts_);
    if (!removed_) return copied;
    for (const uint64_t id : *removed_) base.erase(id);
    for (const auto& [id, row] : copied) base[id] = row;
    return base;
  }

  const std::map<uint64_t, Row>& expected() const { return expected_; }
  bool has_changes() const { return removed_.has_value(); }
  uint64_t count() const { return count_; }

  // Returns whether the copy is complete.
  bool Take() {
    const bool early_only = random_.Below(4) == 0;
    Keep(early_only ? table_->TakeEarlyRows() : table_->TakeRows(1 + random_.Below(60)));
    return done_;
  }

  void CheckCopy() {
    while (!done_) Take();
    REQUIRE(memory_.used_bytes() == 0);
    CHECK((ReadBack(config_, expected_.size(), parts_) == expected_));
  }

  void CheckControl() const {
    CHECK(table_->ContentDigest() == control_->ContentDigest());
    CHECK((VisitedRows(*table_) == VisitedRows(*control_)));
    CHECK(table_->stats().evicted_for == control_->stats().evicted_for);
    CHECK(table_->stats().pulled_before == control_->stats().pulled_before);
  }

 private:
  uint64_t ArenaBytes() const { return 2 * Table::ReservationFor(config_); }

  std::vector<uint64_t> Ids() {
    std::vector<uint64_t> ids(random_.Below(40));
    for (uint64_t& id : ids) {
      const double u = random_.Uniform();
      id = static_cast<uint64_t>(500 * u * u);
    }
    return ids;
  }

  void Pull() {
    const std::vector<uint64_t> ids = Ids();
    std::vector<float> rows(ids.size() * kDim);
    std::vector<float> expected(ids.size() * kDim);
    const uint64_t most = table_->EarlyBytes(ids.size());
    const uint64_t used = memory_.used_bytes();
    const PullReport report = table_->Pull(ids, {rows.data(), ids.size(), kDim}, stamp_);
    CHECK(memory_.used_bytes() - used <= most);
    CHECK(control_->Pull(ids, {expected.data(), ids.size(), kDim}, stamp_).found == report.found);
    CHECK(rows == expected);
  }

  void Push() {
    std::vector<uint64_t> ids = Ids();
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::vector<float> gradients(ids.size() * kDim);
    for (float& gradient : gradients) gradient = static_cast<float>(random_.Uniform()) - 0.5F;
    for (Table* table : {table_.get(), control_.get()}) {
      table->Push(ids, {gradients.data(), ids.size(), kDim}, 0.1F, pushes_);
    }
    ++pushes_;
  }

  void Evaluate() {
    const std::vector<uint64_t> ids = Ids();
    std::vector<float> rows(ids.size() * kDim);
    for (Table* table : {table_.get(), control_.get()}) {
      table->Evaluate(ids, {rows.data(), ids.size(), kDim});
    }
  }

  void Keep(const CopiedRows& rows) {
    Append(config_, rows, parts_);
    memory_.Release(rows.early_bytes);
    done_ = done_ || rows.done;
  }

  const TableConfig config_;
  Random random_;
  Arena arena_;
  CopyMemory memory_{/*limit_bytes=*/0};
  const TemporaryFolder folder_;
  std::unique_ptr<ColdDisk> disk_;  // Null unless the table has cold rows.
  std::unique_ptr<Table> table_;
  std::unique_ptr<Table> control_;
  uint64_t stamp_ = 0;
  uint64_t pushes_ = 0;
  std::chrono::steady_clock::time_point now_;
  std::map<uint64_t, Row> expected_;
  uint64_t count_ = 0;                            // Rows of the copy.
  std::optional<std::vector<uint64_t>> removed_;  // Of a copy of changes.
  std::vector<std::vector<std::byte>> parts_;
  bool done_ = true;
};

TEST_CASE("a copy has the rows of its begin, whatever happens meanwhile", "[minutes]") {
  const std::vector<Case> cases = Cases();
  const size_t which = GENERATE_COPY(range(size_t{0}, cases.size()));
  CAPTURE(cases[which].name);
  for (uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    Random random(seed + 1'000);
    Training training(cases[which].config, seed);
    for (int copies = 0; copies < 4; ++copies) {
      for (uint64_t steps = random.Below(60); steps > 0; --steps) training.Step();
      training.BeginCopy();
      const bool is_dropped = random.Below(4) == 0;
      const uint64_t takes_each = random.Below(3);
      bool done = false;
      for (uint64_t steps = random.Below(40); steps > 0 && !done; --steps) {
        training.Step();
        for (uint64_t takes = random.Below(takes_each + 1); takes > 0 && !done; --takes) {
          done = training.Take();
        }
      }
      if (!is_dropped) training.CheckCopy();
      training.table().EndCopy();
      REQUIRE(training.memory().used_bytes() == 0);
      training.CheckControl();
    }
  }
}

TEST_CASE("copies of changes give the rows of the table, one after another", "[minutes]") {
  const std::vector<Case> cases = Cases();
  const size_t which = GENERATE_COPY(range(size_t{0}, cases.size()));
  CAPTURE(cases[which].name);
  uint64_t small_copies = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    Random random(seed + 2'000);
    Training training(cases[which].config, seed);
    std::map<uint64_t, Row> base;  // What the last copy's base had.
    std::map<uint64_t, Row> last;  // What the last copy had, if it was completed.
    CopyBase next = CopyBase::kNone;
    for (int copies = 0; copies < 8; ++copies) {
      CAPTURE(copies);
      for (uint64_t steps = random.Below(20); steps > 0; --steps) training.Step();
      if (random.Below(8) == 0) next = CopyBase::kNone;
      if (next == CopyBase::kLast) base = last;
      training.BeginCopy(next, random.Below(8) != 0);
      CHECK((next != CopyBase::kNone || !training.has_changes()));
      small_copies += training.has_changes() && 2 * training.count() < training.expected().size();
      bool done = false;
      for (uint64_t steps = random.Below(20); steps > 0 && !done; --steps) {
        training.Step();
        done = random.Below(2) == 0 && training.Take();
      }
      if (random.Below(4) == 0) {  // The copy fails.
        next = next == CopyBase::kNone ? CopyBase::kNone : CopyBase::kBeforeLast;
      } else {
        last = training.Apply(base);
        CHECK((last == training.expected()));
        next = CopyBase::kLast;
      }
      training.table().EndCopy();
      REQUIRE(training.memory().used_bytes() == 0);
      training.CheckControl();
    }
  }
  if (cases[which].config.capacity_rows > 1) CHECK(small_copies > 0);
}

struct SmallTable {
  explicit SmallTable(uint64_t capacity_rows)
      : config(Config(RowPrecision::kF32, Kind::kAdagrad, capacity_rows)),
        arena(Arena::Create(Table::ReservationFor(config)).value()),
        table(config, 7, arena) {}

  void Pull(const std::vector<uint64_t>& ids, uint64_t stamp) {
    std::vector<float> rows(ids.size() * kDim);
    table.Pull(ids, {rows.data(), ids.size(), kDim}, stamp);
  }

  void Push(const std::vector<uint64_t>& ids) {
    const std::vector<float> gradients(ids.size() * kDim, 1.0F);
    table.Push(ids, {gradients.data(), ids.size(), kDim}, 0.1F, pushes++);
  }

  std::map<uint64_t, Row> Rest(uint64_t count) {
    std::vector<std::vector<std::byte>> parts(Table::FileTensors(config, 0).size());
    for (bool done = false; !done;) {
      const CopiedRows rows = table.TakeRows(2);
      Append(config, rows, parts);
      done = rows.done;
    }
    return ReadBack(config, count, parts);
  }

  TableConfig config;
  Arena arena;
  Table table;
  CopyMemory memory{/*limit_bytes=*/0};
  uint64_t pushes = 0;
};

TEST_CASE("ids that went are noted up to half of the rows, however many copies fail") {
  constexpr uint64_t kRows = 4'000;
  SmallTable small(kRows);
  uint64_t next_id = 0;
  const auto pull = [&](uint64_t count) {
    std::vector<uint64_t> ids(count);
    for (uint64_t& id : ids) id = next_id++;
    small.Pull(ids, next_id);
  };
  pull(kRows);
  small.table.BeginCopy(small.memory, CopyBase::kNone);
  small.table.EndCopy();
  for (uint64_t removed = 0; removed <= 2 * kRows; removed += kRows / 5) {
    CAPTURE(removed);
    small.table.BeginCopy(small.memory, removed == 0 ? CopyBase::kLast : CopyBase::kBeforeLast);
    const std::optional<TableChanges> changes = small.table.changes();
    CHECK(changes.has_value() == (removed <= kRows / 2));
    if (changes) CHECK(changes->removed.size() == removed);
    small.table.EndCopy();
    pull(kRows / 5);
  }
}

TEST_CASE("a pull with the stamp of the last step before the copy counts as a later one") {
  SmallTable small(/*capacity_rows=*/10);
  small.Pull({1, 2, 3}, 5);
  const std::map<uint64_t, Row> expected = VisitedRows(small.table);
  small.table.BeginCopy(small.memory);
  small.Pull({1, 2, 9}, 5);
  small.Push({1, 2, 9});
  small.Pull({1}, 4);
  small.Push({1});
  CHECK((small.Rest(3) == expected));
}

TEST_CASE("rows pushed without a pull are copied once") {
  SmallTable small(/*capacity_rows=*/10);
  small.Pull({1, 2, 3, 4}, 5);
  const std::map<uint64_t, Row> expected = VisitedRows(small.table);
  small.table.BeginCopy(small.memory);
  small.Push({2, 4});
  small.Push({2, 3});
  small.Pull({2}, 6);
  CHECK((small.Rest(4) == expected));
}

TEST_CASE("a copy outlives a rebase of the stamps") {
  const uint64_t jump = GENERATE((uint64_t{1} << 32) - 10, (uint64_t{1} << 33));
  SmallTable small(/*capacity_rows=*/6);
  small.Pull({1, 2}, 3);
  small.Pull({3, 4, 5, 6}, 100);
  const std::map<uint64_t, Row> before = VisitedRows(small.table);
  small.table.BeginCopy(small.memory);
  small.Pull({3}, 101);
  small.Push({3, 4});        // 4: with its old stamp.
  small.Pull({5, 7}, jump);  // 7 evicts 1.
  small.Push({5, 7});
  small.Pull({8}, jump + 1);
  small.Push({6});
  const std::map<uint64_t, Row> copied = small.Rest(6);
  REQUIRE(copied.size() == before.size());
  for (const auto& [id, row] : before) {
    CAPTURE(id);
    const Row& copy = copied.at(id);
    CHECK(copy.values == row.values);
    CHECK(copy.uses == row.uses);
    // Ages of 2^31 steps and more are equal.
    CHECK(copy.recency >= row.recency);
    CHECK(copy.recency <= std::max(row.recency, jump - (uint64_t{1} << 31)));
  }
}

TEST_CASE("a pull waits for memory, and an evaluation or a push does not") {
  TableConfig config = Config(RowPrecision::kF32, Kind::kAdagrad, 100);
  const auto partition = Partition::Create({config}, 7).value();
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> rows(ids.size() * kDim);
  const std::vector<PullGroup> all = {{0, ids, MatrixView<float>(rows.data(), 8, kDim)}};
  const std::vector<PullGroup> first = {
      {0, std::span(ids).first(2), MatrixView<float>(rows.data(), 2, kDim)}};
  REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {.run = 1}, 0, all).ok());

  CopyMemory memory(/*limit_bytes=*/1);  // A piece fits only while it is empty.
  partition->BeginCopy(memory);
  PullWork one(*partition, LookupMode::kTrain, {.run = 1, .step = 1}, {}, first);
  REQUIRE(one.Ready(2));
  CHECK(memory.used_bytes() > 0);
  REQUIRE(*one.Advance(2));
  const uint64_t used = memory.used_bytes();
  CHECK(used == 2 * (sizeof(uint64_t) + 2 * sizeof(uint32_t) + 2 * kDim * sizeof(float)));

  PullWork other(*partition, LookupMode::kTrain, {.run = 1, .step = 1}, {}, all);
  CHECK_FALSE(memory.IsShort());
  CHECK_FALSE(other.Ready(4));
  CHECK_FALSE(other.Ready(4));
  CHECK(memory.IsShort());
  CHECK(other.waits() == 1);
  PullWork evaluation(*partition, LookupMode::kEvaluate, {.run = 1, .step = 1}, {}, all);
  CHECK(evaluation.Ready(4));
  const std::vector<float> gradients(4 * kDim, 1.0F);
  const std::vector<PushGroup> pushed = {
      {0, 0.1F, std::span(ids).first(4), MatrixView<const float>(gradients.data(), 4, kDim)}};
  REQUIRE(testing::PushWhole(*partition, {.run = 1, .step = 0}, pushed).ok());

  memory.ClearShortage();
  const CopiedRows early = partition->table(0).TakeEarlyRows();
  CHECK(early.rows == 4);
  CHECK_FALSE(other.Ready(4));
  memory.Release(early.early_bytes);
  CHECK(memory.used_bytes() == 0);
  REQUIRE(other.Ready(4));
  CHECK_FALSE(*other.Advance(4));
  CHECK(memory.used_bytes() == 0);
  REQUIRE(other.Ready(4));
  CHECK(*other.Advance(4));
  CHECK(other.waits() == 1);
  CHECK(memory.used_bytes() == 2 * used);
  // All rows have been copied: nothing has to wait.
  PullWork last(*partition, LookupMode::kTrain, {.run = 1, .step = 2}, {}, all);
  CHECK(last.Ready(8));
  partition->EndCopy();
}

}  // namespace
}  // namespace simurgh
