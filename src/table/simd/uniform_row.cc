// Compiled once per vector extension, see row_update.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/uniform_row.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <algorithm>

#include <hwy/highway.h>

#include "simurgh/base/random.h"
#include "table/simd/mix64-inl.h"
#include "table/simd/uniform_row.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

// Offsets of the first draws from the seed.
struct Steps {
  constexpr Steps() {
    for (size_t i = 0; i < kCount; ++i) values[i] = (i + 1) * Random::kIncrement;
  }
  static constexpr size_t kCount = hn::MaxLanes(Words());
  HWY_ALIGN uint64_t values[kCount] = {};
};
constexpr Steps kSteps;

HWY_INLINE void FillRow(const UniformRange& range, uint32_t dim, const UniformRow& to) {
  const Words draws;
  const hn::Repartition<int32_t, decltype(draws)> integers;
  const hn::RebindToFloat<decltype(integers)> floats;
  const auto numbers = static_cast<uint32_t>(2 * hn::Lanes(draws));
  auto state = hn::Add(hn::Set(draws, to.seed), hn::Load(draws, kSteps.values));
  const auto next = hn::Set(draws, hn::Lanes(draws) * Random::kIncrement);
  for (uint32_t i = 0; i < dim; i += numbers) {
    const auto bits = Mixed(state);
    state = hn::Add(state, next);
    const auto first = hn::ShiftRight<40>(bits);
    const auto second =
        hn::ShiftLeft<32>(hn::And(hn::ShiftRight<16>(bits), hn::Set(draws, uint64_t{0xffffff})));
    const auto unit = hn::Mul(hn::ConvertTo(floats, hn::BitCast(integers, hn::Or(first, second))),
                              hn::Set(floats, 0x1.0p-24F));
    const auto value =
        hn::Min(hn::Add(hn::Set(floats, range.low), hn::Mul(unit, hn::Set(floats, range.width))),
                hn::Set(floats, range.highest));
    if (i + numbers <= dim) {
      hn::StoreU(value, floats, to.row + i);
    } else {
      HWY_ALIGN float last[hn::MaxLanes(floats)];
      hn::Store(value, floats, last);
      std::copy_n(last, dim - i, to.row + i);
    }
  }
}

void FillUniformHere(const UniformRange& given, uint32_t dim, std::span<const UniformRow> rows) {
  const UniformRange range = given;  // A local copy: the stores below cannot alias it.
  for (const UniformRow& row : rows) FillRow(range, dim, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(FillUniformHere);

void FillUniform(const UniformRange& range, uint32_t dim, std::span<const UniformRow> rows) {
  HWY_DYNAMIC_DISPATCH(FillUniformHere)(range, dim, rows);
}

}  // namespace simurgh
#endif
