#include "services/library/interface.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

#include "base/version.h"
#include "simurgh/simurgh.h"

namespace simurgh::library {
namespace {

constexpr char kStartAgain[] = "simurgh/start-again";

std::string& LastError() {
  thread_local std::string text;
  return text;
}

}  // namespace

int CodeOf(const Status& status) {
  if (status.ok()) return SIMURGH_OK;
  if (status.GetPayload(kStartAgain)) return SIMURGH_START_AGAIN;
  const bool is_invalid = absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status) ||
                          absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
  return is_invalid ? SIMURGH_INVALID : SIMURGH_FAILED;
}

Status AsStartAgain(const Status& status) {
  Status marked = status;
  marked.SetPayload(kStartAgain, absl::Cord());
  return marked;
}

Status CheckPointer(const void* pointer, const std::string& name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": NULL, expected an array"));
}

Status CheckTable(const ArrowArrayStream* table) {
  SIMURGH_RETURN_IF_ERROR(CheckPointer(table, "table"));
  if (table->release != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("table: its stream is released; give a new one for each call");
}

Status CheckSize(uint64_t given, uint64_t known, const char* name) {
  if (given == known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ".size: ", given, ", but the library of version ", Version(), " has ",
                   known, "; set it to sizeof, and use the header of the library"));
}

Status CheckProcess(const char* kind, pid_t opener) {
  if (getpid() == opener) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the ", kind, " belongs to process ", opener, ", which has forked this one; open ", kind,
      "s after the fork, for example with the start method 'spawn'"));
}

StatusOr<ConfigChoice> ChooseConfig(const std::optional<TrainEnvironment>& environment,
                                    const char* path, const char* const* overrides,
                                    uint64_t override_count) {
  ConfigChoice choice;
  if (environment) {
    choice = {.path = environment->config, .overrides = environment->overrides};
    std::error_code ignored;
    if (path != nullptr && !std::filesystem::equivalent(path, environment->config, ignored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the program opens ", path, ", but simurgh train runs ", environment->config,
                       "; use one configuration"));
    }
  } else if (path != nullptr) {
    choice.path = path;
  } else {
    return absl::InvalidArgumentError(
        "the configuration is missing: name a YAML file, or run the program by simurgh train "
        "CONFIG -- PROGRAM");
  }
  choice.overrides.insert(choice.overrides.end(), overrides, overrides + override_count);
  return choice;
}

int Call(const std::function<Status()>& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return SIMURGH_OK;
    LastError() = std::string(status.message());
    return CodeOf(status);
  } catch (const std::exception& error) {
    LastError() = error.what();
    return SIMURGH_FAILED;
  }
}

}  // namespace simurgh::library

uint32_t simurgh_interface_version(void) { return SIMURGH_INTERFACE_VERSION; }

const char* simurgh_version(void) { return simurgh::Version(); }

const char* simurgh_last_error(void) { return simurgh::library::LastError().c_str(); }
