#include "nn/cuda/wire_codes.h"

#include "simurgh/base/check.h"

namespace simurgh::cuda {
namespace {

std::vector<uint32_t> DimsOf(const ModelPlan& plan, const EmbeddingWire& wire) {
  if (!wire.dims.empty() || plan.embedding_width == 0) return wire.dims;
  SIMURGH_CHECK(wire.embeddings == VectorPrecision::kF32);
  SIMURGH_CHECK(wire.gradients == VectorPrecision::kF32);
  return {static_cast<uint32_t>(plan.embedding_width)};
}

}  // namespace

WireCodes::WireCodes(const ModelPlan& plan, const EmbeddingWire& wire)
    : embeddings(wire.embeddings, DimsOf(plan, wire)),
      rows(wire.embeddings, wire.rows),
      gradients(wire.gradients, DimsOf(plan, wire)),
      gradient_factor(wire.gradient_factor),
      seed(wire.seed),
      table{0} {
  SIMURGH_CHECK_EQ(embeddings.columns(), plan.embedding_width);
  for (const uint32_t dim : embeddings.dims()) table.push_back(table.back() + dim);
  for (size_t v = 0; v < vectors(); ++v) {
    table.insert(table.end(), embeddings.dims()[v], static_cast<uint32_t>(v));
  }
  for (size_t f = 0; f < wire.rows.size(); ++f) {
    const auto& [dim, rule] = wire.rows[f];
    features.push_back({.rule = rule,
                        .dim = dim,
                        .first_column = static_cast<uint32_t>(feature_of.size()),
                        .row_bytes = static_cast<uint32_t>(rows.codec(f).row_bytes()),
                        .scale_offset = static_cast<uint32_t>(rows.codec(f).scales_offset())});
    feature_of.insert(feature_of.end(), rule.width(dim), static_cast<uint32_t>(f));
  }
  if (pools()) SIMURGH_CHECK_EQ(feature_of.size(), plan.embedding_width);
}

}  // namespace simurgh::cuda
