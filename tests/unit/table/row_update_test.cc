#include "table/simd/row_update.h"

#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/unit/table/row_references.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

std::vector<float> RandomFloats(Random& random, size_t count, float low, float high) {
  std::vector<float> values(count);
  for (float& value : values) value = low + static_cast<float>(random.Uniform()) * (high - low);
  return values;
}

TEST_CASE(
    "every target updates rows bit-identically to the reference, at any length and alignment") {
  const auto rule = static_cast<RowUpdateRule>(
      GENERATE(range(0, static_cast<int>(std::tuple_size_v<UpdateRules>))));
  const bool prepared = GENERATE(false, true);
  constexpr uint32_t kMaxDim = 130;
  constexpr size_t kRows = 3;
  ForEachTarget([&] {
    Random random(17);
    for (uint32_t dim = 1; dim <= kMaxDim; ++dim) {
      for (size_t offset = 0; offset < 16; ++offset) {
        const RowUpdateParameters parameters{
            .rule = rule,
            .dim = dim,
            .optimizer = {.learning_rate = 0.07F,
                          .momentum = 0.9F,
                          .epsilon = 1e-10F,
                          .accumulator_decay = 0.9F,
                          .beta1 = 0.9F,
                          .beta2 = 0.99F,
                          .beta = 1.0F,
                          .l1 = 0.25F,
                          .l2 = 0.1F,
                          .group_l1 = 0.05F,
                          .weight_decay = prepared ? 0.1F : 0.0F,
                          .decoupled_weight_decay = prepared ? 0.2F : 0.0F,
                          .max_gradient_norm = prepared ? 1.5F : 0.0F},
            .weight_bound = 0.8F};
        // Rows close to one another: a kernel that writes past its row is found out.
        const size_t stride = dim + StateShapeOf(rule).floats(dim) + offset % 3;
        std::vector<float> rows = RandomFloats(random, offset + kRows * stride, 0.0F, 1.0F);
        const std::vector<float> gradients =
            RandomFloats(random, offset + kRows * dim, -1.0F, 1.0F);
        std::vector<float> expected = rows;
        std::vector<RowGradient> updates;
        for (size_t row = 0; row < kRows; ++row) {
          const float* gradient = gradients.data() + offset + row * dim;
          UpdateRowReference(parameters, {expected.data() + offset + row * stride, gradient});
          updates.push_back({rows.data() + offset + row * stride, gradient});
        }
        UpdateRows(parameters, updates);
        if (std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)) != 0) {
          FAIL("dim " << dim << ", offset " << offset);
        }
      }
    }
  });
}

TEST_CASE("a row that occurs twice in a batch is updated twice, in order") {
  const RowUpdateParameters parameters{.rule = PlaceOf<rules::Adagrad>(),
                                       .dim = 20,
                                       .optimizer = {.learning_rate = 0.1F, .epsilon = 1e-10F},
                                       .weight_bound = 10.0F};
  ForEachTarget([&] {
    Random random(5);
    std::vector<float> row = RandomFloats(random, 40, 0.1F, 1.0F);
    const std::vector<float> first = RandomFloats(random, 20, -1.0F, 1.0F);
    const std::vector<float> second = RandomFloats(random, 20, -1.0F, 1.0F);
    std::vector<float> expected = row;
    UpdateRowReference(parameters, {expected.data(), first.data()});
    UpdateRowReference(parameters, {expected.data(), second.data()});
    const RowGradient updates[] = {{row.data(), first.data()}, {row.data(), second.data()}};
    UpdateRows(parameters, updates);
    CHECK(row == expected);
  });
}

TEST_CASE("a gradient that is not finite changes no row, at any position") {
  const auto rule = static_cast<RowUpdateRule>(
      GENERATE(range(0, static_cast<int>(std::tuple_size_v<UpdateRules>))));
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity());
  ForEachTarget([&] {
    Random random(3);
    for (const uint32_t dim : {1U, 7U, 16U, 33U}) {
      const RowUpdateParameters parameters{
          .rule = rule,
          .dim = dim,
          .optimizer = {.learning_rate = 0.1F, .epsilon = 1e-10F, .beta = 1.0F},
          .weight_bound = 10.0F};
      const size_t floats = dim + StateShapeOf(rule).floats(dim);
      for (uint32_t at = 0; at < dim; ++at) {
        std::vector<float> rows = RandomFloats(random, 2 * floats, 0.1F, 1.0F);
        std::vector<float> gradients = RandomFloats(random, 2 * dim, -1.0F, 1.0F);
        gradients[dim + at] = bad;
        std::vector<float> expected = rows;
        UpdateRowReference(parameters, {expected.data(), gradients.data()});
        const RowGradient updates[] = {{rows.data(), gradients.data()},
                                       {rows.data() + floats, gradients.data() + dim}};
        const NotFinite found = UpdateRows(parameters, updates);
        CHECK(found.gradients == 2);
        CHECK(found.rows == 0);
        CHECK(rows == expected);
      }
    }
  });
}

TEST_CASE("a row that an update would make infinite is reported, and kept if told to") {
  const bool keeps = GENERATE(false, true);
  ForEachTarget([&] {
    for (const uint32_t dim : {1U, 7U, 16U, 33U}) {
      const RowUpdateParameters parameters{.rule = PlaceOf<rules::Momentum>(),
                                           .dim = dim,
                                           .optimizer = {.learning_rate = 0.1F, .momentum = 0.9F},
                                           .weight_bound = 10.0F,
                                           .keeps_old_row = keeps};
      for (uint32_t at = 0; at < dim; ++at) {
        std::vector<float> row(2 * dim, 0.5F);
        row[dim + at] = 3e38F;  // Its velocity overflows.
        const std::vector<float> old = row;
        const std::vector<float> gradient(dim, 3e38F);
        const RowGradient update{row.data(), gradient.data()};
        const NotFinite found = UpdateRows(parameters, {&update, 1});
        CHECK(found.gradients == 0);
        CHECK(found.rows == 1);
        CHECK((row == old) == keeps);
      }
    }
  });
}

TEST_CASE("an update of no rows does nothing") {
  ForEachTarget([] {
    std::vector<float> row(4, 1.0F);
    const std::vector<float> gradient(4, 1.0F);
    const RowGradient update{row.data(), gradient.data()};
    UpdateRows({.rule = PlaceOf<rules::Sgd>(), .dim = 4}, {&update, 0});
    CHECK(row == std::vector<float>(4, 1.0F));
  });
}

}  // namespace
}  // namespace simurgh
