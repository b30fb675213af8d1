#include "simurgh/collective/gloo_collective.h"

#include <algorithm>
#include <array>
#include <utility>

#include "collective/gloo_mesh.h"
#include "collective/reduce_codec.h"
#include "collective/shared_parts.h"
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

class GlooCollective final : public Collective {
 public:
  GlooCollective(std::unique_ptr<GlooMesh> mesh, bool shares_memory)
      : mesh_(std::move(mesh)), parts_(*mesh_, shares_memory) {}

  // All ranks call it first.
  Status Meet() { return parts_.Meet(); }

  uint32_t rank() const override { return mesh_->rank(); }
  uint32_t ranks() const override { return mesh_->ranks(); }

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override;
  Status Sum(Channel channel, std::span<double> values) override;
  Status Gather(Channel channel, std::span<const std::byte> own, std::span<std::byte> all) override;
  void Close(Channel channel) override { mesh_->Close(channel); }
  void Abort(const Status& reason) override { mesh_->Abort(reason); }

 private:
  std::span<float> ResidualOf(std::span<float> residual, const Part& part) const {
    return residual.empty() ? residual : residual.subspan(part.first, part.count);
  }

  // For two ranks: each sends all values to the other, and both sum them.
  Status SumTwice(Channel channel, std::span<float> values, absl::FunctionRef<void()> meanwhile);
  // Sums the ranks' values of this rank's part in rank order.
  Status ReducePart(Channel channel, std::span<const float> values, ReducePrecision precision,
                    std::span<float> residual, std::vector<float>& sums,
                    absl::FunctionRef<void()> meanwhile);
  // Distributes the sums of all parts, encoded by their owners.
  Status SpreadSums(Channel channel, std::span<float> values, ReducePrecision precision,
                    std::span<float> residual, std::span<const float> sums);

  const std::unique_ptr<GlooMesh> mesh_;
  SharedParts parts_;
  std::array<std::vector<float>, kChannels> sums_;  // Reused between calls.
};

Status GlooCollective::Sum(Channel channel, std::span<float> values, ReducePrecision precision,
                           std::span<float> residual, absl::FunctionRef<void()> meanwhile) {
  if (!residual.empty()) SIMURGH_CHECK_EQ(residual.size(), values.size());
  if (precision == ReducePrecision::kF32) residual = {};
  // Two ranks send the same number of bytes either way, so one message replaces two consecutive
  // ones. Not with rounding, which must give the same sums as on devices.
  if (ranks() == 2 && precision == ReducePrecision::kF32) {
    return SumTwice(channel, values, meanwhile);
  }
  std::vector<float>& sums = sums_[static_cast<size_t>(channel)];
  SIMURGH_RETURN_IF_ERROR(ReducePart(channel, values, precision, residual, sums, meanwhile));
  return SpreadSums(channel, values, precision, residual, sums);
}

Status GlooCollective::SumTwice(Channel channel, std::span<float> values,
                                absl::FunctionRef<void()> meanwhile) {
  const std::span<std::byte> own = parts_.Outgoing(channel, values.size_bytes());
  std::ranges::copy(std::as_bytes(values), own.begin());
  SharedParts::Parts parts(ranks(), own, own.size());
  SIMURGH_RETURN_IF_ERROR(parts_.Exchange(channel, parts, meanwhile));
  // Addition of two values commutes: the same bits at both ends.
  AddValues(parts.incoming[1 - rank()], ReducePrecision::kF32, values);
  return absl::OkStatus();
}

Status GlooCollective::ReducePart(Channel channel, std::span<const float> values,
                                  ReducePrecision precision, std::span<float> residual,
                                  std::vector<float>& sums, absl::FunctionRef<void()> meanwhile) {
  const Part own = PartOf(values.size(), ranks(), rank());
  const size_t largest = EncodedSize(PartOf(values.size(), ranks(), 0).count, precision);
  const std::span<std::byte> outgoing = parts_.Outgoing(channel, largest * ranks());
  SharedParts::Parts parts(ranks(), {}, EncodedSize(own.count, precision));
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const Part part = PartOf(values.size(), ranks(), peer);
    const auto out = outgoing.subspan(largest * peer, EncodedSize(part.count, precision));
    EncodeValues(values.subspan(part.first, part.count), precision, ResidualOf(residual, part),
                 out);
    parts.outgoing[peer] = out;
  }
  SIMURGH_RETURN_IF_ERROR(parts_.Exchange(channel, parts, meanwhile));

  sums.assign(own.count, 0.0F);
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) {
      AddValues(std::as_bytes(values.subspan(own.first, own.count)), ReducePrecision::kF32, sums);
    } else {
      AddValues(parts.incoming[peer], precision, sums);
    }
  }
  return absl::OkStatus();
}

Status GlooCollective::SpreadSums(Channel channel, std::span<float> values,
                                  ReducePrecision precision, std::span<float> residual,
                                  std::span<const float> sums) {
  const Part own = PartOf(values.size(), ranks(), rank());
  const std::span<std::byte> out = parts_.Outgoing(channel, EncodedSize(own.count, precision));
  EncodeValues(sums, precision, ResidualOf(residual, own), out);
  SharedParts::Parts parts(ranks(), out);
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    parts.expected[peer] = EncodedSize(PartOf(values.size(), ranks(), peer).count, precision);
  }
  SIMURGH_RETURN_IF_ERROR(parts_.Exchange(channel, parts));
  parts.incoming[rank()] = out;
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Part part = PartOf(values.size(), ranks(), peer);
    DecodeValues(parts.incoming[peer], precision, values.subspan(part.first, part.count));
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
  const std::span<std::byte> outgoing = parts_.Outgoing(channel, own.size());
  std::ranges::copy(own, outgoing.begin());
  SharedParts::Parts parts(ranks(), outgoing, own.size());
  SIMURGH_RETURN_IF_ERROR(parts_.Exchange(channel, parts));
  parts.incoming[rank()] = own;
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    std::ranges::copy(parts.incoming[peer], all.subspan(own.size() * peer).begin());
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Collective>> CreateGlooCollective(const GlooOptions& options,
                                                           const ExchangeAddresses& exchange) {
  SIMURGH_ASSIGN_OR_RETURN(auto mesh, GlooMesh::Connect(options, exchange));
  auto collective = std::make_unique<GlooCollective>(std::move(mesh), options.shares_memory);
  SIMURGH_RETURN_IF_ERROR(collective->Meet());
  return collective;
}

}  // namespace simurgh
