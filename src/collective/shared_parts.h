#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

#include "collective/gloo_mesh.h"
#include "collective/rank_pipes.h"
#include "collective/shared_region.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Exchanges of a mesh that, between ranks on one machine, do without its connections: short
// messages go through pipes, a pipe a channel each way, and gradients stay where they were written,
// for the others to read; a pipe tells where. A message through a pipe wakes its reader,
// one through a connection of Gloo's a thread between, several times, which spins while another
// thread sends; on a machine that is full this costs more than the sum.
//
// A rank writes gradients into two halves of its memory in turn. Before a half's turn comes again,
// whoever has read it has told something since, to this rank or to one that has told this one: for
// no sum ends before all ranks have come to it.
//
// Threads: as Collective.
class SharedParts {
 public:
  using Parts = GlooMesh::Parts;

  // shares: whether this rank does so. Lifetime: the mesh outlives this.
  SharedParts(GlooMesh& mesh, bool shares);
  ~SharedParts();

  // All ranks together, first of all: who is on whose machine. Errors: of the mesh.
  Status Meet();

  // Memory for what this rank says in the channel's next exchange, which stays until the one after
  // that.
  std::span<std::byte> Outgoing(Channel channel, size_t bytes);

  // As GlooMesh::Exchange. Outgoing parts lie in Outgoing.
  Status Exchange(Channel channel, Parts& parts, absl::FunctionRef<void()> meanwhile = [] {});

 private:
  // What a rank tells another one first.
  struct Offer {
    SharedRegion::Key memory;
    std::array<int64_t, kChannels> pipes{};
  };

  // A rank on this machine.
  struct Neighbour {
    bool Open(const Offer& offer);

    std::unique_ptr<SharedRegion> memory;
    std::array<PipeReader, kChannels> from;
    std::array<PipeWriter, kChannels> to;
    std::array<std::vector<std::byte>, kChannels> received;
  };

  // Finds neighbours: those that both can open what the other offers.
  StatusOr<std::vector<Offer>> ExchangeOffers();
  Status KeepNeighbours(const std::vector<Offer>& offers);

  // Whether so many bytes from or to the peer go through a pipe.
  bool UsesPipe(uint32_t peer, Channel channel, size_t bytes) const;
  Status Tell(uint32_t peer, Channel channel, std::span<const std::byte> part);
  StatusOr<std::span<const std::byte>> Hear(uint32_t peer, Channel channel, size_t bytes);
  StatusOr<std::span<const std::byte>> PartAt(uint32_t peer, std::span<const std::byte> place,
                                              size_t bytes) const;

  GlooMesh& mesh_;
  std::unique_ptr<SharedRegion> own_;                   // Null where nothing is shared.
  std::vector<std::unique_ptr<Neighbour>> neighbours_;  // By rank; null for those elsewhere.
  size_t next_half_ = 0;
  std::array<std::vector<std::byte>, kChannels> unshared_;  // Of channels but kGradients.
};

}  // namespace simurgh
