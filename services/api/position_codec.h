#pragma once

#include <cstdint>

#include "services/api/rows_generated.h"
#include "simurgh/base/status.h"
#include "simurgh/train/ports.h"

namespace simurgh::api {

flatbuffers::Offset<wire::Position> Encode(flatbuffers::FlatBufferBuilder& builder,
                                           const StepId& position);
StepId Decode(const wire::Position& position);

// what: prefix of errors, "pull". Errors: INVALID_ARGUMENT for an unknown mode.
StatusOr<LookupMode> DecodePurpose(const char* what, uint8_t purpose);

}  // namespace simurgh::api
