#include "rpc/error.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "rpc/control.h"

namespace simurgh::rpc {
namespace {

uint32_t Number(const Status& status, const char* type, uint32_t otherwise) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type);
  uint32_t value = 0;
  return payload && absl::SimpleAtoi(std::string(*payload), &value) ? value : otherwise;
}

Status WithNumber(Status status, const char* type, uint32_t value) {
  const std::string digits = absl::StrCat(value);
  status.SetPayload(type, absl::Cord(absl::string_view(digits)));
  return status;
}

}  // namespace

Execution ExecutionOf(const Status& status) {
  const auto otherwise = static_cast<uint32_t>(Execution::kMaybeExecuted);
  return static_cast<Execution>(Number(status, kExecutionPayload, otherwise));
}

Status WithExecution(Status status, Execution execution) {
  return WithNumber(std::move(status), kExecutionPayload, static_cast<uint32_t>(execution));
}

Status WithDetail(Status status, uint16_t detail) {
  return WithNumber(std::move(status), kDetailPayload, detail);
}

uint16_t DetailOf(const Status& status) {
  return static_cast<uint16_t>(Number(status, kDetailPayload, 0));
}

}  // namespace simurgh::rpc
