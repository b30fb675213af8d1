// Rows to embeddings, of what has come and of what is kept, against their definition in f64.

#include "tests/unit/nn/cuda/pooling_runs.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/data/row_codec.h"

namespace simurgh::testing {
namespace {

constexpr size_t kSlots = 60;

// Features and, of each, its list.
struct Layout {
  std::vector<FeatureRows> features;
  std::vector<uint32_t> lists;

  EmbeddingWire WireIn(VectorPrecision precision) const {
    EmbeddingWire wire{.embeddings = precision, .rows = features, .row_slots = kSlots};
    for (const FeatureRows& feature : features) {
      wire.dims.insert(wire.dims.end(), feature.rule.width(feature.dim) / feature.dim, feature.dim);
    }
    return wire;
  }
};

std::vector<Layout> Layouts() {
  return {
      {{{.dim = 1}}, {0}},
      {{{.dim = 3, .rule = {.kind = Pooling::kSqrtN, .rows_per_id = 2}},
        {.dim = 5, .rule = {.kind = Pooling::kWeightedSum}},
        {.dim = 3, .rule = {.kind = Pooling::kRaw, .length = 3, .rows_per_id = 2}},
        {.dim = 4, .rule = {.kind = Pooling::kMean}},
        {.dim = 5, .rule = {.kind = Pooling::kMean, .rows_per_id = 3}}},
       {0, 1, 0, 2, 1}},
      {{{.dim = 130},
        {.dim = 1, .rule = {.kind = Pooling::kRaw, .length = 1}},
        {.dim = 33, .rule = {.kind = Pooling::kRaw, .length = 4}},
        {.dim = 64, .rule = {.kind = Pooling::kSqrtN}}},
       {0, 1, 2, 3}},
  };
}

std::shared_ptr<const CompactBatch> BatchOf(const Layout& layout, size_t samples, bool weighted,
                                            Random& random) {
  BatchBuilder builder(layout.lists, 0);
  for (size_t s = 0; s < samples; ++s) {
    for (size_t f = 0; f < layout.features.size(); ++f) {
      for (uint64_t ids = random.Below(6); ids > 0; --ids) {
        const auto weight = static_cast<float>(random.Normal());
        builder.AddId(f, random.Below(50), weighted ? weight : 1.0F);
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// A batch as it comes, and the numbers that each of its ids stands for.
struct Coming {
  std::shared_ptr<KeptRows> kept = std::make_shared<KeptRows>();
  std::vector<std::byte> coded;
  std::vector<std::vector<float>> numbers;
};

// Keeps rows in slots at random: whatever a plan may do.
class RandomKeeper {
 public:
  RandomKeeper(const RowCodec& code, Random& random) : code_(code), random_(random) {}

  Coming Next(const CompactBatch& ids) {
    Coming batch;
    batch.kept->here.resize((ids.ids.size() + 63) / 64);
    const auto before = slots_;
    std::set<uint32_t> filled;
    size_t list = 0;
    code_.ForEachId(ids, [&](size_t id, const VectorCodec& code) {
      while (id >= ids.unique_ends[list]) ++list;
      const Key key{list, ids.ids[id]};
      const std::optional<uint32_t> slot = SlotOf(before, key);
      if (slot && random_.Below(4) > 0) {
        batch.kept->here[id / 64] |= uint64_t{1} << (id % 64);
        batch.kept->slots.push_back(*slot);
        batch.numbers.push_back(before.at(*slot).second);
        return;
      }
      batch.numbers.push_back(NewRow(code, batch.coded));
      const auto chosen = static_cast<uint32_t>(random_.Below(kSlots));
      const bool keeps = random_.Below(2) == 0 && filled.insert(chosen).second;
      batch.kept->slots.push_back(keeps ? chosen : KeptRows::kNoSlot);
      if (keeps) slots_[chosen] = {key, batch.numbers.back()};
    });
    return batch;
  }

 private:
  using Key = std::pair<size_t, uint64_t>;  // List, id.
  using Slots = std::map<uint32_t, std::pair<Key, std::vector<float>>>;

  static std::optional<uint32_t> SlotOf(const Slots& slots, const Key& key) {
    for (const auto& [slot, row] : slots) {
      if (row.first == key) return slot;
    }
    return std::nullopt;
  }

  // Adds its bytes, and returns the numbers that they are.
  std::vector<float> NewRow(const VectorCodec& code, std::vector<std::byte>& coded) {
    std::vector<float> numbers(code.columns());
    const MatrixView<float> row(numbers.data(), 1, numbers.size());
    for (float& number : numbers) number = static_cast<float>(random_.Normal());
    std::vector<std::byte> bytes(code.row_bytes());
    code.Encode(row, 1, std::nullopt, bytes);
    code.Decode(bytes, 1, row);
    coded.insert(coded.end(), bytes.begin(), bytes.end());
    return numbers;
  }

  const RowCodec& code_;
  Random& random_;
  Slots slots_;
};

// What a cell is to be, and how large the terms of its sum are.
struct Expected {
  double value = 0;
  double size = 0;
  double terms = 0;
};

Expected CellOf(const FeatureRows& feature, const FeatureView& view, size_t sample, size_t column,
                const std::vector<std::vector<float>>& numbers) {
  const PoolingRule& rule = feature.rule;
  const std::span<const uint32_t> occurrences = view.sample(sample);
  size_t first = 0;
  size_t end = occurrences.size();
  if (rule.kind == Pooling::kRaw) {
    first = column / feature.dim * rule.rows_per_id;
    end = std::min(end, first + rule.rows_per_id);
  }
  Expected cell;
  for (size_t i = first; i < end; ++i) {
    double term = numbers[view.first_id + occurrences[i]][column % feature.dim];
    if (rule.kind == Pooling::kWeightedSum && !view.weights.empty()) {
      term *= view.weights[view.offsets[sample] - view.offsets[0] + i];
    }
    cell.value += term;
    cell.size += std::abs(term);
    ++cell.terms;
  }
  const double ids = std::ceil(static_cast<double>(occurrences.size()) / rule.rows_per_id);
  const double divisor = rule.kind == Pooling::kMean    ? ids
                         : rule.kind == Pooling::kSqrtN ? std::sqrt(ids)
                                                        : 1.0;
  if (cell.terms > 0) {
    cell.value /= divisor;
    cell.size /= divisor;
  }
  return cell;
}

// A sum of n products is rounded 2 n times, and the divisor, its inverse and the quotient once.
void CheckPooled(const Layout& layout, const CompactBatch& ids, const Coming& batch,
                 const std::vector<float>& pooled) {
  size_t i = 0;
  for (size_t sample = 0; sample < ids.batch_size; ++sample) {
    for (size_t f = 0; f < layout.features.size(); ++f) {
      const FeatureRows& feature = layout.features[f];
      const FeatureView view = ids.feature(f);
      for (size_t c = 0; c < feature.rule.width(feature.dim); ++c, ++i) {
        const Expected cell = CellOf(feature, view, sample, c, batch.numbers);
        const double tolerance = (2 * cell.terms + 3) * 0x1p-24 * cell.size;
        if (std::abs(pooled[i] - cell.value) <= tolerance) continue;
        CAPTURE(sample, f, c, pooled[i], cell.value, tolerance);
        FAIL("differs");
      }
    }
  }
  CHECK(i == pooled.size());
}

TEST_CASE("rows that come and rows that are kept are pooled as defined, in f64") {
  const auto precision = GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16,
                                  VectorPrecision::kF16, VectorPrecision::kInt8);
  const size_t layout_index = GENERATE(0, 1, 2);
  CAPTURE(static_cast<int>(precision), layout_index);
  const Layout layout = Layouts()[layout_index];
  const EmbeddingWire wire = layout.WireIn(precision);
  const RowCodec code(precision, wire.rows);
  const auto pooler = NewTestPooler(wire);
  Random random(layout_index + 31);
  RandomKeeper keeper(code, random);
  size_t kept = 0;
  size_t batches = 0;
  for (const size_t samples : {37, 1, 0, 300, 2, 129, 64}) {
    CAPTURE(samples);
    const auto ids = BatchOf(layout, samples, ++batches % 2 == 0, random);
    const Coming batch = keeper.Next(*ids);
    for (size_t id = 0; id < ids->ids.size(); ++id) kept += batch.kept->is_here(id) ? 1 : 0;
    CheckPooled(layout, *ids, batch, pooler->Pool(ids, batch.kept, batch.coded));
  }
  CHECK(kept > 30);
}

}  // namespace
}  // namespace simurgh::testing
