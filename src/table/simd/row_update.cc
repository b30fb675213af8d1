// Highway compiles this file once per vector extension and selects the widest one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/row_update.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include "table/simd/row_update.h"
#include "table/simd/rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

NotFinite UpdateRowsHere(const RowUpdateParameters& parameters, std::span<const RowGradient> rows) {
  return ApplyRule(parameters, rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(UpdateRowsHere);

NotFinite UpdateRows(const RowUpdateParameters& parameters, std::span<const RowGradient> rows) {
  return HWY_DYNAMIC_DISPATCH(UpdateRowsHere)(parameters, rows);
}

}  // namespace simurgh
#endif
