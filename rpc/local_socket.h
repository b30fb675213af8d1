#pragma once

// How ends of an auto:// address that share a host find each other: beside its TCP port a server
// listens on a Unix socket in the abstract name space, under a name made of the TCP endpoint. Like
// TCP ports these names belong to the network name space, and anybody may take one; so each end
// makes sure that the other is of its own user.

#include <string>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rpc/async.h"

namespace simurgh::rpc {

// "simurgh-rpc/127.0.0.1:7000" for a server bound to that endpoint.
std::string LocalName(const asio::ip::tcp::endpoint& bound);

asio::generic::stream_protocol::endpoint LocalEndpoint(const std::string& name);

// Names of servers that are reached at `endpoint`: bound to it or to all addresses. Empty when it
// is not on this host.
std::vector<std::string> LocalNames(const asio::ip::tcp::endpoint& endpoint);

// Whether the process at the other end runs as our user or as root; false for TCP.
bool IsOwnUser(asio::generic::stream_protocol::socket& socket);

}  // namespace simurgh::rpc
