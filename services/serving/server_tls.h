#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

#include "simurgh/base/status.h"

namespace simurgh {

// The certificate of an HTTPS server, and the authority of its clients.
//
// Threads: any; immutable.
class ServerTls {
 public:
  // Files in PEM form. client_authority: empty: clients need no certificate.
  // Errors: INVALID_ARGUMENT "certificate: '...'", naming the file, the problem and the remedy.
  static StatusOr<std::shared_ptr<const ServerTls>> Load(const std::string& certificate,
                                                         const std::string& key,
                                                         const std::string& client_authority);

  SSL_CTX* native() const { return context_.get(); }

 private:
  ServerTls();

  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
};

}  // namespace simurgh
