#pragma once

#include <cstdint>

#include "services/api/methods.h"
#include "services/api/rows_generated.h"
#include "simurgh/base/status.h"
#include "simurgh/train/ports.h"

namespace simurgh::api {

flatbuffers::Offset<wire::StepId> Encode(flatbuffers::FlatBufferBuilder& builder,
                                         const StepId& step_id);
StepId Decode(const wire::StepId& step_id);

rpc::Outgoing<EndRun::Request> EncodeEndRun(const StepId& step_id);

// what: prefix of errors, "pull". Errors: INVALID_ARGUMENT for an unknown mode.
StatusOr<LookupMode> DecodeLookupMode(const char* what, uint8_t mode);

}  // namespace simurgh::api
