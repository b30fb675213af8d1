#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "rpc/server.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_ps/run_guard.h"

namespace simurgh {

// Registers PullRows, PushRows, SaveRows and EndRun. `runs` admits training requests. Ids are
// received into pooled buffers, gradients are read from the transport's buffers, and rows are
// gathered directly into the response. Lifetime: `rows`, `runs` and `buffers` must outlive the RPC
// server.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, RunGuard& runs,
                        BufferPool& buffers, uint64_t map_version);

}  // namespace simurgh
