#pragma once

#include <cstddef>
#include <vector>

#include "config/service_config.h"
#include "embedding/vector_codec.h"

// Single kernels and products on a device or on the host; each test program links one of them.
namespace simurgh::testing {

// Matrices are (rows, columns) unless noted; vectors are f32.
enum class KernelName {
  kCopy,             // a
  kAdd,              // a, b
  kAddBiasRelu,      // a, bias (columns)
  kAddBiasGelu,      // a, bias: gelu and its input
  kReluBackward,     // output, dy
  kGelu,             // a
  kGeluBackward,     // input, dy
  kSigmoid,          // a
  kSigmoidBackward,  // output, dy
  kSilu,             // a
  kSiluBackward,     // input, dy
  kTanh,             // a
  kTanhBackward,     // output, dy
  kGate,             // a
  kGateBackward,     // output, dy
  kPrelu,            // a, slopes (columns)
  kPreluBackward,    // input, dy, slopes (columns)
  kLayerNorm,        // a, scale (columns), shift (columns)
  // input, dy, scale (columns): of the input; of the scale, in f32
  kLayerNormBackward,
  kCross,            // origin, outer, input
  kCrossBackward,    // origin, outer, dy: of outer, of origin
  kDot,              // a: (rows, pairs)
  kDotBackward,      // a, dy (rows, pairs)
  kFm,               // a: (rows, 1)
  kFmBackward,       // a, dy (rows, 1)
  kSum,              // a: (rows, 1)
  kSumBackward,      // dy (rows, 1)
  kPieces,           // a: (rows, depth), the product of its pieces
  kPiecesBackward,   // a, dy (rows, depth)
  kJoint,            // a: (rows, depth)
  kJointBackward,    // a, dy (rows, depth)
  kMix,              // gates and vectors of depth columns: (rows, depth)
  kMixBackward,      // a, dy (rows, depth)
  kSoftmax,          // a
  kSoftmaxBackward,  // output, dy
  kL2Norm,           // a
  kL2NormBackward,   // input, dy
  // a, b, and the input of a layer of sequences, (rows / places, places * (columns + 1)): products
  // of rows in f32, (rows, heads * places). depth: places.
  kRowProducts,
  kRowSums,     // a, weights (rows, heads * places): sums of rows, also of the transposed weights
  kColumnSums,  // a: (1, columns)
  kUnscale,     // a (f32), scale (1): a / scale
  kHead,        // a, weights (columns), bias (1): (rows, 1) in f32
  // relu's output a, dy (rows, 1), weights (columns): of relu's input; of weights and bias in f32
  kHeadBackward,
  // a (rows, depth) or transposed, b (depth, columns) or transposed.
  kProduct,              // a, b
  kProductAdded,         // a, b, c
  kProductBias,          // a, b, bias
  kProductRelu,          // a, b, bias
  kProductReluBackward,  // a, b, bias, dy: of what went into relu, d = (dy b) where a b + bias > 0
  kProductGelu,          // a, b, bias: gelu and its input
  kProductGeluBackward,  // a, b, gelu's input
  kProductBiasGradient,  // a, b: the product in f32, and the sum of b's rows; not b transposed
};

// How a product with an epilogue is computed. A device chooses, except for kMisaligned.
enum class ProductPath {
  kFused,
  kPlain,        // A kernel computes the epilogue.
  kWithoutMask,  // The forward product writes no relu mask.
  kKernel,       // No algorithm takes the product.
  kMisaligned,   // All matrices and vectors begin between two aligned addresses.
};

struct KernelRun {
  KernelName name;
  ComputePrecision precision = ComputePrecision::kF32;  // Precision of matrices: f32, bf16 or f16.
  size_t rows = 1;
  size_t columns = 1;
  size_t depth = 1;  // dot, fm, pieces, joint, mix: width of a vector.
  size_t heads = 1;
  bool a_transposed = false;
  bool b_transposed = false;
  ProductPath path = ProductPath::kFused;
  std::vector<std::vector<float>> in;  // Without gaps; rounded to `precision` on the way.
};

struct KernelResult {
  std::vector<std::vector<float>> out;
  // The padding behind rows was NaN and still is.
  bool kept_gaps = true;
};

KernelResult RunKernel(const KernelRun& run);

// Rows of a code's columns, encoded (in 16 bits or int8) as gradients are.
std::vector<std::byte> RunEncode(const VectorCodec& code, float factor, const RoundingKey& key,
                                 const std::vector<float>& values);
// Decodes `width` columns from first_column into rows of `columns` columns, which end in zeros.
std::vector<float> RunDecode(const VectorCodec& code, const std::vector<std::byte>& encoded,
                             size_t first_column, size_t width, size_t columns);

}  // namespace simurgh::testing
