#pragma once

#include <sstream>

namespace simurgh::internal {

// Prints the message and aborts in its destructor.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

}  // namespace simurgh::internal

// Aborts with place, condition and the streamed text unless the condition holds. For programming
// errors only: use Status for errors that input, files, peers or the machine can cause.
#define SIMURGH_CHECK(condition)    \
  while (!(condition)) [[unlikely]] \
  ::simurgh::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define SIMURGH_CHECK_OP_(a, b, op) SIMURGH_CHECK((a)op(b)) << " (" << (a) << " vs " << (b) << ") "
#define SIMURGH_CHECK_EQ(a, b) SIMURGH_CHECK_OP_(a, b, ==)
#define SIMURGH_CHECK_LT(a, b) SIMURGH_CHECK_OP_(a, b, <)
#define SIMURGH_CHECK_LE(a, b) SIMURGH_CHECK_OP_(a, b, <=)
