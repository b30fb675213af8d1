#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simurgh {

// Estimates how many different ids it was shown, in 2 KiB: the standard error is 1.04 / sqrt(2048),
// 2.3 %, at any number. Small numbers are nearly exact. Counters of several shares of ids merge
// into the counter of them all, exactly as if it had seen every id.
//
// Source: Flajolet et al., "HyperLogLog", AofA 2007; the estimate without corrections by range is
// Ertl's, arXiv:1702.01284, algorithm 6.
// Threads: one owner. Memory: nothing before the first id.
class DistinctCounter {
 public:
  static constexpr uint32_t kPrecision = 11;
  static constexpr size_t kRegisters = size_t{1} << kPrecision;

  void Add(uint64_t id);
  void Merge(const DistinctCounter& other);
  double Estimate() const;
  void Clear() { registers_.reset(); }

 private:
  using Registers = std::array<uint8_t, kRegisters>;

  std::unique_ptr<Registers> registers_;
};

}  // namespace simurgh
