#pragma once

#include "bench/micro/rpc/peer.h"

namespace simurgh::bench {

// gRPC without TLS: asynchronous unary calls, one completion queue and one thread of ours a side.

// A message with one `bytes` field. Generous to it: the request lies ready in its message, only the
// number that tells it from others is written for each call; the string that a message is parsed
// into counts as the contiguous place, and the server answers with that string itself.
Peer GrpcPeer();

// Raw messages: a request is sent from where it lies; what arrives in slices is copied to its
// place, from where the server answers.
Peer GrpcByteBufferPeer();

}  // namespace simurgh::bench
