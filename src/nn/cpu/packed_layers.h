#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "nn/model_plan.h"
#include "tensor/matrix_view.h"

// Linear layers with weights in the order in which oneDNN's product reads them. sgemm brings them
// into that order at each call.
namespace simurgh::cpu {

// Packed weights of a model.
//
// Threads: immutable; shared.
class PackedLayers {
 public:
  // weights: in the layout of the parameters. Layers for which oneDNN has no other order on this
  // processor, and narrow ones, are left out. Errors: RESOURCE_EXHAUSTED.
  static StatusOr<std::unique_ptr<const PackedLayers>> Create(const ModelPlan& plan,
                                                              std::span<const float> weights);
  ~PackedLayers();

  size_t bytes() const;

 private:
  friend class PackedProducts;
  struct State;
  explicit PackedLayers(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

// Computes packed layers of models with the same plan.
//
// Threads: one owner.
class PackedProducts {
 public:
  PackedProducts();
  ~PackedProducts();
  PackedProducts(PackedProducts&&) noexcept;

  // Returns whether the layer is packed.
  static bool Has(const PackedLayers& packed, const LayerPlan& layer);

  // output = input * weight + bias, (B, O), overwritten; relu: with negative numbers set to 0.
  // Requires Has(). input: (B, I); both have a stride of their columns.
  // Errors: INTERNAL when oneDNN fails.
  Status Forward(const PackedLayers& packed, const LayerPlan& layer, std::span<const float> bias,
                 bool relu, MatrixView<const float> input, MatrixView<float> output);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh::cpu
