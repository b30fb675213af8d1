// Mix64 of base/hash.h on vectors.

// clang-format off
#if defined(SIMURGH_TABLE_MIX64_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_MIX64_INL_H_
#undef SIMURGH_TABLE_MIX64_INL_H_
#else
#define SIMURGH_TABLE_MIX64_INL_H_
#endif
// clang-format on

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 256 bits: 512-bit products lower the clock of some processors, which costs insertions a
// tenth.
using Words = hn::CappedTag<uint64_t, 4>;

template <class V>
HWY_INLINE V Mixed(V x) {
  const hn::DFromV<V> d;
  x = hn::Xor(x, hn::ShiftRight<30>(x)) * hn::Set(d, 0xbf58476d1ce4e5b9ULL);
  x = hn::Xor(x, hn::ShiftRight<27>(x)) * hn::Set(d, 0x94d049bb133111ebULL);
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
