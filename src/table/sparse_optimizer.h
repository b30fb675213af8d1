#pragma once

#include <span>

#include "config/table_config.h"
#include "table/simd/row_update.h"

namespace simurgh {

// The update rules of rows. With learning rate l, gradient g, weight w, epsilon e, dim D:
//
//   sgd               w -= l * g
//   with momentum u   v = u * v + g; w -= l * v
//   with Nesterov's   v = u * v + g; w -= l * (g + u * v)
//   adagrad           w -= l * g / sqrt(s + e), with the old s; then s = s * decay + g * g
//   row-wise adagrad  the same with one s for the row; then s = s * decay + mean(g * g)
//   adam              n += 1; m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g * g;
//                     w -= l / (1 - b1^n) * m / (sqrt(v / (1 - b2^n)) + e)
//   row-wise adam     the same with one v for the row, updated with mean(g * g)
//   ftrl              t = s + g * g; z += g - (sqrt(t) - sqrt(s)) / l * w; s = t;
//                     r = z beyond +-l1; w = -r / ((beta + sqrt(s)) / l + l2)
//   group ftrl        the same, w times max(0, 1 - sqrt(D) * group_l1 / norm(r))
//
// n counts the row's own updates and is stored in the row. Before the rule, a gradient longer than
// max_gradient_norm is scaled to that norm, weight_decay * w is added to the gradient, and
// decoupled_weight_decay * l * w is subtracted from the weight (with adam: AdamW). After the rule,
// each weight is clamped to +-weight_bound.
//
// Source: Duchi et al., JMLR 12 (2011); Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019;
// McMahan et al., KDD 2013; Ni et al., "Adaptive optimizers with sparse group lasso", ECML 2021.

// Parameters of the kernels for a table's rows, with the configured learning rate.
RowUpdateParameters ParametersOf(const TableConfig& config);

// Fills the state of a new row.
void InitializeState(const RowUpdateParameters& parameters, std::span<float> state);

// The same for a row with weights that training is to go on from. FTRL derives the weights from its
// state, so z is what these weights follow from at the configured learning rate.
void InitializeStateFor(const RowUpdateParameters& parameters, std::span<const float> weights,
                        std::span<float> state);

}  // namespace simurgh
