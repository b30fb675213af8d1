// Compiled once for each vector extension.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/softmax_row.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <cmath>
#include <limits>

#include <hwy/highway.h>
// Must follow highway.h.
#include <hwy/contrib/math/math-inl.h>

#include "nn/cpu/softmax_row.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Many = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;

// Calls `step(tag, i)` for SIMD vectors of elements, with single ones at the end.
template <typename Step>
HWY_INLINE void ForVectors(size_t count, const Step& step) {
  const Many many;
  size_t i = 0;
  for (; i + hn::Lanes(many) <= count; i += hn::Lanes(many)) step(many, i);
  for (; i < count; ++i) step(One(), i);
}

void CorrectScoresImpl(float scale, std::span<const float> corrections, std::span<float> scores) {
  ForVectors(scores.size(), [&](auto tag, size_t i) HWY_ATTR {
    const auto score = hn::LoadU(tag, scores.data() + i);
    const auto correction = hn::LoadU(tag, corrections.data() + i);
    hn::StoreU(hn::MulSub(score, hn::Set(tag, scale), correction), tag, scores.data() + i);
  });
}

float LargestOf(std::span<const float> scores) {
  const Many many;
  auto largest = hn::Set(many, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + hn::Lanes(many) <= scores.size(); i += hn::Lanes(many)) {
    largest = hn::Max(largest, hn::LoadU(many, scores.data() + i));
  }
  float result = hn::GetLane(hn::MaxOfLanes(many, largest));
  for (; i < scores.size(); ++i) result = scores[i] > result ? scores[i] : result;
  return result;
}

// hn::Exp() makes 0 of what is not a number.
template <class D>
HWY_INLINE hn::VFromD<D> ExpOf(D d, hn::VFromD<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

// Replaces the scores by exp(score - largest), and returns their sum.
double Exponentials(float largest, std::span<float> scores) {
  const Many many;
  const hn::RepartitionToWide<hn::RebindToFloat<Many>> f64;
  const hn::Half<Many> half;
  auto lower = hn::Zero(f64);
  auto upper = hn::Zero(f64);
  size_t i = 0;
  for (; i + hn::Lanes(many) <= scores.size(); i += hn::Lanes(many)) {
    const auto shifted = hn::Sub(hn::LoadU(many, scores.data() + i), hn::Set(many, largest));
    const auto value = ExpOf(many, shifted);
    hn::StoreU(value, many, scores.data() + i);
    lower = hn::Add(lower, hn::PromoteTo(f64, hn::LowerHalf(half, value)));
    upper = hn::Add(upper, hn::PromoteTo(f64, hn::UpperHalf(half, value)));
  }
  double sum = hn::GetLane(hn::SumOfLanes(f64, hn::Add(lower, upper)));
  for (; i < scores.size(); ++i) {
    scores[i] = std::exp(scores[i] - largest);
    sum += double{scores[i]};
  }
  return sum;
}

double CrossEntropyRowImpl(size_t own, double factor, std::span<float> scores) {
  const float largest = LargestOf(scores);
  const double own_score = double{scores[own]} - double{largest};
  const double sum = Exponentials(largest, scores);
  // The own term last: a share near 1 would cancel.
  const double others = sum - double{scores[own]};
  const auto scale = static_cast<float>(factor / sum);
  ForVectors(scores.size(), [&](auto tag, size_t i) HWY_ATTR {
    const auto value = hn::LoadU(tag, scores.data() + i);
    hn::StoreU(hn::Mul(value, hn::Set(tag, scale)), tag, scores.data() + i);
  });
  scores[own] = static_cast<float>(-factor * (others / sum));
  return std::log(sum) - own_score;
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh::cpu {

HWY_EXPORT(CorrectScoresImpl);
HWY_EXPORT(CrossEntropyRowImpl);

void CorrectScores(float scale, std::span<const float> corrections, std::span<float> scores) {
  HWY_DYNAMIC_DISPATCH(CorrectScoresImpl)(scale, corrections, scores);
}

double CrossEntropyRow(size_t own, double factor, std::span<float> scores) {
  return HWY_DYNAMIC_DISPATCH(CrossEntropyRowImpl)(own, factor, scores);
}

}  // namespace simurgh::cpu
#endif
