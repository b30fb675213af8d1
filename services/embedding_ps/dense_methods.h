#pragma once

#include "rpc/server.h"
#include "services/embedding_ps/dense_store.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh {

// Registers StartDense, PullDense and PushDense. Gradients are read from the transport's buffers.
// Lifetime: `store` and `buffers` must outlive the RPC server.
void RegisterDenseMethods(rpc::Server& server, DenseStore& store, BufferPool& buffers);

}  // namespace simurgh
