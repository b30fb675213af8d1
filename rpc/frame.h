#pragma once

// The layout of frames (rpc/PROTOCOL.md).

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "rpc/region.h"

namespace simurgh::rpc {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

enum class FrameKind : uint8_t {
  kHello = 1,
  kRequest = 2,
  kResponse = 3,
  kError = 4,
  kCancel = 5,
  kGoaway = 6,
  kChunk = 7,
  kPadding = 8,
  kProof = 9,
};

inline constexpr uint32_t kFrameMagic = 0x4752'4d53;  // "SMRG" in the order of the bytes.
inline constexpr uint8_t kFrameVersion = 1;

// Flag of a REQUEST or RESPONSE: the payload follows in CHUNK frames.
inline constexpr uint16_t kFlagChunked = 1;
// Flag of a REQUEST or RESPONSE: a table of BorrowedSegment follows the segment table.
inline constexpr uint16_t kFlagBorrowed = 2;

// Maximum number of messages in a gathered CHUNK.
inline constexpr uint16_t kMaxGathered = 64;

// Maximum size of the metadata of a PADDING frame.
inline constexpr uint32_t kMaxPaddingBytes = 1'024;

// Maximum size of the metadata of a PROOF frame: a nonce, a proof, and the server's role and index.
inline constexpr uint32_t kMaxProofBytes = 1'024;

// A smaller payload may be read together with its head and copied to its destinations: one small
// copy saves a system call.
inline constexpr uint64_t kSmallPayloadBytes = 4'096;

// Laid out as on the wire. 0 means "none" in all fields but the first three.
struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;
  FrameKind kind = FrameKind::kHello;
  uint16_t flags = 0;
  uint64_t request_id = 0;
  uint32_t method = 0;
  uint16_t code = 0;  // absl::StatusCode of an ERROR.
  uint16_t reserved = 0;
  uint32_t deadline_ms = 0;  // Time left when the frame is sent.
  uint32_t metadata_length = 0;
  uint64_t payload_length = 0;
  uint64_t trace_id = 0;
  uint64_t span_id = 0;
  uint16_t segment_count = 0;
  uint16_t read_ahead = 0;  // Bytes after the frame that contain no large payload.
  uint32_t checksum = 0;

  bool chunked() const { return (flags & kFlagChunked) != 0; }
  bool has_borrowed() const { return (flags & kFlagBorrowed) != 0; }
  // A CHUNK with payload of several messages; its metadata is their ids.
  bool gathered() const { return kind == FrameKind::kChunk && request_id == 0; }
  // Payload that follows the head directly.
  uint64_t following_bytes() const { return chunked() ? 0 : payload_length; }
  bool payload_is_small() const {
    return kind != FrameKind::kChunk && following_bytes() < kSmallPayloadBytes;
  }
};

inline constexpr size_t kHeaderBytes = 64;
inline constexpr uint16_t kMaxSegments = 0xffff;
static_assert(sizeof(FrameHeader) == kHeaderBytes);
static_assert(offsetof(FrameHeader, request_id) == 8 && offsetof(FrameHeader, method) == 16 &&
              offsetof(FrameHeader, code) == 20 && offsetof(FrameHeader, deadline_ms) == 24 &&
              offsetof(FrameHeader, metadata_length) == 28 &&
              offsetof(FrameHeader, payload_length) == 32 &&
              offsetof(FrameHeader, trace_id) == 40 && offsetof(FrameHeader, span_id) == 48 &&
              offsetof(FrameHeader, segment_count) == 56 &&
              offsetof(FrameHeader, read_ahead) == 58 && offsetof(FrameHeader, checksum) == 60);

// The limits of a receiver.
struct FrameLimits {
  uint64_t max_frame_bytes = uint64_t{1} << 30;  // Header, lengths, metadata and payload.
  uint32_t max_metadata_bytes = uint32_t{16} << 20;
  uint16_t max_segments = kMaxSegments;

  // Options: of a client or server.
  template <typename Options>
  static FrameLimits Of(const Options& options) {
    return {.max_frame_bytes = options.max_frame_bytes,
            .max_metadata_bytes = options.max_metadata_bytes,
            .max_segments = options.max_segments};
  }
};

// Fills in the checksum.
FrameHeader Seal(FrameHeader header);

// Checks everything that depends on the header only.
// Errors: DATA_LOSS, naming the field.
StatusOr<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes,
                                   const FrameLimits& limits);

// Checks that the lengths of the segments that are not borrowed add up to the payload.
// borrowed: one for each length, or empty.
// Errors: DATA_LOSS.
Status CheckSegmentTable(const FrameHeader& header, std::span<const uint64_t> lengths,
                         std::span<const BorrowedSegment> borrowed = {});

// The length of both segment tables.
constexpr uint64_t TableBytes(const FrameHeader& header) {
  const uint64_t entry = sizeof(uint64_t) + (header.has_borrowed() ? sizeof(BorrowedSegment) : 0);
  return header.segment_count * entry;
}

// The length of the frame as limits and windows count it: without the table of borrowed segments.
// Requires a decoded header.
constexpr uint64_t FrameBytes(const FrameHeader& header) {
  return kHeaderBytes + header.segment_count * sizeof(uint64_t) + header.metadata_length +
         header.payload_length;
}

}  // namespace simurgh::rpc
