#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/predict_pass.h"
#include "nn/model_plan.h"
#include "tensor/matrix_view.h"

// Layers that pool a sequence: rows of which each sample has some first ones.
//
// B batch, D width of a row, L places. Outputs, (B, D), and input gradients are overwritten; the
// gradients of empty places and of the mask are 0. A sample without rows gives zeros.
namespace simurgh::cpu {

struct Sequence {
  MatrixView<const float> query;  // (B, Q) with Q at most D; only of attention, else (B, 0).
  MatrixView<const float> rows;   // (B, L * D)
  MatrixView<const float> mask;   // (B, L): 1 for a row, 0 for an empty place. Ones come first.
};

// Returns the parts of the layer's input.
Sequence SequenceOf(const LayerPlan& layer, MatrixView<const float> input);

// Returns the place of each sample's first row among those of the batch, then their number.
std::vector<size_t> FirstRows(const Sequence& sequence);

// Calls work(sample) for all samples, on the compute threads.
template <typename Work>
void ForSamples(const Sequence& sequence, const Work& work) {
  ForEachPart(sequence.rows.rows(), MinRows(sequence.rows.columns()),
              [&](size_t first, size_t end) {
                for (size_t sample = first; sample < end; ++sample) work(sample);
              });
}

// Computes the mean of a sample's rows.
void MeanForward(const Sequence& sequence, MatrixView<float> output);
void MeanBackward(const Sequence& sequence, MatrixView<const float> output_gradient,
                  MatrixView<float> input_gradient);

// Copies a sample's last row.
void LastForward(const Sequence& sequence, MatrixView<float> output);
void LastBackward(const Sequence& sequence, MatrixView<const float> output_gradient,
                  MatrixView<float> input_gradient);

// Computes the sum of a sample's rows k, each times a weight that the inner layers compute from
// (q, k, q - k, q * k) with the query q. The last two are of the columns that the query has.
// Without softmax the sum depends on how much of the sequence fits the query. Only rows are
// computed, no empty places.
//
// The statistics of dice are those of the batch's rows: a training step computes them, over all
// ranks if they share them, and prediction takes the running ones.
//
// activations: keeps the inner layers for the backward pass. training: null in prediction.
// Errors: INTERNAL when oneDNN fails.
// Source: Zhou et al., "Deep Interest Network", KDD 2018, section 4.3; with q - k and q * k in
// place of the outer product, as in the authors' program.
struct RowStatistics {
  std::span<float> batch;                                      // In the layout of the running ones.
  const std::function<Status(std::span<double> values)>& sum;  // Over ranks; empty: of this rank.
  uint64_t rows = 0;  // Rows of the statistics, found in the forward pass.
};
Status AttentionForward(const LayerPlan& layer, std::span<const float> weights,
                        std::span<const float> running, const Sequence& sequence,
                        Workspace& activations, RowStatistics* training, MatrixView<float> output);

struct AttentionScratch {
  Workspace& activations;  // Activations of the forward pass.
  Workspace& gradients;    // Keeps those of the inner layers for the weights' gradients.
};
// training: that of the forward pass.
Status AttentionBackward(const LayerPlan& layer, std::span<const float> weights,
                         const RowStatistics& training, const Sequence& sequence,
                         const AttentionScratch& scratch, MatrixView<const float> output_gradient,
                         MatrixView<float> input_gradient);

// Computes the gradients of the weights after AttentionBackward. weight_gradients: the layer's part
// is overwritten.
Status AttentionBackwardWeights(const LayerPlan& layer, const Sequence& sequence,
                                const AttentionScratch& scratch, std::span<float> weight_gradients);

// Takes part in the sums over the ranks of a step in which this one has no samples.
Status AttentionTakePartForward(const LayerPlan& layer, RowStatistics& training);
Status AttentionTakePartBackward(const LayerPlan& layer, const RowStatistics& training);

}  // namespace simurgh::cpu
