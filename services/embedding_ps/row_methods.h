#pragma once

#include "rpc/server.h"
#include "services/embedding_ps/parameter_server.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh {

// Registers PullRows and PushRows: requests are received into pooled buffers, rows are gathered
// straight into the response. Lifetime: server, rows and buffers must outlive the RPC server.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, BufferPool& buffers,
                        uint64_t map_version);

}  // namespace simurgh
