#pragma once

#include <span>

#include "base/status.h"
#include "nn/cpu/attention.h"
#include "nn/cpu/predict_pass.h"
#include "nn/model_plan.h"
#include "tensor/matrix_view.h"

// A transformer block over a sequence: y = norm_2(z + linear_2(relu(linear_1(z)))) with
// z = norm_1(x + out(attention(x))) and x = row + vector of its place. Only rows are computed, and
// read by the attention; empty places are 0.
//
// B batch, L places, D width of a row. Source: Vaswani et al., "Attention is all you need",
// NeurIPS 2017, as torch.nn.TransformerEncoderLayer(norm_first=False, dropout=0) computes it.
// Errors: INTERNAL when oneDNN fails.
namespace simurgh::cpu {

// activations: keeps the layers inside for the backward pass. output: (B, L * D), overwritten.
Status SelfAttentionForward(const LayerPlan& layer, std::span<const float> weights,
                            const Sequence& sequence, Workspace& activations,
                            MatrixView<float> output);

// input_gradient: that of the rows, then of the mask, which is 0; overwritten.
Status SelfAttentionBackward(const LayerPlan& layer, std::span<const float> weights,
                             const Sequence& sequence, const AttentionScratch& scratch,
                             MatrixView<const float> output_gradient,
                             MatrixView<float> input_gradient);

// Computes the gradients of the weights after SelfAttentionBackward. weight_gradients: the layer's
// part is overwritten.
Status SelfAttentionBackwardWeights(const LayerPlan& layer, const Sequence& sequence,
                                    const AttentionScratch& scratch,
                                    std::span<float> weight_gradients);

}  // namespace simurgh::cpu
