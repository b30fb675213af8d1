#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace simurgh {

// Identifies a group of ranks. One rank creates it before the group connects.
using NcclId = std::array<std::byte, 128>;

// The part of NCCL's API in use, which tests replace. No call waits for another rank: a call is
// complete (enqueued on its cudaStream_t) when StateOf returns kDone.
//
// Errors: INTERNAL, with NCCL's message.
// Threads: one at a time per communicator.
class NcclLibrary {
 public:
  // An ncclComm_t.
  using Handle = void*;

  enum class State : uint8_t { kDone, kInProgress, kFailed };
  struct Progress {
    State state = State::kDone;
    std::string error;  // kFailed: NCCL's message.
  };

  virtual ~NcclLibrary() = default;

  virtual StatusOr<NcclId> NewId() = 0;

  // Starts to connect CUDA device `device` to the other ranks of the group.
  virtual StatusOr<Handle> Connect(const NcclId& id, uint32_t rank, uint32_t ranks, int device) = 0;
  // State of the last call and of work enqueued on the streams.
  virtual Progress StateOf(Handle handle) = 0;
  // Ends calls in progress and enqueued work, and frees the handle.
  virtual void Abort(Handle handle) = 0;
  // Ends the use of the handle on all ranks; Free must follow.
  virtual Status Finish(Handle handle) = 0;
  // Frees a handle after Finish.
  virtual void Free(Handle handle) = 0;

  // Device memory, as in DeviceSums. Exchange skips the rank's own part.
  virtual Status Sum(Handle handle, std::span<float> values, void* stream) = 0;
  virtual Status Sum(Handle handle, std::span<double> values, void* stream) = 0;
  virtual Status Exchange(Handle handle, const std::byte* outgoing, std::byte* incoming,
                          size_t part_bytes, void* stream) = 0;
  virtual Status Gather(Handle handle, std::span<const std::byte> own, std::byte* all,
                        void* stream) = 0;
};

// Loads NCCL on the first call; it stays loaded.
// Errors: NOT_FOUND if NCCL is not installed, or this program was built without it.
// Threads: any.
StatusOr<NcclLibrary*> LoadNccl();

}  // namespace simurgh
