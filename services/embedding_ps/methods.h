#pragma once

#include "rpc/server.h"
#include "services/embedding_ps/dense_store.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_ps/run_guard.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh {

// Registers PullRows, PushRows, SaveRows and EndRun. `runs` admits training requests. Ids are
// received into pooled buffers, gradients are read from the transport's buffers, and rows are
// gathered directly into the response. Lifetime: `rows`, `runs` and `buffers` must outlive the RPC
// server.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, RunGuard& runs,
                        BufferPool& buffers, uint64_t map_version);

// Registers StartDense, PullDense and PushDense. Gradients are read from the transport's buffers.
// `runs` admits training requests. Lifetime: `store`, `runs` and `buffers` must outlive the server.
void RegisterDenseMethods(rpc::Server& server, DenseStore& store, RunGuard& runs,
                          BufferPool& buffers);

}  // namespace simurgh
