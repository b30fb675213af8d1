#include "services/embedding_worker/maxima_wire.h"

#include "absl/strings/str_cat.h"

#include "simurgh/data/maxima_code.h"

namespace simurgh {

MaximaWire::MaximaWire(const BatchLayout& layout) : columns_(layout.max_columns()) {
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].pooling.kind == Pooling::kMax) features_.push_back({f, layout.dim(f)});
  }
}

size_t MaximaWire::bytes(const CompactBatch& batch) const {
  size_t sum = 0;
  for (const auto& [index, dim] : features_) sum += MaximaBytes(batch.feature(index), dim);
  return sum;
}

size_t MaximaWire::most_bytes() const { return MostMaximaBytes(kMaxBatchSamples, columns_); }

void MaximaWire::Encode(const CompactBatch& batch, std::span<const uint32_t> maxima,
                        std::span<std::byte> out) const {
  for (const auto& [index, dim] : features_) {
    const FeatureView feature = batch.feature(index);
    const size_t positions = batch.batch_size * dim;
    const size_t bytes = MaximaBytes(feature, dim);
    EncodeMaxima(feature, dim, maxima.first(positions), out.first(bytes + kMaximaSlackBytes));
    maxima = maxima.subspan(positions);
    out = out.subspan(bytes);
  }
}

Status MaximaWire::Decode(const CompactBatch& batch, std::span<const std::byte> bytes,
                          std::span<uint32_t> maxima) const {
  const size_t expected = this->bytes(batch);
  if (bytes.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("push: ", bytes.size(), " bytes of maxima, the batch has ", expected));
  }
  for (const auto& [index, dim] : features_) {
    const FeatureView feature = batch.feature(index);
    const size_t positions = batch.batch_size * dim;
    const size_t own = MaximaBytes(feature, dim);
    const Status decoded = DecodeMaxima(feature, dim, bytes.first(own), maxima.first(positions));
    if (!decoded.ok()) return Annotate(decoded, absl::StrCat("push: feature ", index));
    maxima = maxima.subspan(positions);
    bytes = bytes.subspan(own);
  }
  return absl::OkStatus();
}

}  // namespace simurgh
