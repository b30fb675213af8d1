#pragma once

// What can go wrong with TLS, as error codes with texts for those who must mend it.

#include <boost/system/error_code.hpp>

namespace simurgh::rpc {

enum class TlsError {
  kNotSpoken = 1,  // By the client.
  kHungUp = 2,     // By the server, which may not speak it.
};

boost::system::error_code TlsErrorCode(TlsError error);

// The code for a failed handshake or read, made of Asio's code and of OpenSSL's verdict on the
// peer's certificate (SSL_get_verify_result). Other errors stay as they are.
boost::system::error_code ExplainTls(const boost::system::error_code& error, long verify_result);

}  // namespace simurgh::rpc
