#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Number of items in a block of ScoreBlocks(): their vectors fill half of a core's second cache.
size_t ItemsOfBlock(size_t dim);

// Calls work(first, scores) for blocks of items, in order. scores, (Q, items of the block): the dot
// products of all queries, (Q, D), and the items, (N, D), from number `first` on; they may be
// changed. Lifetime of the scores: until the return of work(). A score that exceeds f32 is infinite
// or NaN. Computes on this thread's compute threads; see nn/cpu/compute_threads.h.
//
// Memory: Q * ItemsOfBlock(D) floats, which the thread keeps. Callers split many queries.
// Errors: INTERNAL when oneDNN fails.
Status ScoreBlocks(MatrixView<const float> queries, MatrixView<const float> items,
                   absl::FunctionRef<void(size_t first, MatrixView<float> scores)> work);

}  // namespace simurgh
