#include "services/api/step_id_codec.h"

#include "absl/strings/str_cat.h"

namespace simurgh::api {

flatbuffers::Offset<wire::StepId> Encode(flatbuffers::FlatBufferBuilder& builder,
                                         const StepId& step_id) {
  return wire::CreateStepId(builder, step_id.run, step_id.rank, step_id.step, step_id.ranks,
                            static_cast<uint8_t>(step_id.order));
}

StepId Decode(const wire::StepId& step_id) {
  return {.run = step_id.run(),
          .rank = step_id.rank(),
          .step = step_id.step(),
          .ranks = step_id.ranks(),
          .order = static_cast<PushOrder>(step_id.order())};
}

rpc::Outgoing<EndRun::Request> EncodeEndRun(const StepId& step_id) {
  flatbuffers::FlatBufferBuilder builder;
  const auto encoded = Encode(builder, step_id);
  return {builder, wire::CreateEndRunRequest(builder, encoded)};
}

StatusOr<LookupMode> DecodeLookupMode(const char* what, uint8_t mode) {
  if (mode > static_cast<uint8_t>(LookupMode::kEvaluate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": mode: ", mode, " is unknown; use 0 or 1"));
  }
  return static_cast<LookupMode>(mode);
}

}  // namespace simurgh::api
