#pragma once

#include <memory>
#include <string>

#include "rpc/stream.h"
#include "rpc/tls.h"
#include "rpc/transport.h"

namespace simurgh::rpc {

// Streams of TLS over TCP. The first Read shakes hands; what is written before waits for that.
// Errors of Read: IsTlsRefusal(), when one end does not trust the other or the client speaks no
// TLS. A client may hear of a refusal only when it reads the first bytes.
//
// Cost: some 1 ms of computing at both ends for the handshake; every byte is copied on its way.

// The server must be `host`, or what the context asks for instead.
std::unique_ptr<Stream> ConnectTls(Socket socket, std::shared_ptr<const TlsContext> context,
                                   const std::string& host);

// A client that speaks no TLS gets `plain_refusal` as it is, and nothing else.
std::unique_ptr<Stream> AcceptTls(Socket socket, std::shared_ptr<const TlsContext> context,
                                  std::string plain_refusal);

// Whether trying again is of no use until somebody changes a certificate or a configuration.
bool IsTlsRefusal(const Stream::ErrorCode& error);

}  // namespace simurgh::rpc
