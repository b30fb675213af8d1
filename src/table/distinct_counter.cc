#include "table/distinct_counter.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"

namespace simurgh {
namespace {

// Decorrelates the hash from Mix64(id), whose top bits select the partition.
constexpr uint64_t kSalt = 0x9e3779b97f4a7c15ULL;
constexpr uint32_t kRankBits = 64 - DistinctCounter::kPrecision;

// Contribution of the share x of registers at zero: x + sum of 2^(k-1) x^(2^k).
double Sigma(double x) {
  if (x == 1) return HUGE_VAL;
  double sum = x;
  double weight = 1;
  for (double before = -1; sum != before;) {
    before = sum;
    x *= x;
    sum += x * weight;
    weight += weight;
  }
  return sum;
}

// Contribution of saturated registers.
double Tau(double x) {
  if (x == 0 || x == 1) return 0;
  double sum = 1 - x;
  double weight = 1;
  for (double before = -1; sum != before;) {
    before = sum;
    x = std::sqrt(x);
    weight /= 2;
    sum -= (1 - x) * (1 - x) * weight;
  }
  return sum / 3;
}

}  // namespace

void DistinctCounter::Add(uint64_t id) {
  if (registers_ == nullptr) registers_ = std::make_unique<Registers>();
  const uint64_t hash = Mix64(id ^ kSalt);
  const uint64_t rest = hash << kPrecision;
  const auto rank = static_cast<uint8_t>(rest == 0 ? kRankBits + 1 : std::countl_zero(rest) + 1);
  uint8_t& cell = (*registers_)[hash >> kRankBits];
  cell = std::max(cell, rank);
}

void DistinctCounter::Merge(const DistinctCounter& other) {
  if (other.registers_ == nullptr) return;
  if (registers_ == nullptr) registers_ = std::make_unique<Registers>();
  for (size_t i = 0; i < kRegisters; ++i) {
    (*registers_)[i] = std::max((*registers_)[i], (*other.registers_)[i]);
  }
}

double DistinctCounter::Estimate() const {
  if (registers_ == nullptr) return 0;
  std::array<uint32_t, kRankBits + 2> with_rank{};
  for (const uint8_t rank : *registers_) ++with_rank[rank];
  constexpr auto kCount = static_cast<double>(kRegisters);
  double sum = kCount * Tau(1 - with_rank[kRankBits + 1] / kCount);
  for (uint32_t rank = kRankBits; rank >= 1; --rank) sum = (sum + with_rank[rank]) / 2;
  sum += kCount * Sigma(with_rank[0] / kCount);
  return kCount * kCount / (2 * std::log(2.0)) / sum;
}

}  // namespace simurgh
