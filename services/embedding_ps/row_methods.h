#pragma once

#include "rpc/server.h"
#include "services/embedding_ps/parameter_server.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh {

// Registers PullRows and PushRows. Ids are received into pooled buffers, gradients are read from
// the transport's buffers, and rows are gathered directly into the response. Lifetime: `rows` and
// `buffers` must outlive the RPC server.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, BufferPool& buffers,
                        uint64_t map_version);

}  // namespace simurgh
