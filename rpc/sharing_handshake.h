#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/async.h"
#include "rpc/file_passing.h"
#include "rpc/sharing.h"

namespace simurgh::rpc {

// How the ends of a Unix socket agree on shared memory: each offers it by a feature bit, and passes
// its files with its HELLO. An end that cannot leaves the bit out, and payload travels over the
// socket.
//
// Threads: one.
class SharingHandshake {
 public:
  // allowed: by this end's address, and on a Unix socket.
  explicit SharingHandshake(bool allowed);

  // To give to the connection's stream; null when no files are passed.
  const std::shared_ptr<FilePassing>& files() const { return files_; }

  // Makes our half and passes its files with the next bytes written, which are to be our HELLO's.
  // Returns the features that this adds to it.
  uint64_t Offer(const asio::any_io_executor& executor, uint64_t region_bytes);

  // The peer's HELLO has arrived, and our offer is made. Returns what is shared from now on, null
  // for nothing.
  // Errors: those of Sharing::Agree.
  StatusOr<std::shared_ptr<Sharing>> Agree(uint64_t peer_features);

 private:
  std::shared_ptr<FilePassing> files_;
  std::shared_ptr<Sharing> sharing_;
};

}  // namespace simurgh::rpc
