#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "nn/cuda/gemm.h"

namespace simurgh::cuda {

// Number formats of a product's operands or result; kTf32: f32 in memory.
enum class Element { kF32, kTf32, kBf16, kF16 };

// A kind of product, and the samples of its batch.
struct ProductKind {
  Element in, out;
  bool a_transposed, b_transposed, adds;
  Epilogue epilogue;
  size_t columns;
  size_t others;  // The depth, or if a is transposed, the rows.
  size_t batch;   // The rows, or if a is transposed, the depth.

  auto operator<=>(const ProductKind&) const = default;
};

// Returns the kind in the format of a line of the table.
std::string ToString(const ProductKind& kind);

// The fastest way to compute a product.
struct ProductChoice {
  size_t batch = 0;        // Batch of the measurement.
  bool fuses = true;       // The product computes the epilogue; else a kernel does.
  uint32_t algorithm = 0;  // Index into the library's answers for `batch`.
};

// Returns the choice for a product. Without one, the library's first answer for the fused product
// counts.
using ChooseProduct = std::function<std::optional<ProductChoice>(const ProductKind& kind)>;

// Measured choices for one device and version of cuBLASLt. They depend on nothing that a run
// measures, so equal runs compute equal bits.
//
// A line of the table is "[device; version of cuBLASLt]", or a choice for the last such pair:
//
//   IN OUT ab[+] EPILOGUE COLUMNS OTHERS BATCH fused|plain ALGORITHM
//
// a, b: n or t, as in Gemm; +: adds a matrix. Empty lines and those with # have no meaning.
class ProductChoices {
 public:
  // Errors: INVALID_ARGUMENT with the number of the line.
  static StatusOr<ProductChoices> Parse(std::string_view table, std::string_view device,
                                        size_t version);
  // Returns the choices in the table of product_choices.cc.
  static ProductChoices Shipped(std::string_view device, size_t version);

  // Returns the choice of the next measured batch, if it is at most four times as large.
  std::optional<ProductChoice> Find(const ProductKind& kind) const;

 private:
  std::map<ProductKind, ProductChoice> choices_;
};

}  // namespace simurgh::cuda
