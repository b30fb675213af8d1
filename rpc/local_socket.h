#pragma once

// Local connections to auto:// addresses. The server also listens on an abstract Unix socket named
// after its TCP endpoint. Like TCP ports, these names belong to the network namespace and any
// process can take one, so each end checks the user of the other.

#include <string>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rpc/async.h"

namespace simurgh::rpc {

// "simurgh-rpc/127.0.0.1:7000" for a server bound to that endpoint.
std::string LocalName(const asio::ip::tcp::endpoint& bound);

asio::generic::stream_protocol::endpoint LocalEndpoint(const std::string& name);

// Names of the servers that `endpoint` reaches: bound to it or to all addresses. Empty if it is not
// on this host.
std::vector<std::string> LocalNames(const asio::ip::tcp::endpoint& endpoint);

// Whether the peer process runs as this process's user or as root; false for TCP.
bool IsOwnUser(asio::generic::stream_protocol::socket& socket);

}  // namespace simurgh::rpc
