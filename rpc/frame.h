#pragma once

// The bytes of a frame, as rpc/PROTOCOL.md describes them: pure functions, nothing waits here.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/borrowed_segment.h"
#include "simurgh/base/status.h"

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
};

inline constexpr uint32_t kFrameMagic = 0x4752'4d53;  // "SMRG" in the order of the bytes.
inline constexpr uint8_t kFrameVersion = 1;

// On a REQUEST or RESPONSE: the payload follows in CHUNK frames.
inline constexpr uint16_t kFlagChunked = 1;
// On a REQUEST or RESPONSE: a table of loans follows the segment table.
inline constexpr uint16_t kFlagLent = 2;

// Messages whose payload one gathered CHUNK may carry.
inline constexpr uint16_t kMaxGathered = 64;

// Metadata of a PADDING frame, at most.
inline constexpr uint32_t kMaxPaddingBytes = 1'024;

// A payload below this may be read together with what lies before it and copied into its places:
// one system call less for one copy of little.
inline constexpr uint64_t kSmallPayloadBytes = 4'096;

// Laid out as on the wire. Zero means "none" in every field but the first three.
struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;
  FrameKind kind = FrameKind::kHello;
  uint16_t flags = 0;
  uint64_t request_id = 0;
  uint32_t method = 0;
  uint16_t code = 0;  // absl::StatusCode of an ERROR.
  uint16_t reserved = 0;
  uint32_t deadline_ms = 0;  // What remains of it when the frame is sent.
  uint32_t metadata_length = 0;
  uint64_t payload_length = 0;
  uint64_t trace_id = 0;
  uint64_t span_id = 0;
  uint16_t segment_count = 0;
  uint16_t read_ahead = 0;  // So many bytes behind the frame are no large payload.
  uint32_t checksum = 0;

  bool chunked() const { return (flags & kFlagChunked) != 0; }
  bool lent() const { return (flags & kFlagLent) != 0; }
  // A CHUNK that carries payload of several messages; its metadata is their ids.
  bool gathered() const { return kind == FrameKind::kChunk && request_id == 0; }
  // Payload that lies right behind the head of this frame.
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

// What a receiver accepts.
struct FrameLimits {
  uint64_t max_frame_bytes = uint64_t{1} << 30;  // Header, lengths, metadata and payload.
  uint32_t max_metadata_bytes = uint32_t{16} << 20;
  uint16_t max_segments = kMaxSegments;

  // Those of a client's or a server's options.
  template <typename Options>
  static FrameLimits Of(const Options& options) {
    return {.max_frame_bytes = options.max_frame_bytes,
            .max_metadata_bytes = options.max_metadata_bytes,
            .max_segments = options.max_segments};
  }
};

// The header with its checksum filled in: ready to be sent as it lies in memory.
FrameHeader Seal(FrameHeader header);

// Everything that can be said of a header by itself.
// Errors: DATA_LOSS, naming the field.
StatusOr<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes,
                                   const FrameLimits& limits);

// The lengths that follow the header, but for segments that are lent, must add up to its payload.
// loans: one for each length, or none.
// Errors: DATA_LOSS.
Status CheckSegmentTable(const FrameHeader& header, std::span<const uint64_t> lengths,
                         std::span<const BorrowedSegment> loans = {});

// Of the segment table and the loans.
constexpr uint64_t TableBytes(const FrameHeader& header) {
  const uint64_t entry = sizeof(uint64_t) + (header.lent() ? sizeof(BorrowedSegment) : 0);
  return header.segment_count * entry;
}

// The whole frame as limits and windows count it: the loans, which max_segments bounds, as nothing.
// Meaningful for decoded headers, whose lengths have been checked.
constexpr uint64_t FrameBytes(const FrameHeader& header) {
  return kHeaderBytes + header.segment_count * sizeof(uint64_t) + header.metadata_length +
         header.payload_length;
}

}  // namespace simurgh::rpc
