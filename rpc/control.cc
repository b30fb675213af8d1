#include "rpc/control.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

#include "rpc/error.h"
#include "rpc/frame_generated.h"

namespace simurgh::rpc {
namespace {

// An ERROR must fit even where only a HELLO is accepted, so its message is cut shorter than that.
constexpr size_t kMaxMessageBytes = 2'048;
constexpr size_t kMaxPayloadBytes = size_t{1} << 20;  // Of all payloads together.

// What a peer calls itself ends up in logs and errors.
bool IsLogSafe(std::string_view text) {
  constexpr size_t kMaxNameBytes = 255;
  return text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string Text(const flatbuffers::String* text) { return text ? text->str() : std::string(); }

template <typename Table>
const Table* Verified(std::span<const std::byte> metadata) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(metadata.data());
  flatbuffers::Verifier verifier(bytes, metadata.size());
  return verifier.VerifyBuffer<Table>() ? flatbuffers::GetRoot<Table>(bytes) : nullptr;
}

}  // namespace

OutgoingSegment EncodeHello(const Hello& hello, const FrameLimits& limits,
                            uint64_t request_window_bytes, uint64_t features) {
  flatbuffers::FlatBufferBuilder builder(512);
  const auto cluster = builder.CreateString(hello.cluster);
  const auto role = builder.CreateString(hello.role);
  builder.Finish(wire::CreateHello(
      builder, kProtocolMin, kProtocolMax, features, cluster, role, hello.index, hello.run,
      hello.incarnation, hello.configuration_hash, hello.map_version, limits.max_frame_bytes,
      request_window_bytes, limits.max_metadata_bytes, limits.max_segments));
  return TakeMetadata(builder);
}

StatusOr<PeerHello> DecodeHello(std::span<const std::byte> metadata) {
  const auto* table = Verified<wire::Hello>(metadata);
  if (table == nullptr) return absl::DataLossError("malformed HELLO");
  for (const flatbuffers::String* text : {table->cluster(), table->role()}) {
    if (text == nullptr || IsLogSafe(text->string_view())) continue;
    return absl::DataLossError("malformed HELLO: cluster and role are short printable ASCII");
  }
  return PeerHello{.hello = {.cluster = Text(table->cluster()),
                             .role = Text(table->role()),
                             .index = table->index(),
                             .run = table->run(),
                             .incarnation = table->incarnation(),
                             .configuration_hash = table->configuration_hash(),
                             .map_version = table->map_version()},
                   .protocol_min = table->protocol_min(),
                   .protocol_max = table->protocol_max(),
                   .features = table->features(),
                   .limits = {.max_frame_bytes = table->max_frame_bytes(),
                              .max_metadata_bytes = table->max_metadata_bytes(),
                              .max_segments = table->max_segments()},
                   .request_window_bytes = table->request_window_bytes()};
}

Status CheckHello(const Hello& own, const PeerHello& peer) {
  if (peer.protocol_min > kProtocolMax || peer.protocol_max < kProtocolMin) {
    return absl::InvalidArgumentError(absl::StrCat(
        "protocol: this end speaks versions ", kProtocolMin, " to ", kProtocolMax, ", the peer ",
        peer.protocol_min, " to ", peer.protocol_max, "; run the same release at both ends"));
  }
  const auto too_small = [](const char* limit, uint64_t bytes, uint64_t needed) {
    return absl::InvalidArgumentError(absl::StrCat(limit, ": the peer accepts ", bytes,
                                                   " bytes, at least ", needed,
                                                   " are needed for errors to fit"));
  };
  if (peer.limits.max_frame_bytes < kHelloLimits.max_frame_bytes) {
    return too_small("max_frame_bytes", peer.limits.max_frame_bytes, kHelloLimits.max_frame_bytes);
  }
  if (peer.limits.max_metadata_bytes < kHelloLimits.max_metadata_bytes) {
    return too_small("max_metadata_bytes", peer.limits.max_metadata_bytes,
                     kHelloLimits.max_metadata_bytes);
  }
  if (peer.hello.cluster != own.cluster) {
    return absl::InvalidArgumentError(absl::StrCat("cluster: this end belongs to '", own.cluster,
                                                   "', the peer to '", peer.hello.cluster,
                                                   "'; check the address"));
  }
  if (peer.hello.configuration_hash != own.configuration_hash) {
    return absl::InvalidArgumentError(absl::StrCat(
        "configuration: this end's hash is ", absl::Hex(own.configuration_hash), ", the peer's ",
        absl::Hex(peer.hello.configuration_hash), "; start both with the same file and overrides"));
  }
  return absl::OkStatus();
}

OutgoingSegment EncodeError(const Status& status) {
  flatbuffers::FlatBufferBuilder builder(256);
  std::vector<flatbuffers::Offset<wire::ErrorPayload>> payloads;
  size_t room = kMaxPayloadBytes;
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& value) {
    if (type == kDetailPayload || type == kExecutionPayload || type == kCutPayload) return;
    if (value.size() > room) return;
    room -= value.size();
    const std::string bytes(value);
    const auto encoded =
        builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const auto name = builder.CreateString(type.data(), type.size());
    payloads.push_back(wire::CreateErrorPayload(builder, name, encoded));
  });
  const size_t length = std::min(status.message().size(), kMaxMessageBytes);
  const auto message = builder.CreateString(status.message().data(), length);
  const auto vector = builder.CreateVector(payloads);
  builder.Finish(wire::CreateError(builder, message, vector));
  return TakeMetadata(builder);
}

Status DecodeError(const FrameHeader& header, std::span<const std::byte> metadata, Status& error) {
  const auto* table = Verified<wire::Error>(metadata);
  if (table == nullptr) return absl::DataLossError("malformed ERROR");
  error = Status(static_cast<absl::StatusCode>(header.code), Text(table->message()));
  if (table->payloads() != nullptr) {
    for (const auto* payload : *table->payloads()) {
      absl::Cord value;
      if (const auto* bytes = payload->value(); bytes != nullptr) {
        value = absl::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      }
      error.SetPayload(payload->type()->str(), std::move(value));
    }
  }
  if (header.detail != 0) error = WithDetail(std::move(error), header.detail);
  const bool started = (header.flags & kFlagNotExecuted) == 0;
  error = WithExecution(std::move(error), started ? Execution::kAnswered : Execution::kNotExecuted);
  return absl::OkStatus();
}

}  // namespace simurgh::rpc
