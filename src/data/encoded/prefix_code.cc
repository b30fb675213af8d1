#include "data/encoded/prefix_code.h"

#include <algorithm>
#include <array>
#include <vector>

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// Depths of a Huffman tree over `weights`, ascending; the first equal one is taken first.
void TreeDepths(std::vector<uint64_t> weights, std::vector<uint8_t>& depths) {
  // Inner nodes are created in order of weight, so two queues replace a heap: leaves, then inner
  // nodes.
  const size_t leaves = weights.size();
  std::vector<uint32_t> parent(2 * leaves - 1);
  size_t leaf = 0;
  size_t inner = leaves;
  const auto take = [&](size_t next) {
    const bool is_leaf = leaf < leaves && (inner == next || weights[leaf] <= weights[inner]);
    const size_t taken = is_leaf ? leaf++ : inner++;
    parent[taken] = static_cast<uint32_t>(next);
    return weights[taken];
  };
  for (size_t next = leaves; next < 2 * leaves - 1; ++next) {
    const uint64_t one = take(next);
    weights.push_back(one + take(next));
  }
  depths.assign(2 * leaves - 1, 0);
  for (size_t node = 2 * leaves - 2; node-- > 0;) {
    depths[node] = static_cast<uint8_t>(std::min(depths[parent[node]] + 1, 255));
  }
  depths.resize(leaves);
}

uint32_t Reversed(uint32_t word, int length) {
  uint32_t reversed = 0;
  for (int bit = 0; bit < length; ++bit) reversed |= ((word >> bit) & 1) << (length - 1 - bit);
  return reversed;
}

}  // namespace

void ChooseCodeLengths(std::span<const uint32_t> counts, std::span<uint8_t> lengths) {
  std::fill(lengths.begin(), lengths.end(), uint8_t{0});
  std::vector<uint64_t> order;  // Count << 32 | symbol, to sort by count, then symbol.
  for (size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] > 0) order.push_back(uint64_t{counts[s]} << 32 | s);
  }
  if (order.size() < 2) return;
  SIMURGH_CHECK_LE(order.size(), size_t{1} << kLongestCode);
  std::sort(order.begin(), order.end());
  std::vector<uint64_t> weights;
  for (const uint64_t symbol : order) weights.push_back(symbol >> 32);
  std::vector<uint8_t> depths;
  for (;;) {
    TreeDepths(weights, depths);
    if (*std::max_element(depths.begin(), depths.end()) <= kLongestCode) break;
    for (uint64_t& weight : weights) weight = weight / 2 + 1;
  }
  for (size_t i = 0; i < order.size(); ++i) lengths[order[i] & 0xffffffff] = depths[i];
}

bool AssignCodes(std::span<const uint8_t> lengths, std::span<uint16_t> codes) {
  std::array<uint32_t, kLongestCode + 2> first = {};  // The next word of each length.
  uint32_t used = 0;  // Words of kLongestCode bits that the code covers.
  for (const uint8_t length : lengths) {
    if (length > kLongestCode) return false;
    if (length == 0) continue;
    ++first[length + 1];
    used += 1U << (kLongestCode - length);
  }
  if (used != 1U << kLongestCode) return false;
  for (int length = 1; length <= kLongestCode; ++length) {
    first[length + 1] = (first[length + 1] + first[length]) << 1;
  }
  for (size_t s = 0; s < lengths.size(); ++s) {
    if (lengths[s] == 0) continue;
    codes[s] = static_cast<uint16_t>(Reversed(first[lengths[s]]++, lengths[s]));
  }
  return true;
}

}  // namespace simurgh
