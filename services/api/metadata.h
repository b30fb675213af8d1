#pragma once

#include <cstddef>
#include <span>

#include <flatbuffers/flatbuffers.h>

#include "simurgh/base/status.h"

namespace simurgh::api {

// The verified root of a received FlatBuffers message.
// Errors: INVALID_ARGUMENT naming `what`.
template <typename T>
StatusOr<const T*> VerifiedRoot(std::span<const std::byte> metadata, const char* what) {
  const auto* data = reinterpret_cast<const uint8_t*>(metadata.data());
  flatbuffers::Verifier verifier(data, metadata.size());
  if (!verifier.VerifyBuffer<T>(nullptr)) {
    return absl::InvalidArgumentError(std::string(what) + ": metadata is malformed");
  }
  return flatbuffers::GetRoot<T>(data);
}

}  // namespace simurgh::api
