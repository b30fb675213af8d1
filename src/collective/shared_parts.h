#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "collective/gloo_mesh.h"
#include "collective/shared_region.h"

#include "simurgh/base/status.h"

namespace simurgh {

// Exchanges of a mesh in which what ranks on one machine say on the channel of gradients stays
// where it was written, and the others read it there: only where it lies is sent.
//
// A rank writes into two halves of its memory in turn. Whoever has read one half has told this rank
// something since, before the half's turn comes again: of what is exchanged in a collective, each
// rank that gets a part gives one in the next exchange, if anything follows.
//
// Threads: as Collective.
class SharedParts {
 public:
  using Parts = GlooMesh::Parts;

  // shares: whether this rank may offer memory. Lifetime: the mesh outlives this.
  SharedParts(GlooMesh& mesh, bool shares);

  // All ranks together, first of all: who reads whose memory. Errors: of the mesh.
  Status Meet();

  // Memory for what this rank says in the channel's next exchange, which stays until the one after
  // that.
  std::span<std::byte> Outgoing(Channel channel, size_t bytes);

  // As GlooMesh::Exchange. Outgoing parts lie in Outgoing.
  Status Exchange(Channel channel, Parts& parts);

 private:
  bool Reads(uint32_t peer, Channel channel) const {
    return channel == Channel::kGradients && theirs_[peer] != nullptr;
  }
  bool IsReadBy(uint32_t peer, Channel channel) const {
    return channel == Channel::kGradients && own_ != nullptr && is_reader_[peer] != std::byte{0};
  }
  StatusOr<std::span<const std::byte>> PartAt(uint32_t peer, std::span<const std::byte> place,
                                              size_t bytes) const;

  GlooMesh& mesh_;
  std::unique_ptr<SharedRegion> own_;                  // Null where nothing is shared.
  std::vector<std::unique_ptr<SharedRegion>> theirs_;  // By rank; null where nothing is shared.
  std::vector<std::byte> is_reader_;                   // By rank: 1 if it reads this one's.
  size_t next_half_ = 0;
  std::array<std::vector<std::byte>, kChannels> unshared_;  // Memory for what is sent as it is.
};

}  // namespace simurgh
