#include "nn/cpu/row_pool.h"

#include <algorithm>
#include <cstring>

#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {

size_t RowPool::BytesFor(const EmbeddingWire& wire) {
  return wire.row_slots * RowCodec(wire.embeddings, wire.rows).slot_bytes();
}

RowPool::RowPool(const EmbeddingWire& wire)
    : rows_(wire.embeddings, wire.rows), slot_bytes_(rows_.slot_bytes()), slots_(BytesFor(wire)) {}

void RowPool::Pool(BatchBlock& block) {
  const KeptRows* const kept = block.kept.get();
  const std::vector<uint64_t> places = rows_.Destinations(*block.ids, block.here());
  places_.clear();
  for (size_t id = 0; id < places.size(); ++id) {
    const bool is_here = kept != nullptr && kept->is_here(id);
    places_.push_back(is_here ? slot(kept->slots[id])
                              : block.coded_embeddings.bytes.data() + places[id]);
  }
  rows_.Pool(*block.ids, places_, block.embeddings, ForEachPart);
  if (kept == nullptr) return;
  const std::byte* const end =
      block.coded_embeddings.bytes.data() + block.coded_embeddings.bytes.size();
  // No two of them fill a slot.
  ForEachPart(
      places.size(), kPartElements * sizeof(float) / slot_bytes_, [&](size_t first, size_t last) {
        for (size_t id = first; id < last; ++id) {
          if (kept->is_here(id) || kept->slots[id] == KeptRows::kNoSlot) continue;
          // Short rows take what follows them along.
          std::memcpy(slot(kept->slots[id]), places_[id],
                      std::min<size_t>(slot_bytes_, static_cast<size_t>(end - places_[id])));
        }
      });
}

}  // namespace simurgh::cpu
