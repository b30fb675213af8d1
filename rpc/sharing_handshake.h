#pragma once

#include <cstdint>
#include <memory>

#include "rpc/async.h"
#include "rpc/file_passing.h"
#include "rpc/sharing.h"

namespace simurgh::rpc {

// The agreement on shared memory when a Unix socket opens: each end sets a feature bit and passes
// its files with its HELLO. Without the bit of both ends, payload is sent over the socket.
//
// Threads: one.
class SharingHandshake {
 public:
  // allowed: the address allows it, and the connection is a Unix socket.
  explicit SharingHandshake(bool allowed)
      : files_(allowed ? std::make_shared<FilePassing>() : nullptr) {}

  // For the connection's stream; null if no files are passed.
  const std::shared_ptr<FilePassing>& files() const { return files_; }

  // Passes this end's files with the next bytes written, which must be its HELLO. Returns the
  // feature bits for the HELLO.
  uint64_t Offer(const asio::any_io_executor& executor, uint64_t region_bytes);

  // Returns the shared memory, or null. Requires that Offer() was called and the peer's HELLO has
  // arrived.
  // Errors: those of Sharing::Agree.
  StatusOr<std::shared_ptr<Sharing>> Agree(uint64_t peer_features);

 private:
  std::shared_ptr<FilePassing> files_;
  std::shared_ptr<Sharing> sharing_;
};

}  // namespace simurgh::rpc
