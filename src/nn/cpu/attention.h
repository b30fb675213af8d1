#pragma once

#include <span>

#include "base/status.h"
#include "nn/cpu/predict_pass.h"
#include "nn/model_plan.h"
#include "tensor/matrix_view.h"

// Layers that pool a sequence: the rows of a raw feature, of which each sample has some first ones.
//
// B batch, D width of a row, L places. Outputs, (B, D), and input gradients are overwritten; the
// gradients of empty places and of the mask are 0. A sample without rows gives zeros.
namespace simurgh::cpu {

struct Sequence {
  MatrixView<const float> query;  // (B, D); only of attention, else (B, 0).
  MatrixView<const float> rows;   // (B, L * D)
  MatrixView<const float> mask;   // (B, L): 1 for a row, 0 for an empty place. Ones come first.
};

// Returns the parts of the layer's input.
Sequence SequenceOf(const LayerPlan& layer, MatrixView<const float> input);

// Computes the mean of a sample's rows.
void MeanForward(const Sequence& sequence, MatrixView<float> output);
void MeanBackward(const Sequence& sequence, MatrixView<const float> output_gradient,
                  MatrixView<float> input_gradient);

// Copies a sample's last row.
void LastForward(const Sequence& sequence, MatrixView<float> output);
void LastBackward(const Sequence& sequence, MatrixView<const float> output_gradient,
                  MatrixView<float> input_gradient);

// Computes the sum of a sample's rows k, each times a weight that the layer's scorer computes from
// (q, k, q - k, q * k) with the query q. The weights are not normalised, so the sum depends on how
// much of the sequence fits the query. Only rows are computed, no empty places.
//
// activations: keeps the scorer's layers for the backward pass.
// Errors: INTERNAL when oneDNN fails.
// Source: Zhou et al., "Deep Interest Network", KDD 2018, section 4.3; with q - k and q * k in
// place of the outer product, as in the authors' program.
Status AttentionForward(const LayerPlan& layer, std::span<const float> weights,
                        const Sequence& sequence, Workspace& activations, MatrixView<float> output);

struct AttentionScratch {
  Workspace& activations;  // Activations of the forward pass.
  Workspace& gradients;    // Keeps those of the scorer's layers for the weights' gradients.
};
Status AttentionBackward(const LayerPlan& layer, std::span<const float> weights,
                         const Sequence& sequence, const AttentionScratch& scratch,
                         MatrixView<const float> output_gradient, MatrixView<float> input_gradient);

// Computes the gradients of the weights after AttentionBackward. weight_gradients: the layer's part
// is overwritten.
Status AttentionBackwardWeights(const LayerPlan& layer, const Sequence& sequence,
                                const AttentionScratch& scratch, std::span<float> weight_gradients);

}  // namespace simurgh::cpu
