#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "simurgh/base/cpu_isa.h"

int main(int argc, char** argv) {
  simurgh::LimitSimdFromEnvironment();
  return Catch::Session().run(argc, argv);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Debian's abseil is not instrumented: the sanitizer sees the last owner of a status free its
// message, but not the reference count that orders it after the reads of the other owners. Nor is
// oneDNN, of whose primitives that threads share it sees memory, but not what hands them over.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libdnnl.so\n";
}
#endif
#endif
