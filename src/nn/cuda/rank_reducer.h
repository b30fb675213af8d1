#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/wire_kernels.h"
#include "nn/cuda/work.h"
#include "nn/device_sums.h"

namespace simurgh::cuda {

// The part of a training pass in a run of several ranks. Its functions only enqueue; every rank
// makes the same calls.
struct RankPass {
  uint64_t samples = 0;  // Samples of this rank's batch, or of all ranks'.
  uint64_t divisor = 0;  // Gradients are divided by it.
  // DropoutStep() in pinned memory, which must not change until the pass has run.
  const uint64_t* dropout_step = nullptr;
  // Replaces f64 values in device memory by their sums over the ranks. Empty: batch norm uses the
  // statistics of this rank's batch.
  std::function<void(double* values, size_t count)> sum_statistics;
  // Replaces one f64 value in device memory by its sum over the ranks. May be empty.
  std::function<void(double* value)> sum_flag;
  // The loss in_batch_softmax. `gather` concatenates the ranks' bytes in device memory, and
  // `sum_floats` replaces values there by their sums over the ranks. Empty: items of this rank's
  // batch compete.
  InBatchShape in_batch;
  std::function<void(std::span<const std::byte> own, std::byte* all)> gather;
  std::function<void(std::span<float> values)> sum_floats;
  // Called when gradients [first, first + count) are enqueued, from the last to the first. May be
  // empty.
  std::function<void(size_t first, size_t count)> on_gradients;
};

// Sums a network's gradients over the ranks in device memory, bucket by bucket, during the backward
// pass. Sums lie between captured graphs: ranks capture and replay on their own decisions, and NCCL
// requires that all ranks capture an operation or none. In bf16 and int8 each rank sums one part of
// a bucket, in f32 and in rank order; in f32, DeviceSums sums. Enqueues only.
//
// Threads: one owner.
template <typename Executor>
class RankReducer {
 public:
  using Precision = AllReduceConfig::Precision;

  // gradients: in device memory. Lifetime: all arguments except the plan outlive this.
  // Errors: RESOURCE_EXHAUSTED without device memory for encoded buckets.
  static StatusOr<std::unique_ptr<RankReducer>> Create(const ModelPlan& plan,
                                                       const DeviceRanks& ranks, Executor& executor,
                                                       std::span<float> gradients) {
    std::unique_ptr<RankReducer> reducer(new RankReducer(plan, ranks, executor, gradients));
    SIMURGH_RETURN_IF_ERROR(reducer->Allocate());
    return reducer;
  }

  DeviceSums& sums() { return sums_; }

  // Requires that gradients from `first` are enqueued; see RankPass::on_gradients.
  void OnGradients(size_t first) {
    SIMURGH_CHECK_LT(next_, buckets_.size());
    if (first != buckets_[next_].first) return;
    if (overlap_) {
      executor_.Between([this, bucket = buckets_[next_]] { Sum({&bucket, 1}); });
    }
    ++next_;
  }

  // Requires that all gradients are enqueued. Work enqueued later reads their sums.
  void Finish() {
    SIMURGH_CHECK_EQ(std::exchange(next_, 0), buckets_.size());
    if (buckets_.empty()) return;  // No reduction was enqueued.
    executor_.Between([this] {
      if (!overlap_) Sum(buckets_);
      executor_.On(Lane::kSums, [this] { executor_.Signal({Event::kSummed}); });
      executor_.Await({Event::kSummed});
    });
  }

  // Returns whether a step depends on the rounding errors of the sums before.
  bool keeps_residuals() const { return residuals_ != nullptr; }
  // Drops rounding errors of sums that were not applied.
  void DropResiduals() {
    if (residuals_ != nullptr) executor_.Zero(residuals_, gradients_.size_bytes());
  }

  // Sums values of the pass, such as batch norm's statistics.
  void SumValues(double* values, size_t count) {
    executor_.Between([=, this] { Note(sums_.Sum(std::span(values, count), executor_.stream())); });
  }

  void SumFloats(std::span<float> values) {
    executor_.Between([=, this] { Note(sums_.Sum(values, executor_.stream())); });
  }
  void Gather(std::span<const std::byte> own, std::byte* all) {
    executor_.Between([=, this] { Note(sums_.Gather(own, all, executor_.stream())); });
  }

  // Calls DeviceSums::Check, and GiveUp after an error.
  Status Check() {
    Status checked = sums_.Check();
    if (!checked.ok()) sums_.GiveUp(checked);
    return checked;
  }

  // Returns the first error since the last call.
  Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  RankReducer(const ModelPlan& plan, const DeviceRanks& ranks, Executor& executor,
              std::span<float> gradients)
      : sums_(*ranks.sums),
        precision_(ranks.allreduce.precision),
        overlap_(ranks.overlap),
        buckets_(PlanBuckets(plan, ranks.allreduce.bucket_bytes / sizeof(float))),
        executor_(executor),
        gradients_(gradients) {}

  Status Allocate() {
    if (precision_ == Precision::kF32) return absl::OkStatus();
    BucketParts largest;
    for (const ColumnRange& bucket : buckets_) {
      const BucketParts parts = PlanParts(bucket.count, sums_.ranks(), precision_);
      if (parts.part_bytes > largest.part_bytes) largest = parts;
    }
    RegionPlanner planner;
    const Region outgoing = planner.Add(largest.part_bytes * sums_.ranks());
    const Region incoming = planner.Add(largest.part_bytes * sums_.ranks());
    const Region sums = planner.Add(largest.part_floats * sizeof(float));
    const Region residuals = planner.Add(gradients_.size_bytes());
    memory_ = executor_.AllocateDevice(planner.bytes());
    if (memory_ == nullptr) {
      return absl::ResourceExhaustedError(
          "dense network: the device has no memory for gradients on their way to other ranks; "
          "lower training.allreduce.bucket_bytes or set training.allreduce.precision: f32");
    }
    outgoing_ = memory_.get() + outgoing.offset;
    incoming_ = memory_.get() + incoming.offset;
    part_sums_ = reinterpret_cast<float*>(memory_.get() + sums.offset);
    residuals_ = reinterpret_cast<float*>(memory_.get() + residuals.offset);
    executor_.Zero(memory_.get(), planner.bytes());
    return absl::OkStatus();
  }

  // Starts after all work enqueued before, in parallel with later work until Finish.
  void Sum(std::span<const ColumnRange> buckets) {
    executor_.Signal({Event::kGradients});
    executor_.On(Lane::kSums, [&] {
      executor_.Await({Event::kGradients});
      for (const ColumnRange& bucket : buckets) Reduce(bucket);
    });
  }

  void Reduce(const ColumnRange& bucket) {
    [[maybe_unused]] const auto range = executor_.Range("sum over ranks");
    switch (precision_) {
      case Precision::kF32:
        return Note(sums_.Sum(gradients_.subspan(bucket.first, bucket.count), executor_.stream()));
      case Precision::kBf16:
        return ReduceEncoded<false>(bucket);
      case Precision::kInt8:
        return ReduceEncoded<true>(bucket);
    }
  }

  template <bool kInt8>
  void ReduceEncoded(const ColumnRange& bucket) {
    const BucketParts parts = PlanParts(bucket.count, sums_.ranks(), precision_);
    const uint32_t rank = sums_.rank();
    float* values = gradients_.data() + bucket.first;
    float* residuals = residuals_ + bucket.first;
    for (uint32_t peer = 0; peer < sums_.ranks(); ++peer) {
      if (peer == rank) continue;
      Encode<kInt8>({values + parts.First(peer), residuals + parts.First(peer)}, parts.Count(peer),
                    outgoing_ + peer * parts.part_bytes);
    }
    Note(sums_.Exchange(outgoing_, incoming_, parts.part_bytes, executor_.stream()));
    const size_t own = parts.First(rank);
    executor_.ForEach(parts.Count(rank), SumParts<kInt8>{incoming_, parts.part_bytes, rank,
                                                         sums_.ranks(), values + own, part_sums_});
    Encode<kInt8>({part_sums_, residuals + own}, parts.Count(rank), outgoing_);
    Note(sums_.Gather({outgoing_, parts.part_bytes}, incoming_, executor_.stream()));
    executor_.ForEach(bucket.count,
                      DecodeSums<kInt8>{incoming_, parts.part_bytes, parts.part_floats, values});
  }

  template <bool kInt8>
  void Encode(const WireSource& source, size_t count, std::byte* out) {
    if constexpr (kInt8) {
      const size_t chunks = (count + kWireChunk - 1) / kWireChunk;
      executor_.ForEachBlock(chunks, EncodeChunks{source, count, out});
    } else {
      executor_.ForEach(count, EncodeHalf{source, out});
    }
  }

  void Note(Status status) { error_.Update(std::move(status)); }

  DeviceSums& sums_;
  const Precision precision_;
  const bool overlap_;
  const std::vector<ColumnRange> buckets_;
  Executor& executor_;
  const std::span<float> gradients_;
  size_t next_ = 0;  // Index into buckets_.
  DeviceMemory memory_ = NoMemory();
  std::byte* outgoing_ = nullptr;  // One part per rank.
  std::byte* incoming_ = nullptr;
  float* part_sums_ = nullptr;
  float* residuals_ = nullptr;  // One per gradient with bf16 and int8; else null.
  Status error_ = absl::OkStatus();
};

}  // namespace simurgh::cuda
