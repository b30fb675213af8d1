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

// Exchanges of a mesh that bypass its connections between ranks on one machine. Short messages use
// one pipe per channel and direction. Gradients stay in shared memory, and a pipe carries their
// offset. A pipe wakes only the reader; Gloo wakes a thread in between several times, which spins
// while another thread sends. On a loaded machine this costs more than the sum itself.
//
// A rank writes gradients alternately into two halves of its memory. No sum ends before all ranks
// have started it, so when a half is reused, all ranks have read its previous contents.
//
// Threads: as Collective.
class SharedParts {
 public:
  using Parts = GlooMesh::Parts;

  // shares: false disables pipes and shared memory. Lifetime: the mesh outlives this.
  SharedParts(GlooMesh& mesh, bool shares);
  ~SharedParts();

  // Finds the ranks on this machine. All ranks call it first. Errors: those of the mesh.
  Status Meet();

  // Memory for this rank's parts of the channel's next exchange.
  // Lifetime: valid until the exchange after it.
  std::span<std::byte> Outgoing(Channel channel, size_t bytes);

  // As GlooMesh::Exchange. Requires outgoing parts in Outgoing.
  Status Exchange(Channel channel, Parts& parts, absl::FunctionRef<void()> meanwhile = [] {});

 private:
  // A rank's first message to another: how to open its memory and pipes.
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

  // Whether a message of `bytes` from or to the peer uses a pipe.
  bool UsesPipe(uint32_t peer, Channel channel, size_t bytes) const;
  Status Send(uint32_t peer, Channel channel, std::span<const std::byte> part);
  StatusOr<std::span<const std::byte>> Receive(uint32_t peer, Channel channel, size_t bytes);
  StatusOr<std::span<const std::byte>> PartAt(uint32_t peer, std::span<const std::byte> offset,
                                              size_t bytes) const;

  GlooMesh& mesh_;
  std::unique_ptr<SharedRegion> own_;                   // Null if nothing is shared.
  std::vector<std::unique_ptr<Neighbour>> neighbours_;  // By rank; null on other machines.
  size_t next_half_ = 0;
  std::array<std::vector<std::byte>, kChannels> unshared_;  // For other channels than kGradients.
};

}  // namespace simurgh
