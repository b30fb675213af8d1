#include "simurgh/nn/embedding_check.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"
#include "simurgh/data/row_codec.h"
#include "simurgh/tensor/finite.h"

namespace simurgh {

EmbeddingCheck::EmbeddingCheck(std::vector<ModelInputs::Feature> features, EmbeddingWire wire)
    : features_(std::move(features)), wire_(std::move(wire)) {
  for (const ModelInputs::Feature& feature : features_) width_ += feature.width;
  if (wire_.dims.empty()) wire_.dims = {static_cast<uint32_t>(width_)};
}

void EmbeddingCheck::Count(const BatchBlock& block, size_t samples,
                           std::span<double> counts) const {
  if (features_.empty() || samples == 0) return;
  MatrixView<const float> embeddings = block.embeddings;
  std::vector<float> decoded;
  if (embeddings.rows() == 0) {  // A device has encoded embeddings only.
    decoded.resize(samples * width_);
    const MatrixView<float> matrix(decoded.data(), samples, width_);
    const BatchBlock::Encoded& encoded = block.encoded_embeddings;
    if (block.ids != nullptr) {
      RowCodec(encoded.precision, wire_.rows)
          .Pool(*block.ids, encoded.bytes, matrix,
                [](size_t count, size_t, auto work) { work(0, count); });
    } else {
      VectorCodec(encoded.precision, wire_.dims).Decode(encoded.bytes, 1.0F, matrix);
    }
    embeddings = matrix;
  }
  SIMURGH_CHECK_EQ(embeddings.columns(), width_);
  size_t column = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    const MatrixView<const float> own = embeddings.Columns(column, features_[f].width);
    column += features_[f].width;
    for (size_t row = 0; row < samples; ++row) {
      if (AllFinite(own.row(row))) continue;
      ++counts[f];
      break;
    }
  }
}

std::string EmbeddingCheck::Names(std::span<const double> counts) const {
  std::string names;
  for (size_t f = 0; f < features_.size(); ++f) {
    if (counts[f] > 0) absl::StrAppend(&names, names.empty() ? "" : ", ", features_[f].name);
  }
  return names;
}

std::string EmbeddingCheck::Problem(std::span<const double> counts) const {
  const std::string names = Names(counts);
  if (names.empty()) return names;
  return absl::StrCat("embeddings are not finite of features: ", names,
                      "; lower the learning_rate or weight_decay of their tables and restart the "
                      "servers");
}

}  // namespace simurgh
