#include "config/layer_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh {
namespace {

using Kind = LayerConfig::Kind;

// Returns the width of one of `pieces` equal pieces of the input.
LayerShape PieceOf(size_t width, size_t pieces, const std::string& remedy) {
  if (pieces > 0 && width % pieces == 0) return {.width = width / pieces};
  return {.problem = absl::StrCat(width, " columns are not ", pieces, " pieces of one width"),
          .remedy = remedy};
}

LayerShape PairsOf(const LayerConfig& layer, size_t width) {
  const size_t dim = layer.width;
  const size_t vectors = dim == 0 ? 0 : width / dim;
  if (vectors >= 2 && width % dim == 0) {
    return {.width = layer.kind == Kind::kFm ? 1 : vectors * (vectors - 1) / 2};
  }
  return {.problem =
              absl::StrCat(width, " columns are not a multiple of ", dim, ", at least ", 2 * dim),
          .remedy = "read embeddings of one dim and towers of this width, and set that width"};
}

}  // namespace

LayerShape ShapeOf(const LayerConfig& layer, size_t width, size_t tower_width) {
  switch (layer.kind) {
    case Kind::kLinear:
      SIMURGH_CHECK_LT(0U, layer.width);
      return {.width = layer.width};
    case Kind::kSum: {
      const size_t sums = std::max(layer.width, 1U);
      if (width % sums == 0) return {.width = sums};
      return {.problem = absl::StrCat(width, " columns cannot be split into ", sums, " sums"),
              .remedy = "read the same number of columns for each sum"};
    }
    case Kind::kCross:
      if (width == tower_width) return {.width = width};
      return {.problem =
                  absl::StrCat("cross on ", width, " columns in a tower that reads ", tower_width),
              .remedy = "move layers of other widths after it, or to another tower"};
    case Kind::kDot:
    case Kind::kFm:
      return PairsOf(layer, width);
    case Kind::kMix: {
      const size_t terms = layer.width;
      if (terms > 0 && width > terms && width % terms == 0) return {.width = width / terms - 1};
      return {.problem = absl::StrCat(width, " columns are not ", terms, " factors and ", terms,
                                      " pieces of one width"),
              .remedy = "read a tower with a factor for each piece first, then the pieces"};
    }
    case Kind::kProduct:
    case Kind::kJoint:
      return PieceOf(width, layer.width, "read that many inputs of one width");
    case Kind::kBilinear: {
      const LayerShape piece = PieceOf(width, 2 * size_t{layer.width},
                                       "read two inputs whose width is a multiple of the heads");
      return {.width = piece.width > 0 ? size_t{1} : 0,
              .problem = piece.problem,
              .remedy = piece.remedy};
    }
    case Kind::kBatchNorm:
    case Kind::kLayerNorm:
    case Kind::kL2Norm:
    case Kind::kRelu:
    case Kind::kGelu:
    case Kind::kSilu:
    case Kind::kTanh:
    case Kind::kSigmoid:
    case Kind::kGate:
    case Kind::kPrelu:
    case Kind::kDice:
    case Kind::kDropout:
    case Kind::kSoftmax:
      break;
    case Kind::kMean:
    case Kind::kLast:
    case Kind::kAttention:
    case Kind::kSelfAttention:
      return {.problem = "the layer reads a sequence", .remedy = "begin a tower with it"};
  }
  return {.width = width};
}

}  // namespace simurgh
