#pragma once

#include "base/aligned_buffer.h"
#include "rpc/server.h"
#include "services/embedding_ps/dense_store.h"
#include "services/embedding_ps/run_guard.h"

namespace simurgh {

// Registers StartDense, PullDense and PushDense. Gradients are read from the transport's buffers.
// `runs` admits training requests. Lifetime: `store`, `runs` and `buffers` must outlive the server.
void RegisterDenseMethods(rpc::Server& server, DenseStore& store, RunGuard& runs,
                          BufferPool& buffers);

}  // namespace simurgh
