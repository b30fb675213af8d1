#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "rpc/server.h"
#include "simurgh/serve/remote_rows.h"
#include "simurgh/serve/served_versions.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// The methods of `embedding-ps --serve`. Rows are searched and copied on `compute`.
//
// Lifetime: all of these outlive the server.
void RegisterServedRowMethods(rpc::Server& server, const RowShare& share,
                              const ServedVersions& versions, VersionUsers& users,
                              boost::asio::any_io_executor compute, MetricRegistry& metrics);

// Whether the arguments ask for ServeRows().
bool HasServeFlag(int argc, const char* const* argv);

// `embedding-ps --serve MODEL`: serves a share of a model's rows, read only, until it is stopped.
// Returns the exit code.
int ServeRows(int argc, const char* const* argv);

}  // namespace simurgh
