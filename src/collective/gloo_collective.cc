#include "simurgh/collective/gloo_collective.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collective/gloo_mesh.h"
#include "collective/reduce_codec.h"

#include "simurgh/base/check.h"

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

// Bytes to and from every rank in one exchange.
struct Parts {
  explicit Parts(uint32_t ranks) : outgoing(ranks), incoming(ranks) {}

  std::vector<std::span<const std::byte>> outgoing;
  std::vector<std::span<std::byte>> incoming;
};

class GlooCollective final : public Collective {
 public:
  explicit GlooCollective(std::unique_ptr<GlooMesh> mesh) : mesh_(std::move(mesh)) {}

  uint32_t rank() const override { return mesh_->rank(); }
  uint32_t ranks() const override { return mesh_->ranks(); }

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual) override;
  Status Sum(Channel channel, std::span<double> values) override;
  Status Gather(Channel channel, std::span<const std::byte> own, std::span<std::byte> all) override;
  void Close(Channel channel) override { mesh_->Close(channel); }
  void Abort(const Status& reason) override { mesh_->Abort(reason); }

 private:
  // Of a channel: memory that its sums use again.
  struct Scratch {
    std::vector<std::byte> outgoing;
    std::vector<std::byte> incoming;
    std::vector<float> decoded;
    std::vector<float> sums;
  };

  // Messages of a channel; see GlooMesh::Exchange.
  enum Message : uint32_t { kParts, kSums, kGather };

  std::span<float> ResidualOf(std::span<float> residual, const Part& part) const {
    return residual.empty() ? residual : residual.subspan(part.first, part.count);
  }

  // Everybody's values of this rank's part, summed in the order of the ranks.
  Status ReducePart(Channel channel, std::span<const float> values, ReducePrecision precision,
                    std::span<float> residual, Scratch& scratch);
  // The sums of all parts, as their owners have encoded them.
  Status SpreadSums(Channel channel, std::span<float> values, ReducePrecision precision,
                    std::span<float> residual, Scratch& scratch);

  const std::unique_ptr<GlooMesh> mesh_;
  std::array<Scratch, kChannels> scratch_;
};

Status GlooCollective::Sum(Channel channel, std::span<float> values, ReducePrecision precision,
                           std::span<float> residual) {
  if (!residual.empty()) SIMURGH_CHECK_EQ(residual.size(), values.size());
  if (precision == ReducePrecision::kF32) residual = {};
  Scratch& scratch = scratch_[static_cast<size_t>(channel)];
  SIMURGH_RETURN_IF_ERROR(ReducePart(channel, values, precision, residual, scratch));
  return SpreadSums(channel, values, precision, residual, scratch);
}

Status GlooCollective::ReducePart(Channel channel, std::span<const float> values,
                                  ReducePrecision precision, std::span<float> residual,
                                  Scratch& scratch) {
  const Part own = PartOf(values.size(), ranks(), rank());
  const size_t largest = EncodedSize(PartOf(values.size(), ranks(), 0).count, precision);
  const size_t own_size = EncodedSize(own.count, precision);
  scratch.outgoing.resize(largest * ranks());
  scratch.incoming.resize(own_size * ranks());
  Parts parts(ranks());
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const Part part = PartOf(values.size(), ranks(), peer);
    const auto out =
        std::span(scratch.outgoing).subspan(largest * peer, EncodedSize(part.count, precision));
    EncodeValues(values.subspan(part.first, part.count), precision, ResidualOf(residual, part),
                 out);
    parts.outgoing[peer] = out;
    parts.incoming[peer] = std::span(scratch.incoming).subspan(own_size * peer, own_size);
  }
  SIMURGH_RETURN_IF_ERROR(mesh_->Exchange(channel, kParts, parts.outgoing, parts.incoming));

  scratch.sums.assign(own.count, 0.0F);
  scratch.decoded.resize(own.count);
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    std::span<const float> theirs = values.subspan(own.first, own.count);
    if (peer != rank()) {
      DecodeValues(parts.incoming[peer], precision, scratch.decoded);
      theirs = scratch.decoded;
    }
    for (size_t i = 0; i < own.count; ++i) scratch.sums[i] += theirs[i];
  }
  return absl::OkStatus();
}

Status GlooCollective::SpreadSums(Channel channel, std::span<float> values,
                                  ReducePrecision precision, std::span<float> residual,
                                  Scratch& scratch) {
  const Part own = PartOf(values.size(), ranks(), rank());
  const size_t largest = EncodedSize(PartOf(values.size(), ranks(), 0).count, precision);
  const auto out = std::span(scratch.outgoing).first(EncodedSize(own.count, precision));
  EncodeValues(scratch.sums, precision, ResidualOf(residual, own), out);
  scratch.incoming.resize(largest * ranks());
  Parts parts(ranks());
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const Part part = PartOf(values.size(), ranks(), peer);
    parts.outgoing[peer] = out;
    parts.incoming[peer] =
        std::span(scratch.incoming).subspan(largest * peer, EncodedSize(part.count, precision));
  }
  SIMURGH_RETURN_IF_ERROR(mesh_->Exchange(channel, kSums, parts.outgoing, parts.incoming));
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Part part = PartOf(values.size(), ranks(), peer);
    DecodeValues(peer == rank() ? std::span<const std::byte>(out) : parts.incoming[peer], precision,
                 values.subspan(part.first, part.count));
  }
  return absl::OkStatus();
}

Status GlooCollective::Sum(Channel channel, std::span<double> values) {
  std::vector<double> all(values.size() * ranks());
  SIMURGH_RETURN_IF_ERROR(
      Gather(channel, std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  std::ranges::fill(values, 0.0);
  for (size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
  return absl::OkStatus();
}

Status GlooCollective::Gather(Channel channel, std::span<const std::byte> own,
                              std::span<std::byte> all) {
  SIMURGH_CHECK_EQ(all.size(), own.size() * ranks());
  Parts parts(ranks());
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const std::span<std::byte> place = all.subspan(own.size() * peer, own.size());
    if (peer == rank()) {
      std::ranges::copy(own, place.begin());
    } else {
      parts.outgoing[peer] = own;
      parts.incoming[peer] = place;
    }
  }
  return mesh_->Exchange(channel, kGather, parts.outgoing, parts.incoming);
}

}  // namespace

StatusOr<std::unique_ptr<Collective>> CreateGlooCollective(const GlooOptions& options,
                                                           const ExchangeAddresses& exchange) {
  SIMURGH_ASSIGN_OR_RETURN(auto mesh, GlooMesh::Connect(options, exchange));
  return std::make_unique<GlooCollective>(std::move(mesh));
}

}  // namespace simurgh
