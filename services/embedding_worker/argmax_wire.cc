#include "services/embedding_worker/argmax_wire.h"

#include "absl/strings/str_cat.h"

#include "simurgh/data/argmax_codec.h"

namespace simurgh {

ArgmaxWire::ArgmaxWire(const BatchLayout& layout) : columns_(layout.max_columns()) {
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].pooling.kind == Pooling::kMax) features_.push_back({f, layout.dim(f)});
  }
}

size_t ArgmaxWire::bytes(const CompactBatch& batch) const {
  size_t sum = 0;
  for (const auto& [index, dim] : features_) sum += ArgmaxBytes(batch.feature(index), dim);
  return sum;
}

size_t ArgmaxWire::max_bytes() const { return MaxArgmaxBytes(kMaxBatchSamples, columns_); }

void ArgmaxWire::Encode(const CompactBatch& batch, std::span<const uint32_t> argmax,
                        std::span<std::byte> out) const {
  for (const auto& [index, dim] : features_) {
    const FeatureView feature = batch.feature(index);
    const size_t positions = batch.batch_size * dim;
    const size_t bytes = ArgmaxBytes(feature, dim);
    EncodeArgmax(feature, dim, argmax.first(positions), out.first(bytes + kArgmaxSlackBytes));
    argmax = argmax.subspan(positions);
    out = out.subspan(bytes);
  }
}

Status ArgmaxWire::Decode(const CompactBatch& batch, std::span<const std::byte> bytes,
                          std::span<uint32_t> argmax) const {
  const size_t expected = this->bytes(batch);
  if (bytes.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("push: ", bytes.size(), " bytes of argmax, the batch has ", expected));
  }
  for (const auto& [index, dim] : features_) {
    const FeatureView feature = batch.feature(index);
    const size_t positions = batch.batch_size * dim;
    const size_t own = ArgmaxBytes(feature, dim);
    const Status decoded = DecodeArgmax(feature, dim, bytes.first(own), argmax.first(positions));
    if (!decoded.ok()) return Annotate(decoded, absl::StrCat("push: feature ", index));
    argmax = argmax.subspan(positions);
    bytes = bytes.subspan(own);
  }
  return absl::OkStatus();
}

}  // namespace simurgh
