// Copied rows against the rows that ForEachRow() reads.

#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "table/arena.h"
#include "table/table.h"
#include "tests/unit/table/copied_rows.h"

namespace simurgh {
namespace {

using Optimizer = SparseOptimizerConfig;

Status PutCopies(Table& from, Table& to, size_t piece) {
  CopyMemory memory(/*limit_bytes=*/0);
  from.BeginCopy(memory);
  std::vector<std::vector<std::byte>> parts(Table::FileTensors(from.config(), 0).size());
  Status status;
  for (bool done = false; !done && status.ok();) {
    const CopiedRows rows = from.TakeRows(piece);
    Table::SplitRows(from.config(), rows.stamp_origin, rows.blocks, parts);
    const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    std::vector<uint32_t> all(parts[0].size() / sizeof(uint64_t));
    std::iota(all.begin(), all.end(), 0U);
    status = to.PutRows(views, all);
    done = rows.done;
  }
  from.EndCopy();
  return status;
}

struct Kind {
  const char* name;
  Optimizer::Kind kind;
  bool row_wise;
  double momentum;
  std::vector<std::string> state;
};

TEST_CASE("copied rows are the visited ones, for every optimizer and precision") {
  const auto kind = GENERATE(values<Kind>(
      {{"sgd", Optimizer::Kind::kSgd, false, 0, {}},
       {"momentum", Optimizer::Kind::kSgd, false, 0.9, {"momentum.v"}},
       {"adagrad", Optimizer::Kind::kAdagrad, false, 0, {"adagrad.s"}},
       {"row-wise adagrad", Optimizer::Kind::kAdagrad, true, 0, {"adagrad.s"}},
       {"adam", Optimizer::Kind::kAdam, false, 0, {"adam.m", "adam.v", "adam.n"}},
       {"row-wise adam", Optimizer::Kind::kAdam, true, 0, {"adam.m", "adam.v", "adam.n"}},
       {"ftrl", Optimizer::Kind::kFtrl, false, 0, {"ftrl.z", "ftrl.s"}}}));
  const RowPrecision precision =
      GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  CAPTURE(kind.name, static_cast<int>(precision));
  TableConfig config;
  config.name = "clicks";
  config.dim = 5;  // Odd: 16-bit parts have padding.
  config.capacity_rows = 300;
  config.precision = precision;
  // Vectors of state are not f16.
  config.state_precision = precision == RowPrecision::kF16 ? RowPrecision::kBf16 : precision;
  config.optimizer.kind = kind.kind;
  config.optimizer.row_wise = kind.row_wise;
  config.optimizer.momentum = static_cast<float>(kind.momentum);
  Arena arena = Arena::Create(Table::ReservationFor(config)).value();
  Table table(config, 7, arena);

  Random random(3);
  std::vector<float> rows(100 * 5);
  std::vector<float> gradients(100 * 5);
  for (uint64_t step = 0; step < 8; ++step) {
    std::vector<uint64_t> ids;
    // 400 ids for 300 rows: some are evicted, and their row numbers are used again.
    for (uint64_t i = 0; i < 100; ++i) ids.push_back((step % 4 * 100 + i) * 0x9e3779b97f4a7c15ULL);
    for (float& gradient : gradients) gradient = static_cast<float>(random.Uniform()) - 0.5F;
    table.Pull(ids, {rows.data(), 100, 5}, step + 10);
    table.Push(ids, {gradients.data(), 100, 5}, 0.1F, step);
  }
  const std::map<uint64_t, Row> expected = VisitedRows(table);
  REQUIRE(expected.size() == 300);
  CHECK(CopyAll(table, 1) == expected);
  CHECK(CopyAll(table, 64) == expected);
  CHECK(CopyAll(table, 1000) == expected);

  // Rows that are put back train on with the same bits.
  Arena other_arena = Arena::Create(Table::ReservationFor(config)).value();
  Table other(config, 7, other_arena);
  REQUIRE(PutCopies(table, other, 64).ok());
  CHECK(VisitedRows(other) == expected);
  CHECK(other.ContentDigest() == table.ContentDigest());
  for (uint64_t step = 8; step < 12; ++step) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 100; ++i) ids.push_back((step % 4 * 70 + i) * 0x9e3779b97f4a7c15ULL);
    for (Table* const each : {&table, &other}) {
      each->Pull(ids, {rows.data(), 100, 5}, step + 10);
      each->Push(ids, {gradients.data(), 100, 5}, 0.1F, step);
    }
  }
  CHECK(VisitedRows(other) == VisitedRows(table));

  std::vector<std::string> names;
  for (const TensorSpec& tensor : Table::FileTensors(config, 1)) names.push_back(tensor.name);
  CHECK(std::vector(names.begin() + 4, names.end()) == kind.state);
}

TEST_CASE("copied sketches admit the ids that the originals admit") {
  TableConfig config;
  config.name = "clicks";
  config.dim = 2;
  config.capacity_rows = 5'000;
  config.admission = {.kind = AdmissionConfig::Kind::kOccurrences, .sketch_width = 32};
  config.admission.occurrences = 3;
  Arena arena = Arena::Create(4 * Table::ReservationFor(config)).value();
  Table table(config, 7, arena);
  Table halves[] = {{config, 7, arena}, {config, 7, arena}};
  Random random(5);
  std::vector<uint64_t> ids(500);
  std::vector<float> rows(2 * ids.size());
  const auto draw = [&] {
    for (uint64_t& id : ids) id = static_cast<uint64_t>(random.Uniform() * 2'000);
  };
  for (uint64_t step = 0; step < 6; ++step) {
    draw();
    table.Pull(ids, {rows.data(), ids.size(), 2}, step);
  }
  std::vector<std::vector<std::byte>> parts(Table::AdmissionTensors(config, 0).size());
  table.CopyAdmission(parts);
  const std::vector<TensorSpec> tensors = Table::AdmissionTensors(config, table.sketches());
  REQUIRE(table.sketches() > 1'000);
  for (size_t i = 0; i < parts.size(); ++i) {
    CHECK(parts[i].size() == tensors[i].rows() * tensors[i].row_bytes());
  }
  std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  const auto half_of = [](uint16_t bucket) { return bucket < 20'000 ? 0 : 1; };
  for (int half = 0; half < 2; ++half) {
    const auto owns = [&](uint16_t bucket) { return half_of(bucket) == half; };
    REQUIRE(halves[half].PutAdmission(views, owns).ok());
  }
  CHECK(halves[0].sketches() + halves[1].sketches() == table.sketches());
  for (uint64_t step = 6; step < 12; ++step) {
    draw();
    const PullReport pulled = table.Pull(ids, {rows.data(), ids.size(), 2}, step);
    REQUIRE(pulled.created > 0);
    REQUIRE(pulled.rejected_admission > 0);
    std::vector<uint64_t> shares[2];
    for (const uint64_t id : ids) {
      shares[half_of(static_cast<uint16_t>(Mix64(id) >> 48))].push_back(id);
    }
    uint64_t rejected = 0;
    for (int half = 0; half < 2; ++half) {
      rejected += halves[half]
                      .Pull(shares[half], {rows.data(), shares[half].size(), 2}, step)
                      .rejected_admission;
    }
    // Rows from before the copy are missing in the halves: their ids are admitted at once.
    CHECK(rejected == pulled.rejected_admission);
  }

  const uint32_t too_many = 8 * 32;
  std::memcpy(parts[1].data(), &too_many, sizeof(too_many));
  views.assign(parts.begin(), parts.end());
  CHECK(table.PutAdmission(views, [](uint16_t) { return true; }).code() ==
        absl::StatusCode::kDataLoss);
}

TEST_CASE("rows that cannot be put back are refused by id") {
  TableConfig config;
  config.name = "clicks";
  config.dim = 2;
  config.capacity_rows = 3;
  Arena arena = Arena::Create(2 * Table::ReservationFor(config)).value();
  Table table(config, 7, arena);
  const std::vector<uint64_t> ids = {5, 6, 7};
  std::vector<float> rows(6);
  table.Pull(ids, {rows.data(), 3, 2}, uint64_t{1} << 40);

  Table other(config, 7, arena);
  REQUIRE(PutCopies(table, other, 2).ok());
  CHECK(VisitedRows(other) == VisitedRows(table));
  CHECK(PutCopies(table, other, 2) == absl::DataLossError("table 'clicks': id 5 has two rows"));

  config.capacity_rows = 2;
  for (const WhenFull when_full : {WhenFull::kEvict, WhenFull::kStop}) {
    config.when_full = when_full;
    Arena small_arena = Arena::Create(Table::ReservationFor(config)).value();
    Table small(config, 7, small_arena);
    const Status put = PutCopies(table, small, 3);
    CHECK(small.stats().rows == 2);
    CHECK(put.ok() == (when_full == WhenFull::kEvict));
    if (!put.ok()) CHECK(put.code() == absl::StatusCode::kResourceExhausted);
  }

  std::vector<std::vector<std::byte>> parts(Table::FileTensors(config, 0).size());
  CopyMemory memory(/*limit_bytes=*/0);
  table.BeginCopy(memory);
  const CopiedRows first = table.TakeRows(1);
  Table::SplitRows(config, first.stamp_origin, first.blocks, parts);
  table.EndCopy();
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(parts[3].data() + sizeof(float), &infinity, sizeof(float));
  Arena third_arena = Arena::Create(Table::ReservationFor(config)).value();
  Table third(config, 7, third_arena);
  const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  CHECK(third.PutRows(views, std::array{0U}) ==
        absl::DataLossError("table 'clicks': the row of id 5 has a number that is not finite"));
}

}  // namespace
}  // namespace simurgh
