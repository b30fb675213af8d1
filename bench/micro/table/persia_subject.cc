#include "bench/micro/table/persia_subject.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace simurgh::bench {

std::vector<float> PersiaSubject::NewRow(uint64_t id) const {
  std::vector<float> values(kind_.format.floats(), 0.01F);
  Random random(id);
  for (uint32_t i = 0; i < kind_.dim(); ++i) {
    values[i] = static_cast<float>(random() >> 40) * 0x1.0p-24F - 0.5F;
  }
  return values;
}

void PersiaSubject::Unlink(Links& node) {
  node.previous->next = node.next;
  node.next->previous = node.previous;
}

void PersiaSubject::LinkBefore(Links& ring, Links& node) {
  node.previous = ring.previous;
  node.next = &ring;
  ring.previous->next = &node;
  ring.previous = &node;
}

void PersiaSubject::Pull(const Batch& batch, float* out) {
  const size_t dim = kind_.dim();
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const uint64_t id = batch.ids[i];
    Shard& shard = ShardOf(id);
    const std::lock_guard lock(shard.mutex);
    auto at = shard.entries.find(id);
    if (at == shard.entries.end()) {
      at = shard.entries.try_emplace(id).first;
      at->second.values = NewRow(id);
    } else {
      Unlink(at->second);
    }
    LinkBefore(shard.by_use, at->second);
    std::memcpy(out + i * dim, at->second.values.data(), dim * sizeof(float));
  }
}

void PersiaSubject::Push(const Batch& batch, const float* gradients) {
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    Shard& shard = ShardOf(batch.ids[i]);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.entries.find(batch.ids[i]);
    if (at == shard.entries.end()) continue;
    const RowGradient update{at->second.values.data(), gradients + i * kind_.dim()};
    UpdateRows(kind_.update, {&update, 1});
  }
}

}  // namespace simurgh::bench
