#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "predict/remote_rows.h"
#include "predict/served_versions.h"
#include "rpc/server.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Registers UseVersions and ReadServedRows. Rows are searched and copied on `compute`.
//
// Lifetime: all of these outlive the server.
void RegisterServedRowMethods(rpc::Server& server, const RowShare& share,
                              const ServedVersions& versions, VersionUsers& users,
                              boost::asio::any_io_executor compute, MetricRegistry& metrics);

}  // namespace simurgh
