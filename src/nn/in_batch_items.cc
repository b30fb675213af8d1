#include "nn/in_batch_items.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace simurgh {
namespace {

// Numbers keys by first appearance.
std::vector<uint32_t> NumbersOf(std::span<const uint64_t> keys, size_t* count) {
  std::unordered_map<uint64_t, uint32_t> numbers;
  numbers.reserve(keys.size());
  std::vector<uint32_t> found;
  found.reserve(keys.size());
  for (const uint64_t key : keys) {
    found.push_back(numbers.emplace(key, static_cast<uint32_t>(numbers.size())).first->second);
  }
  *count = numbers.size();
  return found;
}

}  // namespace

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

LeftOut::LeftOut(const InBatchItems& all) {
  size_t user_count = 0;
  size_t item_count = 0;
  users_ = NumbersOf(all.users, &user_count);
  items_ = NumbersOf(all.items, &item_count);
  std::vector<uint32_t> samples;
  std::vector<uint32_t> items_of_samples;
  std::vector<std::pair<uint32_t, uint32_t>> positives;  // User, item.
  for (uint32_t j = 0; j < all.count(); ++j) {
    if (all.kinds[j] == kPadding) {
      padding_.push_back(j);
      continue;
    }
    samples.push_back(j);
    items_of_samples.push_back(items_[j]);
    if (all.kinds[j] == kPositive) positives.emplace_back(users_[j], items_[j]);
  }
  std::ranges::sort(positives);
  positives.erase(std::unique(positives.begin(), positives.end()), positives.end());
  std::vector<uint32_t> owners;
  std::vector<uint32_t> owned;
  for (const auto& [user, item] : positives) {
    owners.push_back(user);
    owned.push_back(item);
  }
  samples_ = Lists(item_count, items_of_samples, samples);
  positives_ = Lists(user_count, owners, owned);
}

}  // namespace simurgh
