#pragma once

#include <memory>
#include <string>

#include "simurgh/base/status.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX.

namespace simurgh::rpc {

// PEM files. Both ends need them, because each authenticates the other.
struct TlsOptions {
  std::string certificate_file;  // This end's certificate, then intermediate ones.
  std::string key_file;          // The certificate's private key, not encrypted.
  std::string authority_file;    // Trusted root certificates.
  // The name that a client expects in the server's certificate; empty: the host of the address.
  std::string peer_name = {};
};

// An identity and its trusted authorities, for any number of clients and servers. TLS 1.3 with
// certificates of both ends.
//
// Threads: any; immutable.
class TlsContext {
 public:
  // Reads the files and checks in advance that the certificate is valid now, matches the key, is
  // meant for clients and servers, and is signed by the authority.
  // Errors: INVALID_ARGUMENT "certificate: ...", "key: ..." or "authority: ...", naming the file
  // and the remedy.
  static StatusOr<std::shared_ptr<const TlsContext>> Load(const TlsOptions& options);

  explicit TlsContext(std::string peer_name);

  const std::string& peer_name() const { return peer_name_; }
  ssl_ctx_st* native() const { return native_.get(); }

 private:
  const std::string peer_name_;
  const std::shared_ptr<ssl_ctx_st> native_;
};

}  // namespace simurgh::rpc
