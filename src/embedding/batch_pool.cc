#include "embedding/batch_pool.h"

#include <algorithm>
#include <utility>

namespace simurgh {
namespace {

// Memory above this multiple of the used bytes is freed.
constexpr size_t kMaxSlack = 4;

template <typename... Vectors>
size_t SizeOf(const Vectors&... vectors) {
  return ((vectors.size() * sizeof(vectors[0])) + ...);
}

template <typename... Vectors>
size_t CapacityOf(const Vectors&... vectors) {
  return ((vectors.capacity() * sizeof(vectors[0])) + ...);
}

size_t SizeOf(const CompactBatch& b) {
  return SizeOf(b.ids, b.occurrences, b.offsets, b.unique_ends, b.lists, b.weights);
}

size_t CapacityOf(const CompactBatch& b) {
  return CapacityOf(b.ids, b.occurrences, b.offsets, b.unique_ends, b.lists, b.weights);
}

// Bytes of the vector once it has `size` elements.
template <typename T>
size_t MaxSizeOf(const std::vector<T>& elements, size_t size) {
  return std::max(elements.capacity(), size) * sizeof(T);
}

size_t MaxSizeOf(const CompactBatch& b, const BatchSizes& sizes) {
  // The ids swap places with the received ones.
  return CapacityOf(b.ids) + MaxSizeOf(b.occurrences, sizes.occurrences) +
         MaxSizeOf(b.offsets, sizes.offsets) + MaxSizeOf(b.unique_ends, sizes.unique_ends) +
         MaxSizeOf(b.lists, sizes.lists) + MaxSizeOf(b.weights, sizes.weights);
}

size_t MaxSizeOf(const BatchPlan& plan, size_t ids) {
  return MaxSizeOf(plan.ids, ids) + MaxSizeOf(plan.row_positions, ids);
}

}  // namespace

size_t BufferedBatch::bytes() const {
  return (lent == nullptr ? 0 : SizeOf(*lent)) + CapacityOf(encoded.plain_ids, encoded.codes) +
         CapacityOf(decoded) + CapacityOf(plan.ids, plan.row_positions);
}

StatusOr<size_t> BufferedBatch::MaxBytes(size_t cluster_features) const {
  const size_t before = CapacityOf(encoded.plain_ids, encoded.codes);
  if (lent != nullptr) {
    return before + SizeOf(*lent) + CapacityOf(decoded) + MaxSizeOf(plan, lent->ids.size());
  }
  SIMURGH_ASSIGN_OR_RETURN(const BatchSizes sizes, DecodedSizes(encoded, cluster_features));
  return before + MaxSizeOf(decoded, sizes) + MaxSizeOf(plan, sizes.ids);
}

struct BatchPool::State {
  explicit State(size_t capacity) : capacity_bytes(capacity) {}

  std::unique_ptr<BufferedBatch> Take() {
    MutexLock lock(mutex);
    if (idle.empty()) return std::make_unique<BufferedBatch>();
    auto batch = std::move(idle.back());
    idle.pop_back();
    idle_bytes -= batch->bytes();
    return batch;
  }

  void PutBack(std::unique_ptr<BufferedBatch> batch) {
    const size_t used = SizeOf(batch->batch()) + SizeOf(batch->plan.ids, batch->plan.row_positions);
    batch->lent.reset();
    const size_t bytes = batch->bytes();
    if (bytes > kMaxSlack * used) return;
    MutexLock lock(mutex);
    if (idle_bytes + bytes > capacity_bytes) return;
    idle_bytes += bytes;
    idle.push_back(std::move(batch));
  }

  const size_t capacity_bytes;
  Mutex mutex;
  std::vector<std::unique_ptr<BufferedBatch>> idle ABSL_GUARDED_BY(mutex);
  size_t idle_bytes ABSL_GUARDED_BY(mutex) = 0;
};

BatchPool::BatchPool(size_t capacity_bytes) : state_(std::make_shared<State>(capacity_bytes)) {}

BatchPool::~BatchPool() = default;

std::shared_ptr<BufferedBatch> BatchPool::Lease() {
  return {state_->Take().release(), [state = state_](BufferedBatch* batch) {
            state->PutBack(std::unique_ptr<BufferedBatch>(batch));
          }};
}

}  // namespace simurgh
