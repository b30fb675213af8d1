#pragma once

// Error codes of TLS with texts for operators.

#include <boost/system/error_code.hpp>

namespace simurgh::rpc {

// The client does not use TLS.
boost::system::error_code NotTls();

// Combines Asio's error of a handshake or read with OpenSSL's verdict on the peer's certificate
// (SSL_get_verify_result). Returns other errors unchanged.
boost::system::error_code ExplainTls(const boost::system::error_code& error, long verify_result);

}  // namespace simurgh::rpc
