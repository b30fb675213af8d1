#pragma once

// What the targets of FlatBuffers metadata share.

#include "base/check.h"
#include "rpc/method.h"
#include "table/partition.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {

template <typename Message>
Bytes MetadataOf(const rpc::Outgoing<Message>& message) {
  return ToBytes(message.message().metadata.bytes);
}

// Metadata as a receiver has it: copied and verified.
template <typename Table>
struct Received {
  explicit Received(Input input) : metadata(ToBytes(input)) {
    const StatusOr<const Table*> verified = rpc::VerifiedTable<Table>("fuzz", metadata);
    if (verified.ok()) table = *verified;
  }
  // From our encoder; always valid.
  template <typename Message>
  explicit Received(const rpc::Outgoing<Message>& message) : Received(Input(MetadataOf(message))) {
    SIMURGH_CHECK(table != nullptr);
  }

  const Bytes metadata;
  const Table* table = nullptr;  // Null when the metadata is malformed.
};

inline bool Same(const StepId& one, const StepId& other) {
  return one.run == other.run && one.rank == other.rank && one.step == other.step;
}

// Whether a decoding error is one that the sender can correct. Requires an expected code or ok.
inline bool IsRefusal(const Status& status) {
  SIMURGH_CHECK(status.ok() || absl::IsInvalidArgument(status)) << status.ToString();
  return !status.ok();
}

}  // namespace simurgh::fuzz
