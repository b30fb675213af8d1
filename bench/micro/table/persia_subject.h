#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bench/micro/table/subject.h"

namespace simurgh::bench {

// The structure of PERSIA's parameter server: 100 shards behind a mutex each, taken anew for every
// id; in a shard a hash map whose nodes are linked in the order of their use and own a vector each;
// a pull moves its node to the end of the list. The links stand in the map's nodes: a std::list
// beside the map would cost another cache miss.
class PersiaSubject : public Subject {
 public:
  explicit PersiaSubject(const RowKind& kind) : kind_(kind) {}

  void Pull(const Batch& batch, float* out) override;
  void Push(const Batch& batch, const float* gradients) override;

 private:
  static constexpr size_t kShards = 100;

  struct Links {
    Links* previous = this;
    Links* next = this;
  };
  struct Entry : Links {
    std::vector<float> values;  // Weights and state.
  };
  struct Shard {
    std::mutex mutex;
    Links by_use;  // A ring; the least recently used entry follows it.
    std::unordered_map<uint64_t, Entry> entries;
  };

  static void Unlink(Links& node);
  static void LinkBefore(Links& ring, Links& node);
  Shard& ShardOf(uint64_t id) { return shards_[id % kShards]; }
  std::vector<float> NewRow(uint64_t id) const;

  RowKind kind_;
  std::array<Shard, kShards> shards_;
};

}  // namespace simurgh::bench
