#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "rpc/stream.h"
#include "rpc/transport.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX.

namespace simurgh::rpc {

// PEM files. Both ends need them, because each authenticates the other.
struct TlsOptions {
  std::string certificate_file;  // This end's certificate, then intermediate ones.
  std::string key_file;          // The certificate's private key, not encrypted.
  std::string authority_file;    // Trusted root certificates.
  // The name that a client expects in the server's certificate; empty: the host of the address.
  std::string peer_name = {};
  // DNS names, keyed by the role in HELLO. A peer's certificate must have one of its role's names.
  // A name that begins with "*." stands for any first label. No names for a role: any certificate.
  // If there are names for some role, roles that are not listed are refused.
  std::map<std::string, std::vector<std::string>> allowed_names = {};
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

  explicit TlsContext(const TlsOptions& options);

  // Checks that a peer with these DNS names in its certificate may have the role.
  // Errors: UNAUTHENTICATED.
  Status CheckRole(const std::string& role, std::span<const std::string> names) const;

  const std::string& peer_name() const { return options_.peer_name; }
  ssl_ctx_st* native() const { return native_.get(); }

 private:
  const TlsOptions options_;
  const std::shared_ptr<ssl_ctx_st> native_;
};

// TLS over TCP. The first Read() performs the handshake; bytes written before are sent after it.
// Errors of Read(): IsTlsRefusal() when one end does not trust the other or the client does not use
// TLS. A client may get the server's refusal with its first read after the handshake.
//
// Cost: about 1 ms of computation at both ends for the handshake; one copy of every byte.

// The server's certificate must have the context's peer_name, or `host` if that is empty.
std::shared_ptr<Stream> ConnectTls(Socket socket, std::shared_ptr<const TlsContext> context,
                                   const std::string& host);

// A client without TLS receives `plain_refusal` unencrypted.
std::shared_ptr<Stream> AcceptTls(Socket socket, std::shared_ptr<const TlsContext> context,
                                  std::string plain_refusal);

// Returns whether a retry cannot succeed without a change of certificates or configuration.
bool IsTlsRefusal(const Stream::ErrorCode& error);

}  // namespace simurgh::rpc
