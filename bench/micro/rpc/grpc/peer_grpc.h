#pragma once

#include "bench/micro/rpc/peer.h"

namespace simurgh::bench {

// gRPC without TLS: asynchronous unary calls, with one completion queue and one of our threads on
// each side.

// A message with one `bytes` field. This favours gRPC: the request is ready in its message, and
// each call writes only the request's number. The string of a parsed message counts as the
// contiguous destination, and the server answers with that string.
Peer GrpcPeer();

// Raw messages: a request is sent without a copy. Received slices are copied to their destination,
// from which the server answers.
Peer GrpcByteBufferPeer();

}  // namespace simurgh::bench
