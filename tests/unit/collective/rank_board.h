#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"

namespace simurgh::testing {

// Gathers bytes of ranks that are threads, round by round.
class RankBoard {
 public:
  explicit RankBoard(uint32_t ranks) : ranks_(ranks), own_(ranks) {}

  uint32_t ranks() const { return ranks_; }

  // Waits for all ranks' bytes of the round and copies them to `all` in rank order. Returns false
  // if a rank has failed.
  bool Gather(uint32_t rank, std::span<const std::byte> own, std::byte* all) {
    const MutexLock lock(mutex_);
    if (given_up_) return false;
    own_[rank].assign(own.begin(), own.end());
    const uint64_t round = round_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++round_;
      all_.clear();
      for (const auto& bytes : own_) all_.insert(all_.end(), bytes.begin(), bytes.end());
      changed_.NotifyAll();
    }
    while (round == round_ && !given_up_) changed_.Wait(mutex_);
    if (round == round_) return false;
    std::ranges::copy(all_, all);
    return true;
  }

  template <typename T>
  bool Sum(uint32_t rank, std::span<T> values) {
    std::vector<T> all(values.size() * ranks());
    if (!Gather(rank, std::as_bytes(values), std::as_writable_bytes(std::span(all)).data())) {
      return false;
    }
    std::ranges::fill(values, T{0});
    for (size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
    return true;
  }

  // As DeviceSums::Exchange. Returns false if a rank has failed.
  bool Exchange(uint32_t rank, const std::byte* outgoing, std::byte* incoming, size_t part_bytes) {
    const size_t bytes = part_bytes * ranks();
    std::vector<std::byte> all(bytes * ranks());
    if (!Gather(rank, {outgoing, bytes}, all.data())) return false;
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      if (peer == rank) continue;
      std::copy_n(all.data() + peer * bytes + rank * part_bytes, part_bytes,
                  incoming + peer * part_bytes);
    }
    return true;
  }

  void GiveUp() {
    const MutexLock lock(mutex_);
    given_up_ = true;
    changed_.NotifyAll();
  }

 private:
  const uint32_t ranks_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::vector<std::byte>> own_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> all_ ABSL_GUARDED_BY(mutex_);
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace simurgh::testing
