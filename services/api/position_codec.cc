#include "services/api/position_codec.h"

#include "absl/strings/str_cat.h"

namespace simurgh::api {

flatbuffers::Offset<wire::Position> Encode(flatbuffers::FlatBufferBuilder& builder,
                                           const TrainerPosition& position) {
  return wire::CreatePosition(builder, position.run, position.rank, position.step, position.ranks,
                              static_cast<uint8_t>(position.order));
}

TrainerPosition Decode(const wire::Position& position) {
  return {.run = position.run(),
          .rank = position.rank(),
          .step = position.step(),
          .ranks = position.ranks(),
          .order = static_cast<RankOrder>(position.order())};
}

StatusOr<PullPurpose> DecodePurpose(const char* what, uint8_t purpose) {
  if (purpose > static_cast<uint8_t>(PullPurpose::kEvaluate)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": unknown purpose ", purpose));
  }
  return static_cast<PullPurpose>(purpose);
}

}  // namespace simurgh::api
