// gRPC's client or server for bench_rpc. A separate program, so that bench_rpc does not link gRPC.

#include <string>
#include <vector>

#include "bench/micro/rpc/grpc/peer_grpc.h"

int main(int argc, char** argv) {
  using simurgh::bench::GrpcByteBufferPeer;
  using simurgh::bench::GrpcPeer;
  return simurgh::bench::RunChild(std::vector<std::string>(argv + 1, argv + argc),
                                  {GrpcPeer(), GrpcByteBufferPeer()});
}
