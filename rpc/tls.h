#pragma once

#include <memory>
#include <string>

#include "simurgh/base/status.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX.

namespace simurgh::rpc {

// Files in PEM form; the same kind at both ends, as each proves itself to the other.
struct TlsOptions {
  std::string certificate_file;  // This end's certificate, then the intermediate ones, if any.
  std::string key_file;          // Of the certificate, not encrypted.
  std::string authority_file;    // Whom any of these certificates have signed is trusted.
  // The name in the server's certificate that a client asks for; empty: the host of the address.
  std::string peer_name = {};
};

// One identity and whom it trusts, for any number of clients and servers: TLS 1.3, and each end
// demands a certificate of the other.
//
// Threads: any; immutable.
class TlsContext {
 public:
  // Reads the files and checks what would otherwise show only with the first peer: that the
  // certificate is valid today, belongs to the key, serves both ends and is signed by the
  // authority.
  // Errors: INVALID_ARGUMENT "certificate: ...", "key: ..." or "authority: ...", naming the file
  // and the remedy.
  static StatusOr<std::shared_ptr<const TlsContext>> Load(const TlsOptions& options);

  explicit TlsContext(std::string peer_name);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  const std::string& peer_name() const { return peer_name_; }
  ssl_ctx_st* native() const { return native_; }

 private:
  const std::string peer_name_;
  ssl_ctx_st* const native_;
};

}  // namespace simurgh::rpc
