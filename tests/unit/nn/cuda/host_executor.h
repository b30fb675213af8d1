#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/work.h"
#include "tests/unit/nn/cuda/fake_cublas_lt.h"
#include "tests/unit/nn/cuda/simulated_lanes.h"

namespace simurgh::testing {

// Simulates a device on the host: runs kernels as loops and products through GemmLibrary on
// FakeCublasLt, on memory that is initially NaN. Runs work at once or, with lanes, in any order
// that events allow.
//
// Threads: one owner.
class HostExecutor {
 public:
  struct Options {
    bool fuse = true;        // Fuse epilogues with products; else kernels compute them.
    bool fuse_masks = true;  // Also relu with its mask.
    bool takes = true;       // Else a kernel computes products.
    bool reverse = false;    // Call kernels in reverse order.
    bool replays = false;    // Replay repeated work as captured in its second call, like a graph.
    bool fails_captures = false;
    size_t score_floats = size_t{1} << 20;
    std::optional<uint64_t> lanes;  // The seed of SimulatedLanes.
    ComputePrecision precision = ComputePrecision::kF32;
    size_t* kept_runs = nullptr;    // Output: number of captured graphs.
    size_t* replayed = nullptr;     // Output: number of replayed training passes.
    size_t* allocations = nullptr;  // Output: number of device allocations.
    const bool* is_full = nullptr;  // While true, device allocations fail.
    std::vector<FakeCublasLt::Product>* products =
        nullptr;  // Output: the last call's and all before.
  };

  explicit HostExecutor(const Options& options)
      : options_(options),
        lt_({.fuse = options.fuse,
             .fuse_masks = options.fuse_masks,
             .takes = options.takes,
             .enqueue = [this](std::function<void()> work) { Do(std::move(work)); }}) {
    if (options.lanes) lanes_.emplace(*options.lanes);
    auto library = cuda::GemmLibrary::Create(
        lt_.functions(), {.precision = options.precision, .choose = {}, .allocate = NewBlock});
    SIMURGH_CHECK(library.ok()) << library.status().ToString();
    library_ = *std::move(library);
  }
  HostExecutor(const HostExecutor&) = delete;
  HostExecutor& operator=(const HostExecutor&) = delete;

  void MakeCurrent() {}
  size_t score_floats() const { return options_.score_floats; }

  cuda::DeviceMemory AllocateDevice(size_t bytes) {
    if (options_.allocations != nullptr) ++*options_.allocations;
    if (options_.is_full != nullptr && *options_.is_full) return cuda::NoMemory();
    return Allocate(bytes);
  }
  cuda::DeviceMemory AllocatePinned(size_t bytes) { return Allocate(bytes); }

  void ToDevice(void* device, const void* host, size_t bytes) {
    if (bytes > 0) Do([=] { std::memcpy(device, host, bytes); });
  }
  void ToHost(void* host, const void* device, size_t bytes) {
    if (bytes > 0) Do([=] { std::memcpy(host, device, bytes); });
  }
  void Zero(void* device, size_t bytes) {
    if (bytes > 0) Do([=] { std::memset(device, 0, bytes); });
  }
  Status Synchronize() {
    if (lanes_) lanes_->RunTo(cuda::Lane::kCompute);
    return absl::OkStatus();
  }
  void Drain() {
    if (lanes_) lanes_->RunAll();
  }

  template <typename Enqueue>
  void On(cuda::Lane lane, const Enqueue& enqueue) {
    const cuda::Lane before = std::exchange(lane_, lane);
    enqueue();
    lane_ = before;
  }
  void Signal(const cuda::Event& event) {
    if (lanes_) lanes_->Signal(lane_, event);
  }
  void Await(const cuda::Event& event) {
    if (lanes_) lanes_->Await(lane_, event);
  }
  Status WaitFor(const cuda::Event& event, const std::function<Status()>& check = {}) {
    if (lanes_) lanes_->RunTo(event);
    return check ? check() : absl::OkStatus();
  }

  template <typename Enqueue>
  void Run(const cuda::Work& work, const Enqueue& enqueue) {
    const auto [run, is_new] = runs_.try_emplace(work);
    CountRuns();
    if (is_new || !options_.replays) return enqueue();
    std::vector<Captured>& captured = run->second;
    if (captured.empty()) {
      capturing_ = &captured;
      enqueue();
      capturing_ = nullptr;
      if (options_.fails_captures) {
        options_.replays = false;
        return enqueue();
      }
    } else if (options_.replayed != nullptr && work.kind == cuda::Work::kTrain) {
      ++*options_.replayed;
    }
    for (const Captured& one : captured) one.is_between ? one.work() : Do(one.work);
  }
  void Between(std::function<void()> enqueue) {
    if (capturing_ == nullptr) return enqueue();
    capturing_->push_back({std::move(enqueue), true});
  }
  void ForgetRuns() {
    Drain();
    runs_.clear();
    CountRuns();
  }

  int device() const { return 0; }
  // The executor, for sums over ranks.
  void* stream() { return this; }
  void Enqueue(std::function<void()> work) { Do(std::move(work)); }

  int Range(const char*) { return 0; }

  template <typename Kernel>
  void ForEach(size_t count, const Kernel& kernel) {
    Do([kernel, count, reverse = options_.reverse] {
      for (size_t i = 0; i < count; ++i) kernel(reverse ? count - 1 - i : i);
    });
  }

  template <typename Kernel>
  void ForEachCell(size_t rows, size_t columns, const Kernel& kernel) {
    if constexpr (cuda::PackKernel<Kernel>) {
      if (kernel.Packs()) return ForEachPack<Kernel::kPack>(rows, columns, kernel);
      ForEachPack<1>(rows, columns, kernel);
    } else {
      ForEach(rows * columns, [=](size_t i) { kernel(i / columns, i % columns); });
    }
  }

  template <typename Kernel>
  void ForEachSum(size_t count, const Kernel& kernel) {
    ForEach(count, [=](size_t i) {
      float sums[cuda::kSumLanes];
      for (size_t lane = 0; lane < cuda::kSumLanes; ++lane) sums[lane] = kernel.Lane(i, lane);
      // As a warp's shuffles.
      for (size_t step = cuda::kSumLanes / 2; step > 0; step /= 2) {
        for (size_t lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
      }
      kernel.Finish(i, sums[0]);
    });
  }

  template <typename Kernel>
  void ForEachBlock(size_t count, const Kernel& kernel) {
    ForEach(count, [=, reverse = options_.reverse](size_t i) {
      const cuda::DeviceMemory block = Allocate(kernel.bytes());
      const auto for_each = [reverse](size_t end, const auto& call) {
        for (size_t k = 0; k < end; ++k) call(reverse ? end - 1 - k : k);
      };
      for_each(kernel.fills(), [&](size_t k) { kernel.Fill(i, k, block.get()); });
      for_each(kernel.cells(), [&](size_t k) { kernel.Cell(i, k, block.get()); });
    });
  }

  // As CudaExecutor's.
  template <typename T, typename Out>
  bool Multiply(const cuda::Gemm<T, Out>& gemm) {
    const auto outcome = library_->Multiply(gemm, nullptr);
    SIMURGH_CHECK(outcome.ok()) << outcome.status().ToString();
    SIMURGH_CHECK(lt_.rejections().empty()) << lt_.rejections().front();
    if (options_.products != nullptr) *options_.products = lt_.products();
    if (*outcome == cuda::GemmLibrary::Outcome::kNotTaken) {
      ForEachCell(gemm.d.rows, gemm.d.columns, cuda::GemmCell<T, Out>{gemm});
      return gemm.epilogue == cuda::Epilogue::kNone;
    }
    return *outcome == cuda::GemmLibrary::Outcome::kFused;
  }

 private:
  struct Captured {
    std::function<void()> work;
    bool is_between = false;
  };

  // Runs work now, or in the present lane, or at each replay.
  template <typename Function>
  void Do(Function function) {
    if (capturing_ != nullptr) return capturing_->push_back({std::move(function)});
    if (lanes_) return lanes_->Enqueue(lane_, std::move(function));
    function();
  }

  template <size_t N, typename Kernel>
  void ForEachPack(size_t rows, size_t columns, const Kernel& kernel) {
    const size_t packs = (columns + N - 1) / N;
    ForEach(rows * packs,
            [=](size_t i) { cuda::RunPack<N>(kernel, i / packs, i % packs * N, columns); });
  }

  void CountRuns() {
    if (options_.kept_runs != nullptr) *options_.kept_runs = runs_.size();
  }

  static cuda::DeviceMemory NewBlock(size_t bytes) {
    const size_t whole = (bytes + 255) / 256 * 256;
    auto* block = static_cast<std::byte*>(std::aligned_alloc(256, whole == 0 ? 256 : whole));
    return {block, [](std::byte* memory) { std::free(memory); }};
  }
  static cuda::DeviceMemory Allocate(size_t bytes) {
    cuda::DeviceMemory block = NewBlock(bytes);
    if (block != nullptr) std::memset(block.get(), 0xff, bytes);
    return block;
  }

  Options options_;
  FakeCublasLt lt_;
  std::unique_ptr<cuda::GemmLibrary> library_;
  std::optional<SimulatedLanes> lanes_;
  std::map<cuda::Work, std::vector<Captured>> runs_;  // Empty: enqueued once.
  std::vector<Captured>* capturing_ = nullptr;
  cuda::Lane lane_ = cuda::Lane::kCompute;
};

}  // namespace simurgh::testing
