// Frames, HELLO, ERROR, borrowed segments.

#include <cstring>
#include <map>

#include "base/check.h"
#include "rpc/control.h"
#include "rpc/frame.h"
#include "rpc/region.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

using rpc::FrameHeader;
using rpc::FrameKind;
using rpc::kHeaderBytes;
using rpc::OutgoingSegment;

constexpr rpc::FrameLimits kLimits{.max_frame_bytes = uint64_t{1} << 20,
                                   .max_metadata_bytes = 65'536};

Bytes BytesOf(const OutgoingSegment& segment) { return ToBytes(segment.bytes); }

// --- frame: a header, then its tables.

void ReadTables(const FrameHeader& header, Input rest) {
  if (rest.size() < rpc::TableBytes(header)) return;
  std::vector<uint64_t> lengths(header.segment_count);
  std::vector<rpc::BorrowedSegment> borrowed(header.has_borrowed() ? header.segment_count : 0);
  SeedReader reader(rest);
  for (uint64_t& length : lengths) length = reader.Value<uint64_t>();
  for (rpc::BorrowedSegment& segment : borrowed) segment = reader.Value<rpc::BorrowedSegment>();
  const Status status = rpc::CheckSegmentTable(header, lengths, borrowed);
  if (!status.ok()) {
    SIMURGH_CHECK(absl::IsDataLoss(status));
    return;
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (header.has_borrowed() && borrowed[i].slot != rpc::kNotBorrowed) continue;
    SIMURGH_CHECK_LE(lengths[i], header.payload_length - sum);
    sum += lengths[i];
  }
  SIMURGH_CHECK_EQ(sum, header.payload_length);
}

void ReadHeader(std::span<const std::byte, kHeaderBytes> bytes, Input rest) {
  const StatusOr<FrameHeader> header = rpc::DecodeHeader(bytes, kLimits);
  if (!header.ok()) {
    SIMURGH_CHECK(absl::IsDataLoss(header.status()));
    return;
  }
  SIMURGH_CHECK_LE(header->metadata_length, kLimits.max_metadata_bytes);
  SIMURGH_CHECK_LE(rpc::FrameBytes(*header), kLimits.max_frame_bytes);
  const FrameHeader again = rpc::Seal(*header);
  SIMURGH_CHECK(std::memcmp(&again, bytes.data(), kHeaderBytes) == 0);
  ReadTables(*header, rest);
}

void RunFrame(Input input) {
  if (input.size() < kHeaderBytes) return;
  const Input rest = input.subspan(kHeaderBytes);
  ReadHeader(input.first<kHeaderBytes>(), rest);
  // With a valid checksum.
  FrameHeader header;
  std::memcpy(&header, input.data(), kHeaderBytes);
  header = rpc::Seal(header);
  ReadHeader(std::as_bytes(std::span(&header, 1)).first<kHeaderBytes>(), rest);
}

std::vector<Bytes> FrameSeeds() {
  std::vector<Bytes> seeds;
  for (const auto& frame : OneOfEachKind()) seeds.push_back(rpc::testing::Encode(frame));
  return seeds;
}

// --- hello

void RunHello(Input input) {
  const Bytes metadata = ToBytes(input);
  const StatusOr<rpc::PeerHello> peer = rpc::DecodeHello(metadata);
  if (!peer.ok()) {
    SIMURGH_CHECK(absl::IsDataLoss(peer.status()));
    return;
  }
  (void)rpc::CheckProtocol(*peer);
  (void)rpc::CheckCluster({.cluster = "fuzz"}, peer->hello);
  const Bytes again = BytesOf(
      rpc::EncodeHello(peer->hello, peer->limits, peer->request_window_bytes, peer->features));
  const StatusOr<rpc::PeerHello> second = rpc::DecodeHello(again);
  SIMURGH_CHECK(second.ok());
  SIMURGH_CHECK(second->hello.cluster == peer->hello.cluster);
  SIMURGH_CHECK(second->hello.role == peer->hello.role);
  SIMURGH_CHECK_EQ(second->hello.map_version, peer->hello.map_version);
  SIMURGH_CHECK_EQ(second->limits.max_frame_bytes, peer->limits.max_frame_bytes);
  SIMURGH_CHECK_EQ(second->limits.max_metadata_bytes, peer->limits.max_metadata_bytes);
  SIMURGH_CHECK_EQ(second->limits.max_segments, peer->limits.max_segments);
  SIMURGH_CHECK_EQ(second->features, peer->features);
  SIMURGH_CHECK_EQ(second->request_window_bytes, peer->request_window_bytes);
}

std::vector<Bytes> HelloSeeds() {
  return {BytesOf(rpc::EncodeHello({}, {})),
          BytesOf(rpc::EncodeHello({.cluster = "fuzz",
                                    .role = "embedding-ps",
                                    .index = 3,
                                    .run = 4,
                                    .incarnation = 5,
                                    .configuration = "a = 6\n",
                                    .map_version = 7},
                                   {}, uint64_t{1} << 28, rpc::kFeatureSharedMemory))};
}

// --- error: the code of the header, then the metadata.

void RunError(Input input) {
  SeedReader reader(input);
  FrameHeader header{.kind = FrameKind::kError};
  header.code = static_cast<uint16_t>(1 + reader.Value<uint16_t>() % 16);
  const Bytes metadata = ToBytes(reader.rest());
  Status error;
  const Status read = rpc::DecodeError(header, metadata, error);
  if (!read.ok()) {
    SIMURGH_CHECK(absl::IsDataLoss(read));
    return;
  }
  SIMURGH_CHECK_EQ(static_cast<int>(error.code()), static_cast<int>(header.code));
  Status second;
  SIMURGH_CHECK(rpc::DecodeError(header, BytesOf(rpc::EncodeError(error)), second).ok());
  SIMURGH_CHECK(std::string(error.message()).starts_with(std::string(second.message())));
}

std::vector<Bytes> ErrorSeeds() {
  const Bytes metadata = BytesOf(rpc::EncodeError(absl::NotFoundError("no such row")));
  return {SeedWriter().Value(uint16_t{4}).Rest(metadata).bytes()};
}

// --- borrowed: segments that a peer lends, and those returned before each.

constexpr uint64_t kRegionBytes = 4 * rpc::kPageBytes;

// Shared by all inputs; empty when all segments are returned.
rpc::IncomingRegion& Region() {
  static const auto peer = rpc::OutgoingRegion::Create(kRegionBytes);
  static const auto region = [] {
    auto made = rpc::IncomingRegion::Create();
    SIMURGH_CHECK(peer.ok() && made.ok() && (*made)->Connect((*peer)->TakeFile()).ok());
    return *std::move(made);
  }();
  return *region;
}

void RunBorrowedSegments(Input input) {
  static std::map<uint32_t, uint32_t> generations;  // The last one of each slot, over all inputs.
  SeedReader reader(input);
  std::map<uint32_t, rpc::ReceivedSegment> held;  // By slot.
  while (!reader.rest().empty()) {
    auto segment = reader.Value<rpc::BorrowedSegment>();
    const auto length = reader.Value<uint64_t>();
    const auto how = reader.Value<uint8_t>();
    if (how % 2 != 0) held.erase(segment.slot);
    const auto last = generations.find(segment.slot);
    const uint32_t next = (last == generations.end() ? 0 : last->second) + 1;
    if ((how & 2) == 0) segment.generation = next;
    const auto bytes = Region().Borrow(segment, length);
    const bool fits = segment.offset <= kRegionBytes && length <= kRegionBytes - segment.offset &&
                      segment.offset % rpc::kBorrowAlignment == 0;
    const bool free = segment.slot < rpc::kMaxBorrowedSegments && !held.contains(segment.slot);
    const bool is_next = segment.generation == next;
    SIMURGH_CHECK_EQ(bytes.ok(), fits && free && is_next) << bytes.status().ToString();
    SIMURGH_CHECK(bytes.ok() || absl::IsDataLoss(bytes.status()));
    if (!bytes.ok()) continue;
    generations[segment.slot] = next;
    SIMURGH_CHECK_EQ(bytes->bytes.size(), length);
    for (const std::byte byte : bytes->bytes) SIMURGH_CHECK(byte == std::byte{0});
    held.emplace(segment.slot, *bytes);
  }
}

std::vector<Bytes> BorrowedSegmentSeeds() {
  SeedWriter seed;
  const auto add = [&](rpc::BorrowedSegment segment, uint64_t length, bool returned) {
    seed.Value(segment).Value(length).Value(returned);
  };
  add({.offset = 0, .slot = 0, .generation = 1}, kRegionBytes, false);
  add({.offset = 64, .slot = 1, .generation = 1}, 100, false);
  add({.offset = 64, .slot = 1, .generation = 2}, 100, true);
  add({.offset = kRegionBytes, .slot = rpc::kMaxBorrowedSegments - 1, .generation = 1}, 0, false);
  add({.offset = kRegionBytes - 64, .slot = 2, .generation = 1}, 65, false);
  add({.offset = 8, .slot = rpc::kMaxBorrowedSegments, .generation = 1}, 2, false);
  return {seed.bytes()};
}

}  // namespace

std::vector<Target> FrameTargets() {
  return {{"frame", RunFrame, FrameSeeds},
          {"hello", RunHello, HelloSeeds},
          {"error", RunError, ErrorSeeds},
          {"borrowed", RunBorrowedSegments, BorrowedSegmentSeeds}};
}

}  // namespace simurgh::fuzz
