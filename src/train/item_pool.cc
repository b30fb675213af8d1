#include "train/item_pool.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "base/random.h"
#include "data/reading/batch_reader.h"
#include "embedding/raw_masks.h"

namespace simurgh {
namespace {

constexpr size_t kPartItems = 8'192;

// Adds the ids of a sample.
void AddIds(const CompactBatch& batch, size_t row, BatchBuilder& builder) {
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView feature = batch.feature(f);
    const size_t first = feature.offsets[row] - feature.offsets[0];
    const std::span<const uint32_t> occurrences = feature.sample(row);
    for (size_t i = 0; i < occurrences.size(); ++i) {
      builder.AddId(f, feature.ids[occurrences[i]],
                    feature.weights.empty() ? 1.0F : feature.weights[first + i]);
    }
  }
}

}  // namespace

StatusOr<ItemPool> ItemPool::Read(const DataConfig& data,
                                  const std::vector<FeatureConfig>& features,
                                  const std::vector<std::string>& files) {
  ItemPool pool(NewBuilder(data, features), HasSampleWeights(data));
  SIMURGH_ASSIGN_OR_RETURN(
      auto reader, OpenBatchReader(data, features, files, kPartItems,
                                   {.ignore_labels = true, .threads = ReadingThreads(data)}));
  const RawMasks masks(features);
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader->Next());
    if (!batch) break;
    masks.AppendTo(*batch);
    pool.begins_.push_back(pool.items_);
    pool.items_ += batch->size();
    pool.parts_.push_back(*std::move(batch));
  }
  if (pool.items_ > 0) return pool;
  return absl::InvalidArgumentError("data.items: " + absl::StrJoin(files, ", ") +
                                    " has no item; give a file with a row for each item");
}

size_t ItemPool::Draw(uint64_t seed, uint64_t step, uint64_t n) const {
  return Random(Mix64(Mix64(seed + Random::kIncrement * step) + n)).Below(items_);
}

Status ItemPool::AddTo(Batch& batch, const std::vector<size_t>& items) {
  DenseBatch& dense = batch.dense;
  const std::span<const float> weights = dense.weights();
  std::vector<float> labels(dense.labels.begin(),
                            dense.labels.end() - static_cast<std::ptrdiff_t>(weights.size()));
  labels.resize(labels.size() + items.size() * dense.tasks,
                std::numeric_limits<float>::quiet_NaN());
  labels.insert(labels.end(), weights.begin(), weights.end());
  if (is_weighted_) labels.resize(labels.size() + items.size(), 0.0F);
  for (size_t row = 0; row < batch.size(); ++row) {
    AddIds(*batch.sparse, row, builder_);
    builder_.EndSample();
  }
  for (const size_t item : items) {
    const size_t at = std::ranges::upper_bound(begins_, item) - begins_.begin() - 1;
    const size_t row = item - begins_[at];
    AddIds(*parts_[at].sparse, row, builder_);
    builder_.EndSample();
    const std::span<const float> values = parts_[at].dense.matrix().row(row);
    dense.values.insert(dense.values.end(), values.begin(), values.end());
  }
  SIMURGH_ASSIGN_OR_RETURN(Batch merged, builder_.Build());
  batch.sparse = std::move(merged.sparse);
  dense.labels = std::move(labels);
  dense.batch_size += items.size();
  if (!dense.groups.empty()) dense.groups.resize(dense.batch_size, 0);
  dense.uniform_negatives = items.size();
  return absl::OkStatus();
}

}  // namespace simurgh
