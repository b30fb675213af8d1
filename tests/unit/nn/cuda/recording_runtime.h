#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime.h>

// A CUDA runtime with two devices that runs on the host and checks its caller. Work runs when it is
// enqueued, or when its graph is launched. Vector clocks of streams and events tell which work the
// caller has ordered. The result of a copy to pinned memory appears when the host has waited.
//
// Problems:
// - accesses to the same bytes that no event orders
// - calls that a capture forbids, and captures of more than one stream
// - pinned memory that changes while it is copied, and memory freed in use
// - calls on a stream of another device
//
// Of a kernel it knows the bytes that changed and, as reads, the addresses among its arguments.
//
// Threads: any; a network's calls must come from one thread.
namespace simurgh::testing::recording {

struct Counts {
  size_t graphs = 0;      // Launched.
  size_t nodes = 0;       // In launched graphs.
  size_t kernels = 0;     // Outside graphs.
  size_t host_waits = 0;  // Without queries of events.
  size_t pageable = 0;    // Copies from or to memory that is not pinned.
  size_t captures = 0;    // Begun.
  size_t copied_out = 0;  // Bytes.
  size_t copied_in = 0;   // Bytes.
};

// Forgets counts, problems and injected failures.
void Reset();
Counts TakeCounts();
std::vector<std::string> TakeProblems();
// Memory, streams, events and graphs that were not freed; empty if none.
std::string Leaks();

// Each of the next `captures` is invalidated after `after_nodes` nodes.
void FailCaptures(size_t captures, size_t after_nodes);
// The call fails once, after `after_calls` that succeed.
enum class CaptureCall { kBegin, kInstantiate };
void FailCall(CaptureCall call, size_t after_calls);
// All waits for devices fail with it, as after a kernel's error; cudaSuccess: no longer.
void FailDevices(cudaError_t error);
// Kernels and memsets only count; memory is zero instead of NaN.
void SkipKernels(bool skip);

struct Bytes {
  const void* begin;
  size_t size;
};

// Launches a kernel; as on a device, cudaGetLastError returns an error until it is read. arguments:
// the addresses that the kernel may read.
void Launch(cudaStream_t stream, std::span<const void* const> arguments, std::function<void()> run);

// Work that must not be captured, such as a sum over ranks. Runs it now.
void RunOutsideGraphs(cudaStream_t stream, const Bytes& read, const Bytes& written,
                      const std::function<void()>& run);

}  // namespace simurgh::testing::recording
