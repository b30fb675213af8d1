#pragma once

#include <cstddef>
#include <span>

#include "tensor/matrix_view.h"

// Interactions of V consecutive vectors, each D wide, in a sample's columns.
//
// input, input_gradient: (B, V * D). Outputs are overwritten. The order of every sum depends only
// on V, D and the processor's vector extension.
namespace simurgh::cpu {

// Returns the floats of scratch memory for DotForward and DotBackward.
size_t DotScratchSize(size_t vectors, size_t dim);

// Computes the dot products of all pairs (1, 0), (2, 0), (2, 1), (3, 0) and so on.
// output: (B, V (V - 1) / 2).
// Source: Naumov et al., "Deep Learning Recommendation Model", 2019.
void DotForward(MatrixView<const float> input, size_t dim, std::span<float> scratch,
                MatrixView<float> output);
void DotBackward(MatrixView<const float> input, size_t dim, MatrixView<const float> output_gradient,
                 std::span<float> scratch, MatrixView<float> input_gradient);

// Computes the sum of the dot products of all pairs as (|sum of the vectors|^2 - sum of their
// squares) / 2. output: (B, 1).
// Source: Rendle, "Factorization Machines", ICDM 2010, lemma 3.1.
void FmForward(MatrixView<const float> input, size_t dim, MatrixView<float> output);
void FmBackward(MatrixView<const float> input, size_t dim, MatrixView<const float> output_gradient,
                MatrixView<float> input_gradient);

// Computes the sums of equal pieces of a sample's columns. output: (B, pieces).
void SumForward(MatrixView<const float> input, MatrixView<float> output);
void SumBackward(MatrixView<const float> output_gradient, MatrixView<float> input_gradient);

// Computes the softmax of a sample's columns. output: (B, V).
void SoftmaxForward(MatrixView<const float> input, MatrixView<float> output);
void SoftmaxBackward(MatrixView<const float> output, MatrixView<const float> output_gradient,
                     MatrixView<float> input_gradient);

// Computes the sum of K vectors, each times a gate. input: (B, K + K * D), gates first. output: (B,
// D).
// Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
// Mixture-of-Experts", KDD 2018, equation 6.
void MixForward(MatrixView<const float> input, size_t terms, MatrixView<float> output);
void MixBackward(MatrixView<const float> input, size_t terms,
                 MatrixView<const float> output_gradient, MatrixView<float> input_gradient);

}  // namespace simurgh::cpu
