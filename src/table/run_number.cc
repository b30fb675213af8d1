#include "simurgh/table/run_number.h"

#include "absl/strings/str_cat.h"

namespace simurgh {

Status SupersededError(uint64_t newest) {
  return absl::FailedPreconditionError(absl::StrCat("a newer start of this training, generation ",
                                                    GenerationOf(newest),
                                                    ", has taken over; stop this one"));
}

}  // namespace simurgh
