#define CATCH_CONFIG_RUNNER
#include <iostream>

#include <catch2/catch.hpp>

#include "base/cpu_isa.h"
#include "tests/support/skip.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Debian's abseil is not instrumented: the sanitizer sees the last owner of a status free its
// message, but not the reference count that orders it after the reads of the other owners.
// The same holds for primitives of oneDNN that threads share. hnswlib's threads draw the levels of
// new items from one generator without a lock: a lost draw does no harm.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libdnnl.so\n"
         "race:hnswlib::HierarchicalNSW*::getRandomLevel\n";
}
#endif
#endif

namespace simurgh::testing {
namespace {

constexpr int kAllSkipped = 77;  // SKIP_RETURN_CODE of simurgh_test.

int cases = 0;
int skipped_cases = 0;
bool case_is_skipped = false;

struct SkipCounter : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override { case_is_skipped = false; }
  void testCaseEnded(const Catch::TestCaseStats&) override {
    ++cases;
    skipped_cases += case_is_skipped ? 1 : 0;
  }
};

CATCH_REGISTER_LISTENER(SkipCounter)

}  // namespace

void SkipCase(std::string_view reason) {
  // Once per case: sections and generators run a case several times.
  if (!case_is_skipped) {
    std::cout << "SKIPPED: " << Catch::getResultCapture().getCurrentTestName() << ": " << reason
              << std::endl;
  }
  case_is_skipped = true;
  throw Catch::TestFailureException();  // Ends a case without failing it.
}

}  // namespace simurgh::testing

int main(int argc, char* argv[]) {
  using simurgh::testing::cases;
  using simurgh::testing::skipped_cases;
  simurgh::LimitSimdFromEnvironment();
  const int result = Catch::Session().run(argc, argv);
  const bool all_skipped = result == 0 && cases > 0 && skipped_cases == cases;
  if (all_skipped) return simurgh::testing::kAllSkipped;
  // Catch2 2 returns the number of failures, which may be that of a skipped test.
  return result == 0 ? 0 : 1;
}
