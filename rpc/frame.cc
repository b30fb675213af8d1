#include "rpc/frame.h"

#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "base/hash.h"

namespace simurgh::rpc {
namespace {

constexpr uint32_t kTlsRecord = 0x0316;  // The first bytes of a TLS handshake, as a u32.
constexpr uint16_t kMaxStatusCode = 16;  // absl::StatusCode::kUnauthenticated.

uint32_t Checksum(const FrameHeader& header) {
  const std::string_view covered(reinterpret_cast<const char*>(&header),
                                 offsetof(FrameHeader, checksum));
  return static_cast<uint32_t>(HashBytes(covered));
}

Status Malformed(const char* field, uint64_t value, const char* expected) {
  return absl::DataLossError(
      absl::StrCat("malformed frame: ", field, " is ", value, ", expected ", expected));
}

bool IsMessage(const FrameHeader& h) {
  return h.kind == FrameKind::kRequest || h.kind == FrameKind::kResponse;
}

Status CheckChunk(const FrameHeader& h) {
  if (h.segment_count == 0 || h.segment_count > (h.gathered() ? kMaxGathered : 1)) {
    return Malformed("segment_count", h.segment_count,
                     h.gathered() ? "1 to 64 for a gathered chunk" : "1 for a chunk");
  }
  const uint64_t ids = h.gathered() ? h.segment_count * sizeof(uint64_t) : 0;
  if (h.metadata_length == ids) return absl::OkStatus();
  return Malformed("metadata_length", h.metadata_length,
                   h.gathered() ? "one id per segment" : "0 for a chunk");
}

Status CheckKind(const FrameHeader& h) {
  switch (h.kind) {
    case FrameKind::kRequest:
    case FrameKind::kResponse:
    case FrameKind::kCancel:
      if (h.request_id == 0) return Malformed("request_id", 0, "a number from 1");
      break;
    case FrameKind::kHello:
    case FrameKind::kGoaway:
    case FrameKind::kPadding:
    case FrameKind::kProof:
      if (h.request_id != 0) return Malformed("request_id", h.request_id, "0 for this kind");
      break;
    case FrameKind::kError:
      if (h.code == 0 || h.code > kMaxStatusCode) {
        return Malformed("code", h.code, "an error from 1 to 16");
      }
      break;
    case FrameKind::kChunk:
      return CheckChunk(h);
    default:
      return Malformed("kind", static_cast<uint8_t>(h.kind), "1 to 9");
  }
  if (h.kind == FrameKind::kPadding && h.metadata_length > kMaxPaddingBytes) {
    return Malformed("metadata_length", h.metadata_length, "at most 1024 for padding");
  }
  if (h.kind == FrameKind::kProof && h.metadata_length > kMaxProofBytes) {
    return Malformed("metadata_length", h.metadata_length, "at most 1024 for a proof");
  }
  if (h.segment_count != 0 && !IsMessage(h)) {
    return Malformed("segment_count", h.segment_count, "0 for this kind");
  }
  return absl::OkStatus();
}

}  // namespace

FrameHeader Seal(FrameHeader header) {
  header.checksum = Checksum(header);
  return header;
}

StatusOr<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes,
                                   const FrameLimits& limits) {
  FrameHeader h;
  std::memcpy(&h, bytes.data(), kHeaderBytes);
  if ((h.magic & 0xffff) == kTlsRecord) {
    return absl::DataLossError(
        "malformed frame: the peer uses TLS, this end does not; configure both alike");
  }
  if (h.magic != kFrameMagic) return Malformed("magic", h.magic, "\"SMRG\"");
  if (h.version != kFrameVersion) return Malformed("version", h.version, "1");
  if (h.checksum != Checksum(h)) {
    return Malformed("checksum", h.checksum, absl::StrCat(Checksum(h)).c_str());
  }
  const uint16_t known_flags = IsMessage(h) ? kFlagChunked | kFlagBorrowed : 0;
  if ((h.flags & ~known_flags) != 0) return Malformed("flags", h.flags, "known bits only");
  SIMURGH_RETURN_IF_ERROR(CheckKind(h));
  if (h.segment_count == 0 && h.payload_length != 0) {
    return Malformed("payload_length", h.payload_length, "0 without segments");
  }
  if (h.chunked() && h.payload_length < kSmallPayloadBytes) {
    return Malformed("payload_length", h.payload_length, "4096 or more for a chunked message");
  }
  if (h.segment_count > limits.max_segments) {
    return Malformed("segment_count", h.segment_count,
                     absl::StrCat("at most ", limits.max_segments).c_str());
  }
  if (h.metadata_length > limits.max_metadata_bytes) {
    return Malformed("metadata_length", h.metadata_length,
                     absl::StrCat("at most ", limits.max_metadata_bytes).c_str());
  }
  if (h.payload_length > limits.max_frame_bytes || FrameBytes(h) > limits.max_frame_bytes) {
    return Malformed("payload_length", h.payload_length,
                     absl::StrCat("a frame of at most ", limits.max_frame_bytes, " bytes").c_str());
  }
  return h;
}

Status CheckSegmentTable(const FrameHeader& header, std::span<const uint64_t> lengths,
                         std::span<const BorrowedSegment> borrowed) {
  uint64_t left = header.payload_length;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (!borrowed.empty() && borrowed[i].slot != kNotBorrowed) continue;
    const uint64_t length = lengths[i];
    if (length > left) return Malformed("segment length", length, "no more than the payload holds");
    left -= length;
  }
  if (left != 0) {
    return Malformed("payload_length", header.payload_length, "the sum of its segments");
  }
  return absl::OkStatus();
}

}  // namespace simurgh::rpc
