#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/pooling_kernels.h"
#include "nn/cuda/work.h"
#include "tests/unit/nn/cuda/pooling_runs.h"

namespace simurgh::testing {

// Pools by kernels on an executor. Rows are stored in reverse order, with ones between them.
template <typename Executor>
class PoolingRunner final : public RowPooler {
 public:
  // Lifetime: of executor.
  PoolingRunner(Executor& executor, const EmbeddingWire& wire)
      : executor_(executor), codes_(PlanOf(wire), wire) {
    features_ = Sent(codes_.features);
    feature_of_ = Sent(codes_.feature_of);
  }

  std::vector<float> Pool(std::shared_ptr<const CompactBatch> ids,
                          const std::vector<std::byte>& encoded) override {
    const Input staged = Stage(*ids, encoded);
    const Memory input = Sent(staged.bytes);
    const Memory first_bytes = Sent(staged.first_bytes);
    const Memory offsets = Sent(ids->offsets);
    const size_t rows = ids->batch_size;
    const size_t columns = codes_.feature_of.size();
    const size_t stride = columns + 3;
    const Memory pooled =
        Sent(std::vector<std::byte>(rows * stride * sizeof(float), std::byte{0xff}));
    executor_.ForEachCell(
        rows, columns,
        cuda::PoolCell{.features = At<cuda::PooledFeature>(features_),
                       .feature_of = At<uint32_t>(feature_of_),
                       .precision = codes_.rows.precision(),
                       .input = input.get(),
                       .index = {At<uint64_t>(first_bytes), At<uint32_t>(offsets)},
                       .to = {At<float>(pooled), rows, columns, stride}});
    return Received(pooled, rows, columns, stride);
  }

 private:
  using Memory = cuda::DeviceMemory;

  struct Input {
    std::vector<std::byte> bytes;
    std::vector<uint64_t> first_bytes;  // As in RowIndex.

    // Appends after ones. Returns the offset.
    template <typename T>
    size_t Add(std::span<const T> values) {
      constexpr size_t kAlignment = 8;
      bytes.resize((bytes.size() / kAlignment + 2) * kAlignment, std::byte{0xff});
      const size_t begin = bytes.size();
      const auto added = std::as_bytes(values);
      bytes.insert(bytes.end(), added.begin(), added.end());
      return begin;
    }
  };

  static ModelPlan PlanOf(const EmbeddingWire& wire) {
    ModelPlan plan;
    for (const uint32_t dim : wire.dims) plan.embedding_width += dim;
    return plan;
  }

  Input Stage(const CompactBatch& ids, const std::vector<std::byte>& encoded) const {
    std::vector<size_t> row_bytes;
    codes_.rows.ForEachId(
        ids, [&](size_t, const VectorCodec& code) { row_bytes.push_back(code.row_bytes()); });
    Input input;
    std::vector<uint64_t> row_offsets(row_bytes.size());
    size_t end = encoded.size();
    for (size_t id = row_offsets.size(); id-- > 0;) {
      end -= row_bytes[id];
      row_offsets[id] = input.Add(std::span(encoded).subspan(end, row_bytes[id]));
    }
    SIMURGH_CHECK_EQ(end, size_t{0});
    input.first_bytes.push_back(input.Add(std::span(ids.occurrences)));
    input.first_bytes.push_back(ids.weights.empty() ? 0 : input.Add(std::span(ids.weights)));
    const size_t offsets_offset = input.Add(std::span(std::as_const(row_offsets)));
    for (size_t f = 0; f < ids.feature_count(); ++f) {
      input.first_bytes.push_back(offsets_offset + ids.feature(f).first_id * sizeof(uint64_t));
    }
    return input;
  }

  template <typename T>
  static T* At(const Memory& memory) {
    return reinterpret_cast<T*>(memory.get());
  }
  template <typename T>
  Memory Sent(const std::vector<T>& values) {
    Memory memory = executor_.AllocateDevice(values.size() * sizeof(T));
    SIMURGH_CHECK(memory != nullptr);
    if (values.empty()) return memory;
    executor_.ToDevice(memory.get(), values.data(), values.size() * sizeof(T));
    SIMURGH_CHECK(executor_.Synchronize().ok());
    return memory;
  }

  // The padding behind rows must still be ones.
  std::vector<float> Received(const Memory& memory, size_t rows, size_t columns, size_t stride) {
    std::vector<float> all(rows * stride);
    if (all.empty()) return all;
    executor_.ToHost(all.data(), memory.get(), all.size() * sizeof(float));
    const Status status = executor_.Synchronize();
    SIMURGH_CHECK(status.ok()) << status.ToString();
    std::vector<float> values;
    for (size_t i = 0; i < all.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &all[i], sizeof(bits));
      if (i % stride < columns) {
        values.push_back(all[i]);
      } else {
        SIMURGH_CHECK_EQ(bits, UINT32_MAX);
      }
    }
    return values;
  }

  Executor& executor_;
  const cuda::WireCodes codes_;
  Memory features_ = cuda::NoMemory();
  Memory feature_of_ = cuda::NoMemory();
};

}  // namespace simurgh::testing
