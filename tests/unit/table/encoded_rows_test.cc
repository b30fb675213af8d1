#include "table/simd/encoded_rows.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/arena.h"
#include "table/table.h"
#include "tests/unit/table/row_references.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

using Kind = SparseOptimizerConfig::Kind;

std::vector<float> RandomFloats(Random& random, size_t count, float low, float high) {
  std::vector<float> values(count);
  for (float& value : values) value = low + static_cast<float>(random.Uniform()) * (high - low);
  return values;
}

RowUpdateParameters ParametersFor(RowUpdateRule rule, uint32_t dim) {
  return {.rule = rule,
          .dim = dim,
          .optimizer = {.learning_rate = 0.07F,
                        .momentum = 0.9F,
                        .epsilon = 1e-10F,
                        .accumulator_decay = 0.9F,
                        .beta1 = 0.9F,
                        .beta2 = 0.99F,
                        .beta = 1.0F},
          .weight_bound = 0.8F};
}

struct SmallTable {
  explicit SmallTable(const TableConfig& config, uint64_t seed = 1)
      : arena(Arena::Create(Table::ReservationFor(config)).value()), table(config, seed, arena) {}

  Arena arena;
  Table table;
};

TableConfig ConfigWith(RowPrecision precision) {
  TableConfig config;
  config.name = "t";
  config.dim = 16;
  config.capacity_rows = 1000;
  config.initializer = {.kind = InitializerConfig::Kind::kConstant, .value = 1.0F};
  config.optimizer.kind = Kind::kSgd;
  config.precision = precision;
  return config;
}

TEST_CASE("every target updates rows of every format bit-identically to the reference") {
  const auto rule = GENERATE(PlaceOf<rules::Sgd>(), PlaceOf<rules::Adagrad>(),
                             PlaceOf<rules::RowWiseAdagrad>(), PlaceOf<rules::Adam>());
  const auto weights = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  const auto state = GENERATE(RowPrecision::kF32, RowPrecision::kBf16);
  constexpr uint32_t kMaxDim = 70;
  constexpr size_t kRows = 3;
  ForEachTarget([&] {
    Random random(17);
    for (uint32_t dim = 1; dim <= kMaxDim; ++dim) {
      const RowFormat format{
          .dim = dim, .shape = StateShapeOf(rule), .weights = weights, .state = state};
      const RowUpdateParameters parameters = ParametersFor(rule, dim);
      // Rows side by side at every distance from a 16-byte boundary that a table can give them.
      const size_t offset = 4 * (dim % 4);
      std::vector<std::byte> rows(offset + kRows * format.bytes());
      const std::vector<float> gradients = RandomFloats(random, kRows * dim, -1.0F, 1.0F);
      for (size_t row = 0; row < kRows; ++row) {
        // Small weights, too: below 2^-14 f16 is another code.
        std::vector<float> begin = RandomFloats(random, format.floats(), 0.0F, 1.0F);
        for (uint32_t i = 0; i < dim; i += 2) begin[i] *= 1e-4F;
        EncodeNewRow(format, begin.data(), rows.data() + offset + row * format.bytes());
      }
      std::vector<std::byte> expected = rows;
      std::vector<EncodedRow> updates;
      for (size_t row = 0; row < kRows; ++row) {
        const float* gradient = gradients.data() + row * dim;
        const uint64_t noise = random();
        const size_t at = offset + row * format.bytes();
        UpdateEncodedRowReference(parameters, format, {expected.data() + at, gradient, noise});
        updates.push_back({rows.data() + at, gradient, noise});
      }
      UpdateEncodedRows(parameters, format, updates);
      if (rows != expected) FAIL("dim " << dim);
      std::vector<float> wide(format.floats());
      std::vector<float> read(dim);
      DecodeRow(format, rows.data() + offset, wide.data());
      const RowConversion request{rows.data() + offset, reinterpret_cast<std::byte*>(read.data())};
      ConvertRows(format.weights, RowPrecision::kF32, dim, {&request, 1});
      if (std::memcmp(wide.data(), read.data(), dim * sizeof(float)) != 0) FAIL("dim " << dim);
    }
  });
}

TEST_CASE("every target converts rows bit-identically to the reference, at any alignment") {
  const auto from = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  const auto to = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  constexpr uint32_t kMaxCount = 70;
  constexpr size_t kRows = 3;
  ForEachTarget([&] {
    Random random(23);
    for (uint32_t count = 1; count <= kMaxCount; ++count) {
      const size_t skew = 4 * (count % 5);
      std::vector<std::byte> source(skew + kRows * kMaxCount * sizeof(float));
      // All magnitudes of f16, and some beyond either end.
      std::vector<float> values = RandomFloats(random, kRows * kMaxCount, -1.0F, 1.0F);
      for (float& value : values)
        value = std::ldexp(value, static_cast<int>(random.Below(50)) - 30);
      const RowFormat format{.dim = kRows * kMaxCount, .shape = {0, 0}, .weights = from};
      EncodeNewRow(format, values.data(), source.data() + skew);
      std::vector<std::byte> expected(skew + kRows * kMaxCount * sizeof(float), std::byte{0x5a});
      std::vector<std::byte> converted = expected;
      std::vector<RowConversion> rows;
      for (size_t row = 0; row < kRows; ++row) {
        const std::byte* begin = source.data() + skew + row * count * SizeOf(from);
        const size_t at = skew + row * count * SizeOf(to);
        ConvertRowReference(from, to, count, {begin, expected.data() + at});
        rows.push_back({begin, converted.data() + at});
      }
      ConvertRows(from, to, count, rows);
      if (converted != expected) FAIL("count " << count);
    }
  });
}

TEST_CASE("a 16-bit pull rounds to nearest, a 16-bit push equals its f32 push") {
  const auto stored = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  const auto sent = GENERATE(RowPrecision::kBf16, RowPrecision::kF16);
  TableConfig config = ConfigWith(stored);
  config.dim = 13;
  config.initializer = {.kind = InitializerConfig::Kind::kNormal, .stddev = 1.0F};
  config.optimizer.kind = Kind::kAdagrad;
  SmallTable in_f32(config);
  SmallTable in_half(config);
  constexpr size_t kRows = 101;  // No multiple of what is done together.
  Random random(3);
  std::vector<uint64_t> ids(kRows);
  for (uint64_t& id : ids) id = random();
  const RowFormat encoded{.dim = config.dim, .shape = {0, 0}, .weights = sent};
  std::vector<float> wide(kRows * config.dim);
  std::vector<std::byte> half(kRows * encoded.bytes());
  std::vector<std::byte> expected(half.size());
  const EncodedRows half_rows(half.data(), sent, kRows, config.dim);
  for (uint64_t step = 0; step < 3; ++step) {
    in_f32.table.Pull(ids, {wide.data(), kRows, config.dim}, step);
    in_half.table.Pull(ids, half_rows, step);
    for (size_t i = 0; i < kRows; ++i) {
      ConvertRowReference(RowPrecision::kF32, sent, config.dim,
                          {reinterpret_cast<const std::byte*>(wide.data() + i * config.dim),
                           expected.data() + i * half_rows.row_bytes()});
    }
    const size_t bytes = kRows * half_rows.row_bytes();
    REQUIRE(std::memcmp(half.data(), expected.data(), bytes) == 0);
    // The rows themselves serve as gradients: rounded, then widened again for the other table.
    for (size_t i = 0; i < kRows; ++i) {
      ConvertRowReference(sent, RowPrecision::kF32, config.dim,
                          {half.data() + i * half_rows.row_bytes(),
                           reinterpret_cast<std::byte*>(wide.data() + i * config.dim)});
    }
    const EncodedGradients gradients(half.data(), sent, kRows, config.dim);
    REQUIRE(in_half.table.Push(ids, gradients, 0.1F, step).updated == kRows);
    REQUIRE(in_f32.table.Push(ids, {wide.data(), kRows, config.dim}, 0.1F, step).updated == kRows);
    REQUIRE(in_half.table.ContentDigest() == in_f32.table.ContentDigest());
  }
}

TEST_CASE("a 16-bit gradient that is not finite is dropped") {
  const auto [sent, number] = GENERATE(table<RowPrecision, uint16_t>({
      {RowPrecision::kF16, 0x7c00},
      {RowPrecision::kF16, 0xfc00},
      {RowPrecision::kF16, 0x7c01},
      {RowPrecision::kF16, 0x7e00},
      {RowPrecision::kBf16, 0x7f80},
      {RowPrecision::kBf16, 0x7fc0},
  }));
  CAPTURE(number);
  ForEachTarget([&] {
    TableConfig config = ConfigWith(RowPrecision::kF32);
    config.dim = 13;
    SmallTable t(config);
    const std::vector<uint64_t> ids = {1, 2};
    std::vector<float> rows(ids.size() * config.dim);
    t.table.Pull(ids, {rows.data(), ids.size(), config.dim}, 0);
    for (size_t at = 0; at < config.dim; ++at) {
      std::vector<uint16_t> gradients(ids.size() * config.dim);
      gradients[at] = number;
      const PushReport report =
          t.table.Push(ids,
                       EncodedGradients(reinterpret_cast<std::byte*>(gradients.data()), sent,
                                        ids.size(), config.dim),
                       0.1F, at);
      CHECK(report.gradients_not_finite == 1);
      CHECK(report.updated == 1);
    }
    std::vector<float> after(rows.size());
    t.table.Evaluate(ids, {after.data(), ids.size(), config.dim});
    CHECK(std::equal(after.begin(), after.begin() + config.dim, rows.begin()));
  });
}

TEST_CASE("a 16-bit row that occurs twice in a batch is updated twice, in order") {
  const RowFormat format{.dim = 20,
                         .shape = StateShapeOf(PlaceOf<rules::Adagrad>()),
                         .weights = RowPrecision::kBf16,
                         .state = RowPrecision::kBf16};
  const RowUpdateParameters parameters = ParametersFor(PlaceOf<rules::Adagrad>(), 20);
  Random random(5);
  const std::vector<float> begin = RandomFloats(random, format.floats(), 0.1F, 1.0F);
  const std::vector<float> first = RandomFloats(random, 20, -1.0F, 1.0F);
  const std::vector<float> second = RandomFloats(random, 20, -1.0F, 1.0F);
  std::vector<std::byte> row(format.bytes());
  EncodeNewRow(format, begin.data(), row.data());
  std::vector<std::byte> expected = row;
  UpdateEncodedRowReference(parameters, format, {expected.data(), first.data(), 1});
  UpdateEncodedRowReference(parameters, format, {expected.data(), second.data(), 2});
  const EncodedRow updates[] = {{row.data(), first.data(), 1}, {row.data(), second.data(), 2}};
  UpdateEncodedRows(parameters, format, updates);
  CHECK(row == expected);
}

// Rounding to the nearest would leave every weight at 1: the step is less than half of the spacing
// of bf16 and f16 there.
TEST_CASE("steps too small for the format count on average") {
  const auto precision = GENERATE(RowPrecision::kBf16, RowPrecision::kF16);
  const TableConfig config = ConfigWith(precision);
  SmallTable t(config);
  constexpr size_t kRows = 500;
  constexpr int kSteps = 200;
  const float step = precision == RowPrecision::kBf16 ? 0x1p-10F : 0x1p-13F;
  std::vector<uint64_t> ids(kRows);
  for (size_t i = 0; i < kRows; ++i) ids[i] = i * 7;
  std::vector<float> values(kRows * config.dim);
  const MatrixView<float> rows(values.data(), kRows, config.dim);
  t.table.Pull(ids, rows, 0);
  const std::vector<float> gradients(kRows * config.dim, 1.0F);
  for (uint64_t i = 0; i < kSteps; ++i) {
    REQUIRE(t.table.Push(ids, {gradients.data(), kRows, config.dim}, step, i).updated == kRows);
  }
  t.table.Evaluate(ids, rows);
  double mean = 0;
  for (const float value : values) mean += value / static_cast<double>(values.size());
  CHECK(mean == Approx(1 - kSteps * double{step}).margin(kSteps * step * 0.01));
}

TEST_CASE("rounding depends on seed, id and step alone") {
  const TableConfig config = ConfigWith(RowPrecision::kBf16);
  const auto trained = [&](uint64_t seed, const std::vector<uint64_t>& ids, uint64_t step) {
    SmallTable t(config, seed);
    std::vector<float> values(ids.size() * config.dim);
    t.table.Pull(ids, {values.data(), ids.size(), config.dim}, 0);
    const std::vector<float> gradients(values.size(), 0x1p-10F);
    t.table.Push(ids, {gradients.data(), ids.size(), config.dim}, 1.0F, step);
    t.table.Evaluate(ids, {values.data(), ids.size(), config.dim});
    return std::vector<float>(values.begin(), values.begin() + config.dim);
  };
  const std::vector<float> row = trained(1, {5, 6, 7}, 3);
  CHECK(row == trained(1, {5}, 3));
  CHECK(row != trained(1, {5}, 4));
  CHECK(row != trained(1, {6}, 3));
  CHECK(row != trained(2, {5}, 3));
}

TEST_CASE("16-bit rows take less memory than f32 rows") {
  TableConfig config = ConfigWith(RowPrecision::kBf16);
  config.capacity_rows = 200'000;
  config.optimizer = {.kind = Kind::kAdagrad, .row_wise = true};
  SmallTable t(config);
  std::vector<uint64_t> ids(1000);
  std::vector<float> values(ids.size() * config.dim);
  for (uint64_t first = 0; first < config.capacity_rows; first += ids.size()) {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = first + i;
    t.table.Pull(ids, {values.data(), ids.size(), config.dim}, 0);
  }
  const TableStats stats = t.table.stats();
  REQUIRE(stats.rows == config.capacity_rows);
  CHECK(static_cast<double>(stats.bytes) / static_cast<double>(stats.rows) <= 68.0);
  CHECK(stats.bytes - stats.overhead_bytes == stats.rows * (16 * 2 + 4));
}

}  // namespace
}  // namespace simurgh
