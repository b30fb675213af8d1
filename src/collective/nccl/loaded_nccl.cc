#include <cstring>
#include <string>

#include <nccl.h>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/system_library.h"
#include "collective/nccl_library.h"

namespace simurgh {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

// Resolved at run time, so a program built with NCCL also starts without the library.
struct Functions {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclCommCount) count;
  decltype(&ncclCommUserRank) user_rank;
};

bool FindAll(void* library, Functions* nccl) {
  return FindFunction(library, "ncclGetUniqueId", &nccl->get_unique_id) &&
         FindFunction(library, "ncclCommInitRankConfig", &nccl->init) &&
         FindFunction(library, "ncclCommGetAsyncError", &nccl->async_error) &&
         FindFunction(library, "ncclCommAbort", &nccl->abort) &&
         FindFunction(library, "ncclCommFinalize", &nccl->finalize) &&
         FindFunction(library, "ncclCommDestroy", &nccl->destroy) &&
         FindFunction(library, "ncclGetErrorString", &nccl->error_string) &&
         FindFunction(library, "ncclGetLastError", &nccl->last_error) &&
         FindFunction(library, "ncclAllReduce", &nccl->all_reduce) &&
         FindFunction(library, "ncclAllGather", &nccl->all_gather) &&
         FindFunction(library, "ncclSend", &nccl->send) &&
         FindFunction(library, "ncclRecv", &nccl->receive) &&
         FindFunction(library, "ncclGroupStart", &nccl->group_start) &&
         FindFunction(library, "ncclGroupEnd", &nccl->group_end) &&
         FindFunction(library, "ncclCommCount", &nccl->count) &&
         FindFunction(library, "ncclCommUserRank", &nccl->user_rank);
}

ncclComm_t CommOf(NcclLibrary::Handle handle) { return static_cast<ncclComm_t>(handle); }
cudaStream_t StreamOf(void* stream) { return static_cast<cudaStream_t>(stream); }

class LoadedNccl final : public NcclLibrary {
 public:
  explicit LoadedNccl(const Functions& functions) : nccl_(functions) {}

  StatusOr<NcclId> NewId() override {
    ncclUniqueId made;
    SIMURGH_RETURN_IF_ERROR(StatusOf(nccl_.get_unique_id(&made), nullptr));
    NcclId id;
    std::memcpy(id.data(), &made, sizeof(made));
    return id;
  }

  StatusOr<Handle> Connect(const NcclId& id, uint32_t rank, uint32_t ranks, int device) override {
    const cudaError_t chosen = cudaSetDevice(device);
    if (chosen != cudaSuccess) {
      return absl::InternalError(absl::StrCat("CUDA: cudaSetDevice: ", cudaGetErrorString(chosen)));
    }
    ncclUniqueId group;
    std::memcpy(&group, id.data(), sizeof(group));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    SIMURGH_RETURN_IF_ERROR(
        StatusOf(nccl_.init(&comm, static_cast<int>(ranks), group, static_cast<int>(rank), &config),
                 nullptr));
    return static_cast<Handle>(comm);
  }

  Progress StateOf(Handle handle) override {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = nccl_.async_error(CommOf(handle), &result);
    if (asked != ncclSuccess) result = asked;
    if (result == ncclSuccess) return {State::kDone, ""};
    if (result == ncclInProgress) return {State::kInProgress, ""};
    return {State::kFailed, Explain(result, CommOf(handle))};
  }

  void Abort(Handle handle) override { nccl_.abort(CommOf(handle)); }

  Status Finish(Handle handle) override {
    return StatusOf(nccl_.finalize(CommOf(handle)), CommOf(handle));
  }

  void Free(Handle handle) override {
    const Status freed = StatusOf(nccl_.destroy(CommOf(handle)), nullptr);
    if (!freed.ok()) {
      spdlog::warn("NCCL: cannot free a communicator: {}", std::string(freed.message()));
    }
  }

  Status Sum(Handle handle, std::span<float> values, void* stream) override {
    return AllReduce(handle, values.data(), values.size(), ncclFloat32, stream);
  }
  Status Sum(Handle handle, std::span<double> values, void* stream) override {
    return AllReduce(handle, values.data(), values.size(), ncclFloat64, stream);
  }

  Status Exchange(Handle handle, const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                  void* stream) override {
    const ncclComm_t comm = CommOf(handle);
    int ranks = 0;
    int own = 0;
    SIMURGH_RETURN_IF_ERROR(StatusOf(nccl_.count(comm, &ranks), comm));
    SIMURGH_RETURN_IF_ERROR(StatusOf(nccl_.user_rank(comm, &own), comm));
    SIMURGH_RETURN_IF_ERROR(StatusOf(nccl_.group_start(), comm));
    Status queued = absl::OkStatus();
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == own) continue;
      const size_t offset = part_bytes * static_cast<size_t>(peer);
      queued.Update(StatusOf(
          nccl_.send(outgoing + offset, part_bytes, ncclUint8, peer, comm, StreamOf(stream)),
          comm));
      queued.Update(StatusOf(
          nccl_.receive(incoming + offset, part_bytes, ncclUint8, peer, comm, StreamOf(stream)),
          comm));
    }
    // NCCL requires the end of the group even after an error.
    queued.Update(StatusOf(nccl_.group_end(), comm));
    return queued;
  }

  Status Gather(Handle handle, std::span<const std::byte> own, std::byte* all,
                void* stream) override {
    const ncclComm_t comm = CommOf(handle);
    return StatusOf(
        nccl_.all_gather(own.data(), all, own.size(), ncclUint8, comm, StreamOf(stream)), comm);
  }

 private:
  Status AllReduce(Handle handle, void* values, size_t count, ncclDataType_t type, void* stream) {
    const ncclComm_t comm = CommOf(handle);
    return StatusOf(nccl_.all_reduce(values, values, count, type, ncclSum, comm, StreamOf(stream)),
                    comm);
  }

  std::string Explain(ncclResult_t result, ncclComm_t comm) const {
    const char* last = nccl_.last_error(comm);
    return absl::StrCat(nccl_.error_string(result), last == nullptr || *last == 0 ? "" : ": ",
                        last == nullptr ? "" : last);
  }

  Status StatusOf(ncclResult_t result, ncclComm_t comm) const {
    if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("NCCL: ", Explain(result, comm)));
  }

  const Functions nccl_;
};

StatusOr<NcclLibrary*> LoadOnce() {
  Functions functions{};
  SIMURGH_RETURN_IF_ERROR(LoadLibrary("NCCL", "libnccl.so.2",
                                      [&](void* library) { return FindAll(library, &functions); }));
  static LoadedNccl loaded(functions);
  return &loaded;
}

}  // namespace

StatusOr<NcclLibrary*> LoadNccl() {
  static const StatusOr<NcclLibrary*> loaded = LoadOnce();
  return loaded;
}

}  // namespace simurgh
