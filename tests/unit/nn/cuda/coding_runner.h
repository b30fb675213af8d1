#pragma once

#include <cstring>
#include <vector>

#include "base/check.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/work.h"
#include "tests/unit/nn/cuda/kernel_runs.h"

namespace simurgh::testing {

// RunEncode and RunDecode on an executor. Outputs are longer than needed and initially all ones.
template <typename Executor>
class CodingRunner {
 public:
  CodingRunner(Executor& executor, const VectorCodec& code) : executor_(executor), code_(code) {
    ModelPlan plan;
    plan.embedding_width = code.columns();
    const cuda::WireCodes codes(plan, {.dims = code.dims()});
    vectors_ = codes.vectors();
    const auto* const table = Sent(codes.table);
    layout_ = {code.precision(), code.row_bytes(), code.scales_offset(), table,
               table + vectors_ + 1};
  }

  std::vector<std::byte> Encode(float factor, const RoundingKey& key,
                                const std::vector<float>& values) {
    const size_t columns = code_.columns();
    const size_t rows = values.size() / columns;
    const cuda::Matrix<const float> from{Sent(values), rows, columns, columns};
    const std::vector<std::byte> before(rows * code_.row_bytes() + kBehind, std::byte{0xff});
    std::byte* const to = Sent(before);
    if (code_.precision() == VectorPrecision::kInt8) {
      const RoundingKey* const sent_key = Sent(std::vector<RoundingKey>{key});
      executor_.ForEachCell(rows, vectors_,
                            cuda::EncodeByteVector{from, layout_, factor, sent_key, to});
    } else {
      uint32_t* const flag = Sent(std::vector<uint32_t>{0});
      executor_.ForEachCell(
          rows, columns,
          cuda::FinishGradientCell<float>{
              .from = from,
              .before = {},
              .inverse_scale = nullptr,
              .not_finite = flag,
              .to = {},
              .encoded = {reinterpret_cast<uint16_t*>(to), rows, columns, code_.row_bytes() / 2},
              .code = {layout_.half(), factor}});
    }
    return Received(to, before.size() - kBehind);
  }

  std::vector<float> Decode(const std::vector<std::byte>& encoded, size_t first_column,
                            size_t width, size_t columns) {
    const size_t rows = encoded.size() / code_.row_bytes();
    const std::vector<float> before(rows * columns + kBehind, Ones());
    float* const data = Sent(before);
    const cuda::Matrix<float> to{data, rows, columns, columns};
    executor_.ForEachCell(
        rows, columns, cuda::DecodeCell<float>{{layout_, Sent(encoded)}, first_column, width, to});
    return Received(data, rows * columns);
  }

 private:
  static constexpr size_t kBehind = 64;

  static float Ones() {
    float value;
    std::memset(&value, 0xff, sizeof(value));
    return value;
  }

  template <typename T>
  T* Sent(const std::vector<T>& values) {
    blocks_.push_back(executor_.AllocateDevice(values.size() * sizeof(T)));
    SIMURGH_CHECK(blocks_.back() != nullptr);
    executor_.ToDevice(blocks_.back().get(), values.data(), values.size() * sizeof(T));
    SIMURGH_CHECK(executor_.Synchronize().ok());
    return reinterpret_cast<T*>(blocks_.back().get());
  }

  // The padding must still be all ones.
  template <typename T>
  std::vector<T> Received(const T* device, size_t count) {
    std::vector<T> values(count + kBehind);
    executor_.ToHost(values.data(), device, values.size() * sizeof(T));
    const Status status = executor_.Synchronize();
    SIMURGH_CHECK(status.ok()) << status.ToString();
    const std::vector<std::byte> ones(kBehind * sizeof(T), std::byte{0xff});
    SIMURGH_CHECK(std::memcmp(values.data() + count, ones.data(), ones.size()) == 0);
    values.resize(count);
    return values;
  }

  Executor& executor_;
  const VectorCodec& code_;
  size_t vectors_ = 0;
  cuda::CodeLayout layout_;
  std::vector<cuda::DeviceMemory> blocks_;
};

}  // namespace simurgh::testing
