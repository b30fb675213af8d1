#include "tests/unit/nn/cuda/recording_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace {

using simurgh::testing::recording::Bytes;
using simurgh::testing::recording::CaptureCall;
using simurgh::testing::recording::Counts;

// By stream: the last of its operations that is ordered before. Numbers are of all streams, as a
// new stream may have the address of an old one.
using Clock = std::map<const CUstream_st*, uint64_t>;

void Join(Clock& clock, const Clock& other) {
  for (const auto& [stream, count] : other) clock[stream] = std::max(clock[stream], count);
}

bool Covers(const Clock& clock, const CUstream_st* stream, uint64_t count) {
  const auto found = clock.find(stream);
  return found != clock.end() && found->second >= count;
}

struct Access {
  const std::byte* begin;
  const std::byte* end;
  bool is_write;
  const CUstream_st* stream;
  uint64_t count;
  const char* what;
};

struct Operation {
  const char* what;
  std::vector<Bytes> reads;
  std::vector<Bytes> writes;
  std::function<void()> run;
  std::vector<const std::byte*> watched;  // Memory whose changes are the kernel's writes.
};

struct Allocation {
  size_t size;
  bool is_pinned;
  std::vector<Access> accesses;
};

// A copy in flight to or from pinned memory.
struct Flight {
  const CUstream_st* stream;
  uint64_t count;
  std::byte* host;
  std::vector<std::byte> bytes;  // What arrives, or what left.
  bool arrives;
};

constexpr size_t kSkipped = 1024;  // Bytes that are compared at once.
constexpr size_t kMergedGap = 64;  // Bytes; an unchanged float does not end a kernel's write.

}  // namespace

struct CUgraph_st {
  std::vector<Operation> nodes;
};
struct CUgraphExec_st {
  std::vector<Operation> nodes;
};
struct CUstream_st {
  int device = 0;
  Clock clock;
  std::unique_ptr<CUgraph_st> capture;
  bool is_invalid = false;  // The capture.
  size_t fails_after = 0;   // Nodes; 0: never.
};
struct CUevent_st {
  Clock clock;
  bool was_asked = false;
};

namespace {

struct Runtime {
  std::mutex mutex;
  Counts counts;
  std::vector<std::string> problems;
  std::map<const std::byte*, Allocation> memory;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> launchables;
  std::vector<Flight> flights;
  size_t failing_captures = 0;
  size_t fails_after = 0;
  std::map<CaptureCall, size_t> failing_calls;  // Calls before the one that fails.
  cudaError_t device_error = cudaSuccess;
  bool skips_kernels = false;
  uint64_t operations = 0;
};

Runtime& Get() {
  static auto* const runtime = new Runtime;  // Outlives static networks.
  return *runtime;
}

using Lock = std::lock_guard<std::mutex>;

// Of the calling thread.
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local Clock host_clock;
thread_local cudaStream_t capturing = nullptr;

void Problem(std::string text) { Get().problems.push_back(std::move(text)); }

std::pair<const std::byte* const, Allocation>* Find(const void* address) {
  auto& memory = Get().memory;
  const auto* at = static_cast<const std::byte*>(address);
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return nullptr;
  --found;
  return at < found->first + found->second.size ? &*found : nullptr;
}

bool IsPinned(const void* address) {
  const auto* found = Find(address);
  return found != nullptr && found->second.is_pinned;
}

// A call that may not be made while the thread captures.
cudaError_t ForbiddenInCapture(const char* what) {
  if (capturing == nullptr) return cudaSuccess;
  Problem(absl::StrCat(what, " during a capture"));
  capturing->is_invalid = true;
  return last_error = cudaErrorStreamCaptureUnsupported;
}

// See FailCall.
bool Fails(CaptureCall call) {
  const auto found = Get().failing_calls.find(call);
  if (found == Get().failing_calls.end() || found->second-- > 0) return false;
  Get().failing_calls.erase(found);
  return true;
}

void Check(const Access& access) {
  auto* const found = Find(access.begin);
  if (found == nullptr) return;
  if (access.end > found->first + found->second.size) {
    Problem(absl::StrCat(access.what, " beyond the end of its memory"));
  }
  for (const Access& other : found->second.accesses) {
    if (other.end <= access.begin || access.end <= other.begin) continue;
    if (!other.is_write && !access.is_write) continue;
    if (other.stream == access.stream || Covers(access.stream->clock, other.stream, other.count)) {
      continue;
    }
    Problem(absl::StrCat("race: ", access.what, access.is_write ? " writes" : " reads",
                         " memory of ", found->second.size, " bytes at ",
                         access.begin - found->first, " that ", other.what,
                         other.is_write ? " writes" : " reads"));
  }
  std::erase_if(found->second.accesses, [&](const Access& other) {
    return other.stream == access.stream && access.begin <= other.begin &&
           other.end <= access.end && (access.is_write || !other.is_write);
  });
  found->second.accesses.push_back(access);
}

// Runs a kernel and finds what it changed.
void RunWatched(const Operation& operation, std::vector<Bytes>& changed) {
  std::vector<std::vector<std::byte>> before;
  for (const std::byte* begin : operation.watched) {
    before.emplace_back(begin, begin + Get().memory.at(begin).size);
  }
  operation.run();
  for (size_t i = 0; i < operation.watched.size(); ++i) {
    const std::byte* const begin = operation.watched[i];
    const std::vector<std::byte>& old = before[i];
    for (size_t at = 0; at < old.size(); ++at) {
      if (at % kSkipped == 0) {
        while (at + kSkipped < old.size() &&
               std::memcmp(old.data() + at, begin + at, kSkipped) == 0) {
          at += kSkipped;
        }
      }
      if (old[at] == begin[at]) continue;
      size_t last = at;
      for (size_t next = at; next < old.size() && next - last <= kMergedGap; ++next) {
        if (old[next] != begin[next]) last = next;
      }
      changed.push_back({begin + at, last + 1 - at});
      at = last;
    }
  }
}

void Execute(cudaStream_t stream, const Operation& operation) {
  Join(stream->clock, host_clock);
  const uint64_t count = stream->clock[stream] = ++Get().operations;
  std::vector<Bytes> writes = operation.writes;
  if (operation.watched.empty()) {
    if (operation.run) operation.run();
  } else {
    RunWatched(operation, writes);
  }
  const auto check = [&](const Bytes& bytes, bool is_write) {
    const auto* begin = static_cast<const std::byte*>(bytes.begin);
    if (bytes.size > 0) {
      Check({begin, begin + bytes.size, is_write, stream, count, operation.what});
    }
  };
  for (const Bytes& bytes : operation.reads) check(bytes, false);
  for (const Bytes& bytes : writes) check(bytes, true);
}

cudaError_t Enqueue(cudaStream_t stream, Operation operation) {
  if (stream->device != current_device) {
    Problem(absl::StrCat(operation.what, " on a stream of another device"));
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture == nullptr) {
    Execute(stream, operation);
    return cudaSuccess;
  }
  if (stream->fails_after > 0 && stream->capture->nodes.size() >= stream->fails_after) {
    stream->is_invalid = true;
  }
  if (stream->is_invalid) return last_error = cudaErrorStreamCaptureInvalidated;
  stream->capture->nodes.push_back(std::move(operation));
  return cudaSuccess;
}

// The host has waited for everything in the clock.
void HostWaited(const Clock& clock) {
  Join(host_clock, clock);
  auto& flights = Get().flights;
  for (const Flight& flight : flights) {
    if (flight.bytes.empty() || !Covers(host_clock, flight.stream, flight.count)) continue;
    if (flight.arrives) {
      std::memcpy(flight.host, flight.bytes.data(), flight.bytes.size());
    } else if (std::memcmp(flight.host, flight.bytes.data(), flight.bytes.size()) != 0) {
      Problem("the host changed memory while it was copied to the device");
    }
  }
  std::erase_if(flights, [](const Flight& flight) {
    return Covers(host_clock, flight.stream, flight.count);
  });
  for (auto& [begin, allocation] : Get().memory) {
    std::erase_if(allocation.accesses, [](const Access& access) {
      return Covers(host_clock, access.stream, access.count);
    });
  }
}

cudaError_t Allocate(void** memory, size_t bytes, bool is_pinned) {
  const Lock lock(Get().mutex);
  const cudaError_t forbidden =
      ForbiddenInCapture(is_pinned ? "allocation of pinned memory" : "allocation");
  if (forbidden != cudaSuccess) return forbidden;
  const size_t whole = (bytes + 255) / 256 * 256;
  *memory = std::aligned_alloc(256, whole);
  if (*memory == nullptr) return last_error = cudaErrorMemoryAllocation;
  std::memset(*memory, Get().skips_kernels ? 0 : 0xff, whole);
  Get().memory[static_cast<std::byte*>(*memory)] = {bytes, is_pinned, {}};
  return cudaSuccess;
}

cudaError_t Free(void* memory) {
  const Lock lock(Get().mutex);
  const cudaError_t forbidden = ForbiddenInCapture("release of memory");
  if (forbidden != cudaSuccess) return forbidden;
  auto* const found = Find(memory);
  if (found == nullptr || found->first != memory) return cudaErrorInvalidValue;
  for (const Access& access : found->second.accesses) {
    if (!Covers(host_clock, access.stream, access.count)) {
      Problem(absl::StrCat("memory freed in use by ", access.what));
      break;
    }
  }
  std::erase_if(Get().flights, [&](const Flight& flight) {
    const auto* begin = static_cast<std::byte*>(memory);
    return begin <= flight.host && flight.host < begin + found->second.size;
  });
  Get().memory.erase(static_cast<std::byte*>(memory));
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

namespace simurgh::testing::recording {

void Reset() {
  Runtime& runtime = Get();
  const Lock lock(runtime.mutex);
  runtime.counts = {};
  runtime.problems.clear();
  runtime.failing_captures = 0;
  runtime.failing_calls.clear();
  runtime.device_error = cudaSuccess;
  runtime.skips_kernels = false;
  last_error = cudaSuccess;
}

Counts TakeCounts() {
  const Lock lock(Get().mutex);
  return std::exchange(Get().counts, {});
}

std::vector<std::string> TakeProblems() {
  const Lock lock(Get().mutex);
  return std::exchange(Get().problems, {});
}

std::string Leaks() {
  const Runtime& runtime = Get();
  const Lock lock(Get().mutex);
  std::string leaks;
  const auto add = [&](const char* what, size_t count) {
    if (count > 0) absl::StrAppend(&leaks, count, " ", what, "; ");
  };
  add("allocations", runtime.memory.size());
  add("streams", runtime.streams.size());
  add("events", runtime.events.size());
  add("graphs", runtime.graphs.size());
  add("launchable graphs", runtime.launchables.size());
  return leaks;
}

void FailCaptures(size_t captures, size_t after_nodes) {
  const Lock lock(Get().mutex);
  Get().failing_captures = captures;
  Get().fails_after = after_nodes;
}

void FailCall(CaptureCall call, size_t after_calls) {
  const Lock lock(Get().mutex);
  Get().failing_calls[call] = after_calls;
}

void FailDevices(cudaError_t error) {
  const Lock lock(Get().mutex);
  Get().device_error = error;
}

void SkipKernels(bool skip) {
  const Lock lock(Get().mutex);
  Get().skips_kernels = skip;
}

void Launch(cudaStream_t stream, std::span<const void* const> arguments,
            std::function<void()> run) {
  const Lock lock(Get().mutex);
  Operation operation{.what = "a kernel"};
  if (!Get().skips_kernels) operation.run = std::move(run);
  for (const void* const address : arguments) {
    const auto* const found = Find(address);
    if (found == nullptr) continue;
    operation.reads.push_back({address, 1});
    if (found->second.is_pinned || !operation.run) continue;
    if (std::ranges::find(operation.watched, found->first) == operation.watched.end()) {
      operation.watched.push_back(found->first);
    }
  }
  if (stream->capture == nullptr) ++Get().counts.kernels;
  const cudaError_t error = Enqueue(stream, std::move(operation));
  if (error != cudaSuccess) last_error = error;
}

void RunOutsideGraphs(cudaStream_t stream, const Bytes& read, const Bytes& written,
                      const std::function<void()>& run) {
  {
    const Lock lock(Get().mutex);
    if (capturing != nullptr) Problem("a sum over ranks during a capture");
    Enqueue(stream, {.what = "a sum over ranks", .reads = {read}, .writes = {written}});
  }
  run();  // Waits for other ranks.
}

}  // namespace simurgh::testing::recording

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  std::snprintf(properties->name, sizeof(properties->name), "recording runtime");
  properties->major = 9;
  properties->minor = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "an error";
  }
}

cudaError_t cudaMalloc(void** memory, size_t bytes) { return Allocate(memory, bytes, false); }
cudaError_t cudaFree(void* memory) { return Free(memory); }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
  return Allocate(memory, bytes, true);
}
cudaError_t cudaFreeHost(void* memory) { return Free(memory); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Lock lock(Get().mutex);
  const bool is_out = kind == cudaMemcpyDeviceToHost;
  auto* const host = static_cast<std::byte*>(is_out ? to : const_cast<void*>(from));
  const bool is_pinned = IsPinned(host);
  (is_out ? Get().counts.copied_out : Get().counts.copied_in) += bytes;
  if (!is_pinned) ++Get().counts.pageable;
  const auto run = [=] {
    if (!is_pinned) {
      std::memcpy(to, from, bytes);
      return;
    }
    const auto* const source = static_cast<const std::byte*>(from);
    Get().flights.push_back({.stream = stream,
                             .count = stream->clock[stream],
                             .host = host,
                             .bytes = {source, source + bytes},
                             .arrives = is_out});
    if (is_out) {
      std::memset(to, 0xff, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  };
  return Enqueue(stream, {.what = is_out ? "a copy to the host" : "a copy to the device",
                          .reads = {{from, bytes}},
                          .writes = {{to, bytes}},
                          .run = run});
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Lock lock(Get().mutex);
  const bool skips = Get().skips_kernels;
  return Enqueue(stream, {.what = "a memset", .writes = {{memory, bytes}}, .run = [=] {
                            if (!skips) std::memset(memory, value, bytes);
                          }});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  const Lock lock(Get().mutex);
  *stream = new CUstream_st{.device = current_device};
  Get().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(Get().mutex);
  Get().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(Get().mutex);
  const cudaError_t forbidden = ForbiddenInCapture("a wait of the host");
  if (forbidden != cudaSuccess) return forbidden;
  ++Get().counts.host_waits;
  HostWaited(stream->clock);
  return Get().device_error;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Lock lock(Get().mutex);
  if (stream->capture != nullptr) {
    Problem("a captured stream waits for an event");
    stream->is_invalid = true;
    return last_error = cudaErrorStreamCaptureIsolation;
  }
  Join(stream->clock, event->clock);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  const Lock lock(Get().mutex);
  *event = new CUevent_st;
  Get().events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(Get().mutex);
  Get().events.erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(Get().mutex);
  if (stream->capture != nullptr) {
    Problem("an event is recorded in a capture");
    stream->is_invalid = true;
    return last_error = cudaErrorStreamCaptureUnsupported;
  }
  return Enqueue(stream, {.what = "an event", .run = [=] {
                            event->clock = stream->clock;
                            event->was_asked = false;
                          }});
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(Get().mutex);
  const cudaError_t forbidden = ForbiddenInCapture("a query of an event");
  if (forbidden != cudaSuccess) return forbidden;
  if (Get().device_error != cudaSuccess) return Get().device_error;
  if (!std::exchange(event->was_asked, true)) return cudaErrorNotReady;
  HostWaited(event->clock);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(Get().mutex);
  const cudaError_t forbidden = ForbiddenInCapture("a wait of the host");
  if (forbidden != cudaSuccess) return forbidden;
  ++Get().counts.host_waits;
  HostWaited(event->clock);
  return Get().device_error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const Lock lock(Get().mutex);
  if (capturing != nullptr) return cudaErrorInvalidValue;
  if (Fails(CaptureCall::kBegin)) return last_error = cudaErrorMemoryAllocation;
  ++Get().counts.captures;
  stream->capture = std::make_unique<CUgraph_st>();
  stream->is_invalid = false;
  stream->fails_after = 0;
  if (Get().failing_captures > 0) {
    --Get().failing_captures;
    stream->fails_after = Get().fails_after;
    stream->is_invalid = stream->fails_after == 0;
  }
  capturing = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(Get().mutex);
  if (stream->capture == nullptr) return last_error = cudaErrorInvalidValue;
  capturing = nullptr;
  std::unique_ptr<CUgraph_st> captured = std::move(stream->capture);
  if (stream->is_invalid) return last_error = cudaErrorStreamCaptureInvalidated;
  *graph = captured.release();
  Get().graphs.insert(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* /*nodes*/, size_t* count) {
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(Get().mutex);
  Get().graphs.erase(graph);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* launchable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  const Lock lock(Get().mutex);
  if (Fails(CaptureCall::kInstantiate)) return last_error = cudaErrorMemoryAllocation;
  *launchable = new CUgraphExec_st{graph->nodes};
  Get().launchables.insert(*launchable);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t launchable, cudaStream_t stream) {
  const Lock lock(Get().mutex);
  if (stream->device != current_device) {
    Problem("a graph on a stream of another device");
    return cudaErrorInvalidResourceHandle;
  }
  ++Get().counts.graphs;
  Get().counts.nodes += launchable->nodes.size();
  for (const Operation& node : launchable->nodes) Execute(stream, node);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t launchable) {
  const Lock lock(Get().mutex);
  Get().launchables.erase(launchable);
  delete launchable;
  return cudaSuccess;
}
