// All rules and their common preparation.

// clang-format off
#if defined(SIMURGH_TABLE_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_RULES_INL_H_
#undef SIMURGH_TABLE_RULES_INL_H_
#else
#define SIMURGH_TABLE_RULES_INL_H_
#endif
// clang-format on

#include <cmath>
#include <cstring>
#include <span>

#include "table/simd/adagrad-inl.h"
#include "table/simd/adam-inl.h"
#include "table/simd/ftrl-inl.h"
#include "table/simd/row_loops-inl.h"
#include "table/simd/sgd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

HWY_INLINE bool Prepares(const RowUpdateParameters& p) {
  return p.max_gradient_norm != 0 || p.l2_decay != 0 || p.decoupled_decay != 0;
}

// Common preparation of a row: clips the gradient, adds the L2 decay to it, and subtracts the
// decoupled decay from the weights. `changed` receives the gradient.
HWY_INLINE RowGradient Prepared(const RowUpdateParameters& p, const RowGradient& row,
                                float* changed) {
  float scale = 1.0F;
  if (p.max_gradient_norm > 0) {
    const float norm = std::sqrt(SumOfSquares(row.gradient, p.dim));
    if (norm > p.max_gradient_norm) scale = p.max_gradient_norm / norm;
  }
  const float kept = 1.0F - p.learning_rate * p.decoupled_decay;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto weights = hn::LoadU(d, row.weights + i);
    const auto gradient = hn::Mul(hn::Set(d, scale), hn::LoadU(d, row.gradient + i));
    hn::StoreU(hn::Add(gradient, hn::Mul(hn::Set(d, p.l2_decay), weights)), d, changed + i);
    hn::StoreU(hn::Mul(weights, hn::Set(d, kept)), d, row.weights + i);
  });
  return {row.weights, changed};
}

// Checks row by row, which costs more than ForRows.
template <typename Rule>
HWY_INLINE NotFinite ForCheckedRows(const RowUpdateParameters& p, std::span<const RowGradient> rows,
                                    const Rule& rule) {
  const uint32_t floats = p.dim + StateShapeOf(p.rule).floats(p.dim);
  HWY_ALIGN float changed[kMaxRowDim];
  HWY_ALIGN float old[kMaxRowFloats];
  NotFinite found;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowGradient& row = rows[i];
    FiniteCheck gradient;
    gradient.Add(row.gradient, p.dim);
    if (!gradient.all_finite()) {
      found.gradients |= uint64_t{1} << i;
      continue;
    }
    if (p.keeps_old_row) std::memcpy(old, row.weights, floats * sizeof(float));
    FiniteCheck result;
    rule(p, Prepares(p) ? Prepared(p, row, changed) : row, result);
    if (result.all_finite()) continue;
    found.rows |= uint64_t{1} << i;
    if (p.keeps_old_row) std::memcpy(row.weights, old, floats * sizeof(float));
  }
  return found;
}

template <typename Rule>
HWY_INLINE NotFinite ForRows(const RowUpdateParameters& p, std::span<const RowGradient> rows,
                             const Rule& rule) {
  FiniteCheck gradients;
  for (const RowGradient& row : rows) gradients.Add(row.gradient, p.dim);
  if (p.keeps_old_row || !gradients.all_finite()) return ForCheckedRows(p, rows, rule);
  FiniteCheck results;
  if (Prepares(p)) {
    HWY_ALIGN float changed[kMaxRowDim];
    for (const RowGradient& row : rows) rule(p, Prepared(p, row, changed), results);
  } else {
    for (const RowGradient& row : rows) rule(p, row, results);
  }
  NotFinite found;
  if (results.all_finite()) return found;
  const uint32_t floats = p.dim + StateShapeOf(p.rule).floats(p.dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    FiniteCheck row;
    row.Add(rows[i].weights, floats);
    if (!row.all_finite()) found.rows |= uint64_t{1} << i;
  }
  return found;
}

HWY_INLINE NotFinite ApplyRule(const RowUpdateParameters& parameters,
                               std::span<const RowGradient> rows) {
  switch (parameters.rule) {
    case RowUpdateRule::kSgd:
      return ForRows(parameters, rows, UpdateSgd);
    case RowUpdateRule::kMomentum:
      return ForRows(parameters, rows, UpdateMomentum<false>);
    case RowUpdateRule::kNesterov:
      return ForRows(parameters, rows, UpdateMomentum<true>);
    case RowUpdateRule::kAdagrad:
      return ForRows(parameters, rows, UpdateAdagrad);
    case RowUpdateRule::kRowWiseAdagrad:
      return ForRows(parameters, rows, UpdateRowWiseAdagrad);
    case RowUpdateRule::kAdam:
      return ForRows(parameters, rows, UpdateAdam);
    case RowUpdateRule::kRowWiseAdam:
      return ForRows(parameters, rows, UpdateRowWiseAdam);
    case RowUpdateRule::kFtrl:
      return ForRows(parameters, rows, UpdateFtrl);
    case RowUpdateRule::kGroupFtrl:
      return ForRows(parameters, rows, UpdateGroupFtrl);
  }
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
