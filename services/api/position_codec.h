#pragma once

#include <cstdint>

#include "services/api/rows_generated.h"
#include "simurgh/base/status.h"
#include "simurgh/train/ports.h"

namespace simurgh::api {

// What requests to embedding workers and to parameter servers have in common: at which step of
// whose training they are, and for what.

flatbuffers::Offset<wire::Position> Encode(flatbuffers::FlatBufferBuilder& builder,
                                           const StepId& position);
StepId Decode(const wire::Position& position);

// what: for errors, "pull". Errors: INVALID_ARGUMENT for an unknown purpose.
StatusOr<LookupMode> DecodePurpose(const char* what, uint8_t purpose);

}  // namespace simurgh::api
