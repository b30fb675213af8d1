#pragma once

#include "rpc/server.h"
#include "services/api/answer.h"
#include "services/api/checkpoint_methods.h"
#include "services/nn_worker/checkpointer.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Serves `simurgh checkpoint` on rank 0.
//
// Threads: the server's. Lifetime: outlives the server.
class CheckpointService {
 public:
  // checkpointer: null if nothing is saved. Lifetime: outlives the service.
  explicit CheckpointService(Checkpointer* checkpointer) : checkpointer_(checkpointer) {}

  void Register(rpc::Server& server);

 private:
  [[nodiscard]] Reply<api::SaveCheckpoint> OnSave(
      rpc::RequestOf<api::SaveCheckpoint::Request> request);

  Checkpointer* const checkpointer_;
};

}  // namespace simurgh
