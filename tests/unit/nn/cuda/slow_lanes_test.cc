#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include <cuda_runtime.h>

#include <catch2/catch.hpp>

#include "tests/support/waiting.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"

// Overlapping batches while one lane of the device is slow: work that does not wait for an event
// then reads values of another batch. A sleeping host function delays a lane, as a slow kernel
// would: work that follows it in the stream waits for either. The linker wraps two functions of the
// runtime.
namespace simurgh::testing {
namespace {

// Of this thread, as other tests have networks in threads.
thread_local std::vector<cudaStream_t> created;
thread_local std::optional<size_t> slow;  // Index of a created stream.
thread_local size_t delays = 0;

void Delay(void* /*unused*/) { Pause(std::chrono::microseconds(200)); }

}  // namespace
}  // namespace simurgh::testing

extern "C" {

cudaError_t __real_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const cudaError_t error = __real_cudaStreamCreateWithFlags(stream, flags);
  simurgh::testing::created.push_back(*stream);
  return error;
}

// Delays the work that follows the wait.
cudaError_t __real_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  using namespace simurgh::testing;
  const cudaError_t error = __real_cudaStreamWaitEvent(stream, event, flags);
  if (error != cudaSuccess || !slow || created.at(*slow) != stream) return error;
  ++delays;
  return cudaLaunchHostFunc(stream, Delay, nullptr);
}

}  // extern "C"

namespace simurgh::testing {
namespace {

constexpr int kRuns = 20;
constexpr size_t kLanes = 3;

TEST_CASE("batches that overlap give the bits of batches that do not while one lane is slow") {
  const bool rows_travel = GENERATE(false, true);
  const bool replays = GENERATE(false, true);
  CAPTURE(rows_travel, replays);
  const auto precision = rows_travel ? ComputePrecision::kF32 : ComputePrecision::kBf16;
  EmbeddingWire wire;
  if (rows_travel) wire = {.dims = {4, 3, 4, 4, 5, 2, 1, 1}, .rows = EveryPooling()};
  const RowCodec codec(VectorPrecision::kF32, wire.rows);
  const RowCodec* const rows = rows_travel ? &codec : nullptr;
  created.clear();
  const auto sequential = WiredNetwork(precision, wire, false);
  const BlockRun expected = TrainInBlocks(*sequential, Overlap::kNone, rows);
  const size_t streams = created.size();
  size_t slowed = 0;
  for (size_t stream = 0; stream < streams; ++stream) {
    delays = 0;
    for (int run = 0; run < kRuns; ++run) {
      CAPTURE(stream, run);
      created.clear();
      const auto network = WiredNetwork(precision, wire, replays);
      slow = stream;
      const Overlap overlap = run % 2 == 0 ? Overlap::kCopies : Overlap::kPasses;
      CheckSameRuns(TrainInBlocks(*network, overlap, rows), expected);
      slow.reset();
    }
    slowed += delays > 0 ? 1 : 0;
  }
  CHECK(slowed >= kLanes);
}

}  // namespace
}  // namespace simurgh::testing
