#pragma once

#include "rpc/server.h"
#include "services/embedding_worker/embedding_worker.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh {

// Registers SubmitBatch, PullBatch and PushBatch.
// Lifetime: worker and buffers must outlive the server.
void RegisterBatchMethods(rpc::Server& server, EmbeddingWorker& worker, BufferPool& buffers);

}  // namespace simurgh
