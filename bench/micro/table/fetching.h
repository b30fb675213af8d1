#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simurgh::bench {

// How data is prefetched into the cache.
struct Fetching {
  size_t rows = 16;
  // If true, the next `rows` rows are fetched together while the current ones are used; the first
  // lines of all rows precede their other lines. If false, each row is fetched `rows` rows before
  // its use.
  bool in_lots = false;
};

// All ways to try. The best one depends on the machine and on the size of a row.
std::vector<Fetching> WaysOfFetching();

std::string NameOf(const Fetching& fetching);

// Prefetches `bytes` bytes at `begin`.
inline void PrefetchBytes(const void* begin, size_t bytes) {
  const auto* line = static_cast<const std::byte*>(begin);
  const std::byte* end = line + bytes;
  line -= reinterpret_cast<uintptr_t>(line) % 64;
  for (; line < end; line += 64) __builtin_prefetch(line, 1);
}

// Calls use(i) for every position, after `bytes` from at(i) on have been fetched.
template <typename At, typename Use>
void ForFetched(const Fetching& fetching, size_t size, size_t bytes, const At& at, const Use& use) {
  const size_t rows = fetching.rows;
  if (!fetching.in_lots) {
    for (size_t i = 0; i < std::min(rows, size); ++i) PrefetchBytes(at(i), bytes);
    for (size_t i = 0; i < size; ++i) {
      if (i + rows < size) PrefetchBytes(at(i + rows), bytes);
      use(i);
    }
    return;
  }
  const auto fetch_lot = [&](size_t begin) {
    const size_t end = std::min(begin + rows, size);
    for (size_t i = begin; i < end; ++i) __builtin_prefetch(at(i), 1);
    for (size_t i = begin; i < end; ++i) PrefetchBytes(at(i), bytes);
  };
  fetch_lot(0);
  for (size_t begin = 0; begin < size; begin += rows) {
    const size_t end = std::min(begin + rows, size);
    fetch_lot(end);
    for (size_t i = begin; i < end; ++i) use(i);
  }
}

}  // namespace simurgh::bench
