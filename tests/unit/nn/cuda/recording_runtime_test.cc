#include "tests/unit/nn/cuda/recording_runtime.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

// That the recording runtime sees what it promises to see.
namespace simurgh::testing {
namespace {

constexpr size_t kBytes = 64;

// Two streams, an event and memory of the first device.
struct Device {
  Device() {
    recording::Reset();
    cudaSetDevice(0);
    for (cudaStream_t& stream : streams) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(&memory, kBytes);
    cudaHostAlloc(&pinned, kBytes, cudaHostAllocPortable);
  }
  ~Device() {
    for (cudaStream_t stream : streams) cudaStreamSynchronize(stream);
    cudaFree(memory);
    cudaFreeHost(pinned);
    cudaEventDestroy(event);
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
    CHECK(recording::Leaks() == "");
    recording::Reset();
  }

  cudaStream_t streams[2] = {};
  cudaEvent_t event = nullptr;
  void* memory = nullptr;
  void* pinned = nullptr;
};

// The only problem begins with the text.
void CheckProblem(const std::string& text) {
  const std::vector<std::string> problems = recording::TakeProblems();
  CAPTURE(problems, text);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].starts_with(text));
}

TEST_CASE("work of two streams races unless an event orders it") {
  Device device;
  const bool ordered = GENERATE(false, true);
  cudaMemsetAsync(device.memory, 1, kBytes, device.streams[0]);
  cudaEventRecord(device.event, device.streams[0]);
  if (ordered) cudaStreamWaitEvent(device.streams[1], device.event);
  cudaMemcpyAsync(device.pinned, device.memory, kBytes, cudaMemcpyDeviceToHost, device.streams[1]);
  if (!ordered) return CheckProblem("race: a copy to the host reads memory of 64 bytes at 0");
  CHECK(recording::TakeProblems().empty());
}

TEST_CASE("a kernel's writes are the bytes that it changed") {
  Device device;
  auto* const bytes = static_cast<std::byte*>(device.memory);
  const void* const argument = bytes;
  recording::Launch(device.streams[0], {&argument, 1}, [=] { bytes[40] = std::byte{7}; });
  const size_t at = GENERATE(40, 41);
  cudaMemsetAsync(bytes + at, 0, 1, device.streams[1]);
  if (at == 40) return CheckProblem("race: a memset writes");
  CHECK(recording::TakeProblems().empty());
}

TEST_CASE("a copy's result appears when the host has waited") {
  Device device;
  cudaMemsetAsync(device.memory, 1, kBytes, device.streams[0]);
  cudaMemcpyAsync(device.pinned, device.memory, kBytes, cudaMemcpyDeviceToHost, device.streams[0]);
  CHECK(*static_cast<uint8_t*>(device.pinned) == 0xff);
  cudaStreamSynchronize(device.streams[1]);
  CHECK(*static_cast<uint8_t*>(device.pinned) == 0xff);
  cudaStreamSynchronize(device.streams[0]);
  CHECK(*static_cast<uint8_t*>(device.pinned) == 1);
}

TEST_CASE("memory in use may neither change on the host nor be freed") {
  Device device;
  cudaMemcpyAsync(device.memory, device.pinned, kBytes, cudaMemcpyHostToDevice, device.streams[0]);
  SECTION("changed") {
    std::memset(device.pinned, 0, kBytes);
    cudaStreamSynchronize(device.streams[0]);
    CheckProblem("the host changed memory");
  }
  SECTION("freed") {
    cudaFree(device.memory);
    device.memory = nullptr;
    CheckProblem("memory freed in use");
  }
}

TEST_CASE("calls that a capture forbids invalidate it") {
  Device device;
  const int call = GENERATE(range(0, 6));
  cudaStreamBeginCapture(device.streams[0], cudaStreamCaptureModeThreadLocal);
  void* memory = nullptr;
  switch (call) {
    case 0:
      CHECK(cudaMalloc(&memory, 1) == cudaErrorStreamCaptureUnsupported);
      break;
    case 1:
      CHECK(cudaHostAlloc(&memory, 1, 0) == cudaErrorStreamCaptureUnsupported);
      break;
    case 2:
      CHECK(cudaStreamSynchronize(device.streams[1]) == cudaErrorStreamCaptureUnsupported);
      break;
    case 3:
      CHECK(cudaEventQuery(device.event) == cudaErrorStreamCaptureUnsupported);
      break;
    case 4:
      CHECK(cudaEventRecord(device.event, device.streams[0]) == cudaErrorStreamCaptureUnsupported);
      break;
    default:
      CHECK(cudaStreamWaitEvent(device.streams[0], device.event) ==
            cudaErrorStreamCaptureIsolation);
      break;
  }
  CHECK(recording::TakeProblems().size() == 1);
  // Launches into it fail, and the error stays until it is read.
  recording::Launch(device.streams[0], {}, [] { FAIL("a captured kernel ran"); });
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaGetLastError() == cudaSuccess);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(device.streams[0], &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
}

TEST_CASE("streams of another device, copies of ordinary memory and leaks are reported") {
  Device device;
  cudaSetDevice(1);
  cudaMemsetAsync(device.memory, 0, kBytes, device.streams[0]);
  cudaSetDevice(0);
  CheckProblem("a memset on a stream of another device");
  const std::vector<std::byte> ordinary(kBytes);
  cudaMemcpyAsync(device.memory, ordinary.data(), kBytes, cudaMemcpyHostToDevice,
                  device.streams[0]);
  CHECK(recording::TakeCounts().pageable == 1);
  CHECK(recording::Leaks() == "2 allocations; 2 streams; 1 events; ");
}

}  // namespace
}  // namespace simurgh::testing
