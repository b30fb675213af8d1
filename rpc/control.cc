#include "rpc/control.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "base/text.h"
#include "rpc/frame_generated.h"

namespace simurgh::rpc {
namespace {

// An ERROR must fit into kLeastLimits.
constexpr size_t kMaxMessageBytes = 2'048;

// The names of a peer appear in logs and errors.
bool IsLogSafe(std::string_view text) {
  constexpr size_t kMaxNameBytes = 255;
  return text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

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
  const auto configuration = builder.CreateString(hello.configuration);
  builder.Finish(wire::CreateHello(builder, kProtocolVersion, features, cluster, role, hello.index,
                                   hello.run, hello.incarnation, configuration, hello.map_version,
                                   limits.max_frame_bytes, request_window_bytes,
                                   limits.max_metadata_bytes, limits.max_segments));
  return TakeMetadata(builder);
}

StatusOr<PeerHello> DecodeHello(std::span<const std::byte> metadata) {
  const auto* table = Verified<wire::Hello>(metadata);
  if (table == nullptr) return absl::DataLossError("malformed HELLO");
  for (const flatbuffers::String* text : {table->cluster(), table->role()}) {
    if (IsLogSafe(flatbuffers::GetStringView(text))) continue;
    return absl::DataLossError(
        "malformed HELLO: cluster and role must be printable ASCII of at most 255 bytes");
  }
  return PeerHello{.hello = {.cluster = flatbuffers::GetString(table->cluster()),
                             .role = flatbuffers::GetString(table->role()),
                             .index = table->index(),
                             .run = table->run(),
                             .incarnation = table->incarnation(),
                             .configuration = flatbuffers::GetString(table->configuration()),
                             .map_version = table->map_version()},
                   .protocol = table->protocol(),
                   .features = table->features(),
                   .limits = {.max_frame_bytes = table->max_frame_bytes(),
                              .max_metadata_bytes = table->max_metadata_bytes(),
                              .max_segments = table->max_segments()},
                   .request_window_bytes = table->request_window_bytes()};
}

std::string Claims(std::string_view first, std::span<const std::byte> hello) {
  std::string claims(first);
  claims += '\0';  // The cluster's name has none.
  return claims.append(reinterpret_cast<const char*>(hello.data()), hello.size());
}

Status CheckProtocol(const PeerHello& peer) {
  if (peer.protocol != kProtocolVersion) {
    return absl::InvalidArgumentError(absl::StrCat("protocol: the peer has version ", peer.protocol,
                                                   ", this end has version ", kProtocolVersion,
                                                   "; run the same release at both ends"));
  }
  const auto check_limit = [](const char* limit, uint64_t bytes, uint64_t needed) {
    if (bytes >= needed) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(limit, ": the peer accepts ", bytes, " bytes; the minimum is ", needed));
  };
  SIMURGH_RETURN_IF_ERROR(
      check_limit("max_frame_bytes", peer.limits.max_frame_bytes, kLeastLimits.max_frame_bytes));
  return check_limit("max_metadata_bytes", peer.limits.max_metadata_bytes,
                     kLeastLimits.max_metadata_bytes);
}

Status CheckCluster(const Hello& own, const Hello& peer) {
  if (peer.cluster != own.cluster) {
    return absl::InvalidArgumentError(absl::StrCat("cluster: the peer belongs to '", peer.cluster,
                                                   "', this end to '", own.cluster,
                                                   "'; check the address"));
  }
  const std::string difference =
      SettingsDifference(own.configuration, absl::StrCat(own.role, "/", own.index),
                         peer.configuration, absl::StrCat(peer.role, "/", peer.index));
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("configurations differ: ", difference,
                     "; start all daemons with the same file and --set overrides"));
  }
  return absl::OkStatus();
}

OutgoingSegment EncodeError(const Status& status) {
  flatbuffers::FlatBufferBuilder builder(256);
  const size_t length = std::min(status.message().size(), kMaxMessageBytes);
  builder.Finish(wire::CreateError(builder, builder.CreateString(status.message().data(), length)));
  return TakeMetadata(builder);
}

Status DecodeError(const FrameHeader& header, std::span<const std::byte> metadata, Status& error) {
  const auto* table = Verified<wire::Error>(metadata);
  if (table == nullptr) return absl::DataLossError("malformed ERROR");
  error =
      Status(static_cast<absl::StatusCode>(header.code), flatbuffers::GetString(table->message()));
  return absl::OkStatus();
}

}  // namespace simurgh::rpc
