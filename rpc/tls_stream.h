#pragma once

#include <memory>
#include <string>

#include "rpc/stream.h"
#include "rpc/tls.h"
#include "rpc/transport.h"

namespace simurgh::rpc {

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

// Whether a retry cannot succeed without a change of certificates or configuration.
bool IsTlsRefusal(const Stream::ErrorCode& error);

}  // namespace simurgh::rpc
