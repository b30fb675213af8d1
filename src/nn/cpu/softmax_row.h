#pragma once

#include <cstddef>
#include <span>

// The arithmetic of one sample's softmax over many items, with SIMD. Numbers are f32, and sums f64.
// The order of a sum depends on the processor's vector length.
//
// Threads: the functions have no state.
namespace simurgh::cpu {

// Replaces each score by `scale` times itself minus its correction. corrections: as long as scores.
void CorrectScores(float scale, std::span<const float> corrections, std::span<float> scores);

// Replaces the scores of sample `own` by their gradient for a loss of `factor` times the cross
// entropy. Returns the cross entropy. A score of minus infinity does not compete; a score that is
// not a number makes all results so. own: below the number of scores.
double CrossEntropyRow(size_t own, double factor, std::span<float> scores);

}  // namespace simurgh::cpu
