#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "simurgh/base/status.h"

namespace simurgh::rpc {

// Numbers that ride on a status as payloads.

inline uint32_t NumberOf(const Status& status, const char* type, uint32_t otherwise) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type);
  uint32_t value = 0;
  return payload && absl::SimpleAtoi(std::string(*payload), &value) ? value : otherwise;
}

inline Status WithNumber(Status status, const char* type, uint32_t value) {
  const std::string digits = absl::StrCat(value);
  status.SetPayload(type, absl::Cord(absl::string_view(digits)));
  return status;
}

}  // namespace simurgh::rpc
