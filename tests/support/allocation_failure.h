#pragma once

namespace simurgh {

// Whether an allocation that no memory can hold throws, as it should: the sanitizers end the
// process instead. Tests of what follows then leave themselves out.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SIMURGH_SANITIZER_ENDS_PROCESS 1
#endif
#endif
#ifdef SIMURGH_SANITIZER_ENDS_PROCESS
inline constexpr bool kAllocationsThrow = false;
#else
inline constexpr bool kAllocationsThrow = true;
#endif

}  // namespace simurgh
