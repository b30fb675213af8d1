#include "services/nn_worker/rank_collective.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "simurgh/base/check.h"
#include "simurgh/collective/reduce_codec.h"

namespace simurgh {
namespace {

// The part of `count` values that rank `owner` sums.
struct Part {
  size_t first;
  size_t count;
};

Part PartOf(size_t count, uint32_t ranks, uint32_t owner) {
  const size_t each = (count + ranks - 1) / ranks;
  const size_t first = std::min(count, each * owner);
  return {first, std::min(each, count - first)};
}

std::span<float> ResidualOf(std::span<float> residual, const Part& part) {
  return residual.empty() ? residual : residual.subspan(part.first, part.count);
}

class RankCollective final : public Collective {
 public:
  explicit RankCollective(RankMesh& mesh) : mesh_(mesh) {}
  ~RankCollective() override { mesh_.End(); }

  uint32_t rank() const override { return mesh_.rank(); }
  uint32_t ranks() const override { return mesh_.ranks(); }

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override;
  Status Sum(Channel channel, std::span<double> values) override;
  Status Gather(Channel channel, std::span<const std::byte> own, std::span<std::byte> all) override;
  void Close(Channel channel) override { mesh_.Close(channel); }
  void Abort(const Status& reason) override { mesh_.Abort(reason); }

 private:
  // Sends all ranks the same bytes.
  StatusOr<RankMesh::Messages> Share(
      Channel channel, std::span<const std::byte> own, std::span<const size_t> expected,
      absl::FunctionRef<void()> meanwhile = [] {});

  RankMesh& mesh_;
  // Reused between calls.
  std::array<std::vector<float>, kChannels> sums_;
  std::array<std::vector<std::byte>, kChannels> encoded_;
};

StatusOr<RankMesh::Messages> RankCollective::Share(Channel channel, std::span<const std::byte> own,
                                                   std::span<const size_t> expected,
                                                   absl::FunctionRef<void()> meanwhile) {
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) std::ranges::copy(own, mesh_.Outgoing(channel, peer, own.size()).begin());
  }
  return mesh_.Exchange(channel, expected, meanwhile);
}

Status RankCollective::Sum(Channel channel, std::span<float> values, ReducePrecision precision,
                           std::span<float> residual, absl::FunctionRef<void()> meanwhile) {
  if (!residual.empty()) SIMURGH_CHECK_EQ(residual.size(), values.size());
  if (precision == ReducePrecision::kF32) residual = {};
  // Two ranks send the same number of bytes either way, so one message replaces two consecutive
  // ones. Not with rounding, which must give the same sums as on devices.
  if (ranks() == 2 && precision == ReducePrecision::kF32) {
    const std::vector<size_t> expected(ranks(), values.size_bytes());
    SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages,
                             Share(channel, std::as_bytes(values), expected, meanwhile));
    // Addition of two values commutes: the same bits at both ends.
    AddValues(messages[1 - rank()].bytes, precision, values);
    return absl::OkStatus();
  }
  // Every rank sums its part of all ranks' values, in rank order.
  std::vector<size_t> sizes(ranks());
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Part part = PartOf(values.size(), ranks(), peer);
    sizes[peer] = EncodedSize(part.count, precision);
    if (peer == rank()) continue;
    EncodeValues(values.subspan(part.first, part.count), precision, ResidualOf(residual, part),
                 mesh_.Outgoing(channel, peer, sizes[peer]));
  }
  const Part own = PartOf(values.size(), ranks(), rank());
  std::vector<float>& sums = sums_[static_cast<size_t>(channel)];
  sums.assign(own.count, 0.0F);
  {
    const std::vector<size_t> expected(ranks(), sizes[rank()]);
    SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages,
                             mesh_.Exchange(channel, expected, meanwhile));
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      if (peer == rank()) {
        AddValues(std::as_bytes(values.subspan(own.first, own.count)), ReducePrecision::kF32, sums);
      } else {
        AddValues(messages[peer].bytes, precision, sums);
      }
    }
  }
  // Then it sends the sums to all, encoded once.
  std::vector<std::byte>& encoded = encoded_[static_cast<size_t>(channel)];
  encoded.resize(sizes[rank()]);
  EncodeValues(sums, precision, ResidualOf(residual, own), encoded);
  SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages, Share(channel, encoded, sizes));
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Part part = PartOf(values.size(), ranks(), peer);
    DecodeValues(peer == rank() ? std::span<const std::byte>(encoded) : messages[peer].bytes,
                 precision, values.subspan(part.first, part.count));
  }
  return absl::OkStatus();
}

Status RankCollective::Sum(Channel channel, std::span<double> values) {
  std::vector<double> all(values.size() * ranks());
  SIMURGH_RETURN_IF_ERROR(
      Gather(channel, std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  std::ranges::fill(values, 0.0);
  for (size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
  return absl::OkStatus();
}

Status RankCollective::Gather(Channel channel, std::span<const std::byte> own,
                              std::span<std::byte> all) {
  SIMURGH_CHECK_EQ(all.size(), own.size() * ranks());
  const std::vector<size_t> expected(ranks(), own.size());
  SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages, Share(channel, own, expected));
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    std::ranges::copy(peer == rank() ? own : messages[peer].bytes,
                      all.subspan(own.size() * peer).begin());
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Collective> NewRankCollective(RankMesh& mesh) {
  return std::make_unique<RankCollective>(mesh);
}

}  // namespace simurgh
