#include "services/embedding_worker/batch_pool.h"

#include <utility>

namespace simurgh {
namespace {

template <typename... Vectors>
size_t SizeOf(const Vectors&... vectors) {
  return ((vectors.size() * sizeof(vectors[0])) + ...);
}

template <typename... Vectors>
size_t CapacityOf(const Vectors&... vectors) {
  return ((vectors.capacity() * sizeof(vectors[0])) + ...);
}

}  // namespace

size_t BufferedBatch::bytes() const {
  const CompactBatch& b = batch();
  return SizeOf(b.ids, b.occurrences, b.offsets, b.unique_ends, b.lists, b.weights, plan.ids,
                plan.row_positions);
}

size_t BufferedBatch::reserved_bytes() const {
  const CompactBatch& b = decoded;
  return CapacityOf(encoded.plain_ids, encoded.codes, b.ids, b.occurrences, b.offsets,
                    b.unique_ends, b.lists, b.weights, plan.ids, plan.row_positions);
}

struct BatchPool::State {
  explicit State(size_t capacity) : capacity_bytes(capacity) {}

  std::unique_ptr<BufferedBatch> Take() {
    MutexLock lock(mutex);
    if (idle.empty()) return std::make_unique<BufferedBatch>();
    auto batch = std::move(idle.back());
    idle.pop_back();
    idle_bytes -= batch->reserved_bytes();
    return batch;
  }

  void PutBack(std::unique_ptr<BufferedBatch> batch) {
    batch->lent.reset();
    const size_t bytes = batch->reserved_bytes();
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
