#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "rpc/async.h"
#include "simurgh/base/status.h"

namespace simurgh {

struct TcpListener {
  boost::asio::ip::tcp::acceptor acceptor;
  std::string address;  // The numeric "host:port".
  bool is_loopback = false;
};

// Listens for plain connections. address: "host:port"; port 0 takes any free port. key: its
// configuration key, for errors.
// Errors: INVALID_ARGUMENT if the address cannot be parsed or resolved; ALREADY_EXISTS if it is in
// use; UNAVAILABLE for other errors of the system.
StatusOr<TcpListener> ListenAt(boost::asio::any_io_executor executor, const std::string& address,
                               const std::string& key);

}  // namespace simurgh
