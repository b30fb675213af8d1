#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/status.h"
#include "services/runtime/train_environment.h"
#include "simurgh/arrow_c_data.h"

namespace simurgh::library {

// Runs the body of a function of the C interface. Returns its code, and keeps its error for
// simurgh_last_error(). Exceptions become errors. Threads: any.
int Call(const std::function<Status()>& body) noexcept;

// The code of an error. START_AGAIN only for errors that AsStartAgain() has made.
int CodeOf(const Status& status);
Status AsStartAgain(const Status& status);

// Checks a pointer to numbers that the caller has filled. name: for the error.
Status CheckPointer(const void* pointer, const std::string& name);

// Checks the `size` member of a struct that the caller has filled. name: the struct's, for the
// error.
Status CheckSize(uint64_t given, uint64_t known, const char* name);

// Checks that a handle is of this process. kind: "worker". opener: its process. Errors:
// INVALID_ARGUMENT after a fork.
Status CheckProcess(const char* kind, pid_t opener);

// Errors: INVALID_ARGUMENT unless there is a table that has not been released.
Status CheckTable(const ArrowArrayStream* table);

// Releases a table that nothing has taken over, at the end of a call.
//
// Threads: one owner.
class ReleasedTable {
 public:
  explicit ReleasedTable(ArrowArrayStream* table) : table_(table) {}
  ~ReleasedTable() {
    if (table_->release != nullptr) table_->release(table_);
  }
  ReleasedTable(const ReleasedTable&) = delete;
  ReleasedTable& operator=(const ReleasedTable&) = delete;

 private:
  ArrowArrayStream* const table_;
};

struct ConfigChoice {
  std::string path;
  std::vector<std::string> overrides;
};
// Returns the configuration of `simurgh train`, if that has started this process, else the given
// one, with the given overrides. path: may be null. Errors: INVALID_ARGUMENT without either, or for
// two different ones.
StatusOr<ConfigChoice> ChooseConfig(const std::optional<TrainEnvironment>& environment,
                                    const char* path, const char* const* overrides,
                                    uint64_t override_count);

}  // namespace simurgh::library
