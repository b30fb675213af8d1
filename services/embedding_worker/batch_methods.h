#pragma once

#include "rpc/server.h"
#include "services/embedding_worker/embedding_worker.h"

namespace simurgh {

// Registers SubmitBatch, PullBatch and PushBatch.
// Lifetime: the worker must outlive the server.
void RegisterBatchMethods(rpc::Server& server, EmbeddingWorker& worker);

}  // namespace simurgh
