#include "services/api/position_codec.h"

#include "absl/strings/str_cat.h"

namespace simurgh::api {

flatbuffers::Offset<wire::Position> Encode(flatbuffers::FlatBufferBuilder& builder,
                                           const StepId& position) {
  return wire::CreatePosition(builder, position.run, position.rank, position.step, position.ranks,
                              static_cast<uint8_t>(position.order));
}

StepId Decode(const wire::Position& position) {
  return {.run = position.run(),
          .rank = position.rank(),
          .step = position.step(),
          .ranks = position.ranks(),
          .order = static_cast<PushOrder>(position.order())};
}

StatusOr<LookupMode> DecodePurpose(const char* what, uint8_t purpose) {
  if (purpose > static_cast<uint8_t>(LookupMode::kEvaluate)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": unknown purpose ", purpose));
  }
  return static_cast<LookupMode>(purpose);
}

}  // namespace simurgh::api
