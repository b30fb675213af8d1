#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "nn/cuda/device_memory.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/work.h"
#include "simurgh/base/status.h"

namespace simurgh::testing {

// Stands in for a device: runs kernels as loops and products by their definition, on memory of the
// host that is full of NaN when it is given out.
//
// Threads: one owner.
class HostExecutor {
 public:
  struct Options {
    bool fuse = true;      // Epilogues are done with the product; else they are left to kernels.
    bool reverse = false;  // Kernels' calls come in the other order.
  };

  explicit HostExecutor(const Options& options) : options_(options) {}

  cuda::DeviceMemory AllocateDevice(size_t bytes) { return Allocate(bytes); }
  cuda::DeviceMemory AllocatePinned(size_t bytes) { return Allocate(bytes); }

  void ToDevice(void* device, const void* host, size_t bytes) { std::memcpy(device, host, bytes); }
  void ToHost(void* host, const void* device, size_t bytes) { std::memcpy(host, device, bytes); }
  void Zero(void* device, size_t bytes) { std::memset(device, 0, bytes); }
  Status Synchronize(const std::function<Status()>& check = {}) {
    return check ? check() : absl::OkStatus();
  }

  template <typename Enqueue>
  void Run(const cuda::Work&, const Enqueue& enqueue) {
    enqueue();
  }
  void ForgetRuns() {}

  int device() const { return 0; }
  void* stream() const { return nullptr; }
  template <typename Enqueue>
  void Beside(const Enqueue& enqueue) {
    enqueue();
  }
  void JoinSide() {}
  void Mark(cuda::Moment) {}

  int Range(const char*) { return 0; }

  template <typename Kernel>
  void ForEach(size_t count, const Kernel& kernel) {
    for (size_t i = 0; i < count; ++i) kernel(options_.reverse ? count - 1 - i : i);
  }

  template <typename Kernel>
  void ForEachCell(size_t rows, size_t columns, const Kernel& kernel) {
    ForEach(rows * columns, [&](size_t i) { kernel(i / columns, i % columns); });
  }

  // As CudaExecutor's.
  template <typename T, typename Out>
  bool Multiply(const cuda::Gemm<T, Out>& gemm) {
    ForEachCell(gemm.d.rows, gemm.d.columns, cuda::GemmCell<T, Out>(gemm));
    if (gemm.epilogue == cuda::Epilogue::kNone) return true;
    if (!options_.fuse) return false;
    switch (gemm.epilogue) {
      case cuda::Epilogue::kNone:
        return true;
      case cuda::Epilogue::kBias:
      case cuda::Epilogue::kBiasRelu:
      case cuda::Epilogue::kBiasReluMask:
        AddBias(gemm);
        return true;
      case cuda::Epilogue::kReluBackward:
        return ApplyMask(gemm);
      case cuda::Epilogue::kBiasGradient:
        SumRows(gemm);
        return true;
    }
    return true;
  }

 private:
  static cuda::DeviceMemory Allocate(size_t bytes) {
    const size_t whole = (bytes + 255) / 256 * 256;
    auto* block = static_cast<std::byte*>(std::aligned_alloc(256, whole == 0 ? 256 : whole));
    if (block != nullptr) std::memset(block, 0xff, bytes);
    return {block, [](std::byte* memory) { std::free(memory); }};
  }

  static uint8_t& MaskByte(const cuda::ReluMask& mask, size_t row, size_t column) {
    return static_cast<uint8_t*>(mask.bits)[(row * mask.row_bits + column) / 8];
  }

  template <typename T, typename Out>
  static void AddBias(const cuda::Gemm<T, Out>& gemm) {
    const bool relu = gemm.epilogue != cuda::Epilogue::kBias;
    const bool masks = gemm.epilogue == cuda::Epilogue::kBiasReluMask;
    for (size_t row = 0; row < gemm.d.rows; ++row) {
      for (size_t column = 0; column < gemm.d.columns; ++column) {
        Out& value = gemm.d(row, column);
        float sum = cuda::ToFloat(value) + cuda::ToFloat(gemm.bias[column]);
        const bool passes = !relu || !(sum < 0.0F);
        if (!passes) sum = 0.0F;
        cuda::Assign(value, sum);
        if (!masks) continue;
        uint8_t& byte = MaskByte(*gemm.mask, row, column);
        const auto bit = static_cast<uint8_t>(1U << (column % 8));
        byte = static_cast<uint8_t>(sum > 0.0F ? byte | bit : byte & ~bit);
      }
    }
    if (masks) gemm.mask->written = true;
  }

  template <typename T, typename Out>
  static bool ApplyMask(const cuda::Gemm<T, Out>& gemm) {
    if (!gemm.mask->written) return false;
    for (size_t row = 0; row < gemm.d.rows; ++row) {
      for (size_t column = 0; column < gemm.d.columns; ++column) {
        const bool passes = (MaskByte(*gemm.mask, row, column) >> (column % 8) & 1U) != 0;
        if (!passes) cuda::Assign(gemm.d(row, column), 0.0F);
      }
    }
    return true;
  }

  template <typename T, typename Out>
  static void SumRows(const cuda::Gemm<T, Out>& gemm) {
    for (size_t column = 0; column < gemm.d.columns; ++column) {
      double sum = 0;
      for (size_t row = 0; row < gemm.depth; ++row)
        sum += double{cuda::ToFloat(gemm.b(row, column))};
      gemm.bias_gradient[column] = static_cast<float>(sum);
    }
  }

  Options options_;
};

}  // namespace simurgh::testing
