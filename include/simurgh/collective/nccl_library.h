#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "simurgh/base/status.h"

namespace simurgh {

// Names a group of ranks before it exists. Made by one of them for all.
using NcclId = std::array<std::byte, 128>;

// What is asked of NCCL, so that tests stand in for it. No call waits for another rank: what it has
// begun is done when StateOf says so. On a stream (a cudaStream_t) it is enqueued then.
//
// Errors: INTERNAL, with NCCL's own words.
// Threads: one at a time for a communicator; communicators know nothing of one another.
class NcclLibrary {
 public:
  // An ncclComm_t.
  using Handle = void*;

  enum class State : uint8_t { kDone, kInProgress, kFailed };
  struct Progress {
    State state = State::kDone;
    std::string error;  // kFailed: why, with NCCL's own words.
  };

  virtual ~NcclLibrary() = default;

  virtual StatusOr<NcclId> NewId() = 0;

  // Begins to connect with the others of the group, for CUDA device `device`.
  virtual StatusOr<Handle> Connect(const NcclId& id, uint32_t rank, uint32_t ranks, int device) = 0;
  // Of the last call, and of what has gone on since on the streams.
  virtual Progress StateOf(Handle handle) = 0;
  // Ends what is under way, on the streams too, and frees the handle.
  virtual void Abort(Handle handle) = 0;
  // Frees a handle of which nothing is under way.
  virtual void Free(Handle handle) = 0;

  // All memory is the device's. Sum: in place. Exchange: part r goes to rank r, and comes
  // from it.
  virtual Status Sum(Handle handle, std::span<float> values, void* stream) = 0;
  virtual Status Sum(Handle handle, std::span<double> values, void* stream) = 0;
  // Not with the own rank.
  virtual Status Exchange(Handle handle, const std::byte* outgoing, std::byte* incoming,
                          size_t part_bytes, void* stream) = 0;
  virtual Status Gather(Handle handle, std::span<const std::byte> own, std::byte* all,
                        void* stream) = 0;
};

// NCCL itself, loaded when it is first asked for; it stays loaded.
// Errors: NOT_FOUND where it is not installed, or this program was built without it.
// Threads: any.
StatusOr<NcclLibrary*> LoadNccl();

}  // namespace simurgh
