#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bench/micro/table/subject.h"

namespace simurgh::bench {

// The structure of PERSIA's parameter server: 100 shards behind a mutex each, taken anew for every
// id; in a shard a hash map to list nodes that own one vector each; a pull moves its node to the
// list's end.
class PersiaSubject : public Subject {
 public:
  explicit PersiaSubject(const RowKind& kind) : kind_(kind) {}

  void Pull(const Batch& batch, float* out) override;
  void Push(const Batch& batch, const float* gradients) override;

 private:
  static constexpr size_t kShards = 100;

  struct Entry {
    uint64_t id;
    std::vector<float> values;  // Weights and state.
  };
  struct Shard {
    std::mutex mutex;
    std::list<Entry> by_use;
    std::unordered_map<uint64_t, std::list<Entry>::iterator> entries;
  };

  Shard& ShardOf(uint64_t id) { return shards_[id % kShards]; }
  std::vector<float> NewRow(uint64_t id) const;

  RowKind kind_;
  std::array<Shard, kShards> shards_;
};

}  // namespace simurgh::bench
