#include "nn/in_batch_items.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace simurgh {

KeyNumbers::KeyNumbers(std::span<const uint64_t> keys) {
  constexpr uint32_t kFree = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> table(std::bit_ceil(2 * keys.size() + 1), kFree);
  numbers.reserve(keys.size());
  for (const uint64_t key : keys) {
    size_t at = Mix64(key) & (table.size() - 1);
    while (table[at] != kFree && distinct[table[at]] != key) at = (at + 1) & (table.size() - 1);
    if (table[at] == kFree) {
      table[at] = static_cast<uint32_t>(distinct.size());
      distinct.push_back(key);
    }
    numbers.push_back(table[at]);
  }
}

std::vector<uint64_t> InBatchItems::Occurred() const {
  std::vector<uint64_t> occurred;
  for (size_t j = 0; j < count(); ++j) {
    if (kinds[j] == kOther || kinds[j] == kPositive) occurred.push_back(items[j]);
  }
  return occurred;
}

StatusOr<InBatchItems> GatherItems(
    std::span<const float> labels, MatrixView<const float> vectors, const RankStep& step,
    const std::function<MatrixView<float>(size_t count)>& all_vectors) {
  const size_t samples = vectors.rows();
  const size_t dim = vectors.columns();
  SIMURGH_CHECK_EQ(step.user_keys.size(), samples);
  SIMURGH_CHECK_EQ(step.item_keys.size(), samples);
  const auto kind = [&](size_t i) {
    if (i + step.uniform_negatives >= samples) return kUniform;
    return labels[i] > 0 ? kPositive : kOther;
  };
  InBatchItems all;
  if (!step.gather) {
    all.share = samples;
    all.users.assign(step.user_keys.begin(), step.user_keys.end());
    all.items.assign(step.item_keys.begin(), step.item_keys.end());
    for (size_t i = 0; i < samples; ++i) all.kinds.push_back(kind(i));
    return all;
  }
  const uint64_t own = samples;
  std::vector<uint64_t> sizes(step.ranks);
  SIMURGH_RETURN_IF_ERROR(
      step.gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(sizes))));
  all.share = std::ranges::max(sizes);
  all.own = step.rank * all.share;
  // A rank's share: vectors, user keys, item keys, kinds.
  const size_t vector_bytes = all.share * dim * sizeof(float);
  const size_t key_bytes = all.share * sizeof(uint64_t);
  const size_t share_bytes = vector_bytes + 2 * key_bytes + all.share;
  std::vector<std::byte> share(share_bytes);
  for (size_t i = 0; i < samples; ++i) {
    if (dim > 0) {
      std::memcpy(share.data() + i * dim * sizeof(float), vectors.row(i).data(),
                  dim * sizeof(float));
    }
    share[vector_bytes + 2 * key_bytes + i] = static_cast<std::byte>(kind(i));
  }
  if (samples > 0) {
    std::memcpy(share.data() + vector_bytes, step.user_keys.data(), samples * sizeof(uint64_t));
    std::memcpy(share.data() + vector_bytes + key_bytes, step.item_keys.data(),
                samples * sizeof(uint64_t));
  }
  std::vector<std::byte> shares(step.ranks * share_bytes);
  SIMURGH_RETURN_IF_ERROR(step.gather(share, shares));
  const size_t count = step.ranks * all.share;
  const MatrixView<float> gathered = all_vectors(count);
  all.users.resize(count);
  all.items.resize(count);
  all.kinds.resize(count);
  for (size_t rank = 0; all.share > 0 && rank < step.ranks; ++rank) {
    const std::byte* const from = shares.data() + rank * share_bytes;
    const size_t first = rank * all.share;
    if (dim > 0) std::memcpy(gathered.row(first).data(), from, vector_bytes);
    std::memcpy(&all.users[first], from + vector_bytes, key_bytes);
    std::memcpy(&all.items[first], from + vector_bytes + key_bytes, key_bytes);
    std::memcpy(&all.kinds[first], from + vector_bytes + 2 * key_bytes, all.share);
  }
  return all;
}

LeftOut::Lists::Lists(size_t count, std::span<const uint32_t> owner,
                      std::span<const uint32_t> values)
    : begins_(count + 1, 0), values_(values.size()) {
  for (const uint32_t list : owner) ++begins_[list + 1];
  for (size_t list = 0; list < count; ++list) begins_[list + 1] += begins_[list];
  std::vector<size_t> next(begins_.begin(), begins_.end() - 1);
  for (size_t i = 0; i < values.size(); ++i) values_[next[owner[i]]++] = values[i];
}

void LeftOut::Lists::SortEach() {
  for (size_t list = 0; list + 1 < begins_.size(); ++list) {
    if (begins_[list + 1] - begins_[list] < 2) continue;
    std::sort(values_.begin() + static_cast<std::ptrdiff_t>(begins_[list]),
              values_.begin() + static_cast<std::ptrdiff_t>(begins_[list + 1]));
  }
}

LeftOut::LeftOut(const InBatchItems& all) {
  KeyNumbers users(all.users);
  KeyNumbers items(all.items);
  users_ = std::move(users.numbers);
  items_ = std::move(items.numbers);
  std::vector<uint32_t> samples;
  std::vector<uint32_t> items_of_samples;
  std::vector<uint32_t> owners;
  std::vector<uint32_t> owned;
  for (uint32_t j = 0; j < all.count(); ++j) {
    if (all.kinds[j] == kPadding) {
      padding_.push_back(j);
      continue;
    }
    samples.push_back(j);
    items_of_samples.push_back(items_[j]);
    if (all.kinds[j] != kPositive) continue;
    owners.push_back(users_[j]);
    owned.push_back(items_[j]);
  }
  samples_ = Lists(items.distinct.size(), items_of_samples, samples);
  positives_ = Lists(users.distinct.size(), owners, owned);
  positives_.SortEach();
}

}  // namespace simurgh
