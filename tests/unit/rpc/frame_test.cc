#include "rpc/frame.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include <catch2/catch.hpp>

#include "rpc/connection.h"
#include "rpc/control.h"
#include "tests/support/rpc/raw_peer.h"
#include "tests/unit/rpc/support.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::RawFrame;

FrameHeader RequestHeader() {
  FrameHeader header;
  header.kind = FrameKind::kRequest;
  header.request_id = 0x0102030405060708;
  header.method = 0x11121314;
  header.deadline_ms = 250;
  header.metadata_length = 24;
  header.payload_length = 100;
  header.trace_id = 5;
  header.span_id = 6;
  header.segment_count = 2;
  return header;
}

// Makes it a gathered chunk.
void Gather(FrameHeader& header, size_t messages) {
  header.kind = FrameKind::kChunk;
  header.request_id = 0;
  header.segment_count = static_cast<uint16_t>(messages);
  header.metadata_length = static_cast<uint32_t>(messages * sizeof(uint64_t));
}

// Makes it padding.
void Pad(FrameHeader& header, uint32_t bytes) {
  header.kind = FrameKind::kPadding;
  header.request_id = 0;
  header.segment_count = 0;
  header.payload_length = 0;
  header.metadata_length = bytes;
}

std::span<const std::byte, kHeaderBytes> BytesOf(const FrameHeader& header) {
  return std::as_bytes(std::span<const FrameHeader, 1>(&header, 1));
}

TEST_CASE("a header keeps its fields, at the offsets of the protocol") {
  const FrameHeader sealed = Seal(RequestHeader());
  const StatusOr<FrameHeader> decoded = DecodeHeader(BytesOf(sealed), {});
  REQUIRE(decoded.ok());
  CHECK(std::memcmp(&*decoded, &sealed, kHeaderBytes) == 0);

  const auto* bytes = reinterpret_cast<const unsigned char*>(&sealed);
  CHECK(std::memcmp(bytes, "SMRG\x01\x02", 6) == 0);
  CHECK((bytes[8] == 8 && bytes[15] == 1));         // request_id, lowest byte first
  CHECK((bytes[16] == 0x14 && bytes[19] == 0x11));  // method
  CHECK(bytes[24] == 250);                          // deadline_ms
  CHECK((bytes[28] == 24 && bytes[32] == 100));     // lengths
  CHECK(bytes[56] == 2);                            // segment_count
}

TEST_CASE("the checksum covers every bit of the header") {
  const FrameHeader sealed = Seal(RequestHeader());
  for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    FrameHeader damaged = sealed;
    reinterpret_cast<unsigned char*>(&damaged)[bit / 8] ^=
        static_cast<unsigned char>(1 << (bit % 8));
    INFO("bit " << bit);
    CHECK(absl::IsDataLoss(DecodeHeader(BytesOf(damaged), {}).status()));
  }
}

TEST_CASE("a malformed header is refused by the name of its field") {
  struct Case {
    const char* field;
    std::function<void(FrameHeader&)> damage;
  };
  const std::vector<Case> cases{
      {"magic", [](FrameHeader& h) { h.magic = 1; }},
      {"version", [](FrameHeader& h) { h.version = 2; }},
      {"kind", [](FrameHeader& h) { h.kind = static_cast<FrameKind>(0); }},
      {"kind", [](FrameHeader& h) { h.kind = static_cast<FrameKind>(10); }},
      {"flags", [](FrameHeader& h) { h.flags = 4; }},
      {"request_id", [](FrameHeader& h) { h.request_id = 0; }},
      {"metadata_length", [](FrameHeader& h) { h.metadata_length = (16u << 20) + 1; }},
      {"payload_length", [](FrameHeader& h) { h.payload_length = uint64_t{1} << 30; }},
      {"payload_length", [](FrameHeader& h) { h.payload_length = ~uint64_t{0}; }},
      {"payload_length", [](FrameHeader& h) { h.segment_count = 0; }},
      {"segment_count", [](FrameHeader& h) { h.kind = FrameKind::kCancel; }},
      {"request_id", [](FrameHeader& h) { h.kind = FrameKind::kHello; }},
      {"request_id", [](FrameHeader& h) { h.kind = FrameKind::kGoaway; }},
      {"code", [](FrameHeader& h) { h.kind = FrameKind::kError; }},
      {"segment_count", [](FrameHeader& h) { h.kind = FrameKind::kChunk; }},
      {"segment_count", [](FrameHeader& h) { Gather(h, 0); }},
      {"segment_count", [](FrameHeader& h) { Gather(h, kMaxGathered + 1); }},
      {"metadata_length", [](FrameHeader& h) { Gather(h, 2), ++h.metadata_length; }},
      {"code", [](FrameHeader& h) { h.kind = FrameKind::kError, h.code = 17; }},
      {"request_id", [](FrameHeader& h) { h.kind = FrameKind::kPadding; }},
      {"request_id", [](FrameHeader& h) { h.kind = FrameKind::kProof; }},
      {"metadata_length",
       [](FrameHeader& h) {
         h.kind = FrameKind::kProof;
         h.request_id = 0;
         h.metadata_length = kMaxProofBytes + 1;
       }},
      {"segment_count", [](FrameHeader& h) { Pad(h, 0), h.segment_count = 1; }},
      {"metadata_length", [](FrameHeader& h) { Pad(h, kMaxPaddingBytes + 1); }},
  };
  for (const Case& one : cases) {
    FrameHeader header = RequestHeader();
    one.damage(header);
    const Status status = DecodeHeader(BytesOf(Seal(header)), {}).status();
    INFO(status);
    CHECK(absl::IsDataLoss(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(std::string(": ") + one.field));
  }
}

TEST_CASE("the table of borrowed segments does not count towards the limit of a frame") {
  FrameHeader header = RequestHeader();
  header.flags = kFlagBorrowed;
  header = Seal(header);
  const uint64_t bytes = kHeaderBytes + 2 * sizeof(uint64_t) + 24 + 100;
  CHECK(DecodeHeader(BytesOf(header), {.max_frame_bytes = bytes}).ok());
  CHECK(absl::IsDataLoss(DecodeHeader(BytesOf(header), {.max_frame_bytes = bytes - 1}).status()));
  CHECK(DecodeHeader(BytesOf(header), {.max_segments = 2}).ok());
  CHECK(absl::IsDataLoss(DecodeHeader(BytesOf(header), {.max_segments = 1}).status()));
}

TEST_CASE("the segment table must add up") {
  FrameHeader header = RequestHeader();
  CHECK(CheckSegmentTable(header, std::vector<uint64_t>{40, 60}).ok());
  CHECK(CheckSegmentTable(header, std::vector<uint64_t>{100, 0}).ok());
  CHECK(absl::IsDataLoss(CheckSegmentTable(header, std::vector<uint64_t>{40, 59})));
  CHECK(absl::IsDataLoss(CheckSegmentTable(header, std::vector<uint64_t>{40, 61})));
  // The sum overflows to the right value.
  CHECK(absl::IsDataLoss(CheckSegmentTable(header, std::vector<uint64_t>{~uint64_t{0}, 101})));
}

TEST_CASE("HELLO keeps its fields and names what differs") {
  const Hello own = TestHello("nn-worker");
  const StatusOr<PeerHello> peer = DecodeHello(
      EncodeHello(own, {.max_frame_bytes = 47'110, .max_metadata_bytes = 5'000, .max_segments = 7})
          .bytes);
  REQUIRE(peer.ok());
  CHECK(peer->limits.max_frame_bytes == 47'110);
  CHECK(peer->limits.max_metadata_bytes == 5'000);
  CHECK(peer->limits.max_segments == 7);
  CHECK(peer->hello.role == "nn-worker");
  CHECK(peer->hello.index == own.index);
  CHECK(peer->hello.run == own.run);
  CHECK(peer->hello.incarnation == own.incarnation);
  CHECK(peer->hello.map_version == own.map_version);
  CHECK(CheckProtocol(*peer).ok());
  CHECK(CheckCluster(own, peer->hello).ok());

  const auto reason = [&](const std::function<void(PeerHello&)>& change) {
    PeerHello changed = *peer;
    change(changed);
    Status status = CheckProtocol(changed);
    if (status.ok()) status = CheckCluster(own, changed.hello);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK_THAT(reason([](PeerHello& p) { p.hello.cluster = "other"; }), Catch::StartsWith("cluster"));
  CHECK_THAT(reason([](PeerHello& p) { p.hello.configuration = "a = 1\n"; }),
             Catch::StartsWith("configurations differ: a = none (nn-worker/3), 1 ("));
  CHECK_THAT(reason([](PeerHello& p) { p.limits.max_frame_bytes = 8'191; }),
             Catch::StartsWith("max_frame_bytes"));
  CHECK_THAT(reason([](PeerHello& p) { p.limits.max_metadata_bytes = 4'095; }),
             Catch::StartsWith("max_metadata_bytes"));
  for (const int other : {kProtocolVersion - 1, kProtocolVersion + 1}) {
    CHECK_THAT(reason([&](PeerHello& p) { p.protocol = static_cast<uint16_t>(other); }),
               Catch::StartsWith("protocol"));
  }
}

TEST_CASE("names in a HELLO that are not printable ASCII are refused") {
  const std::string good(255, '~');
  for (const std::string& bad : {std::string("a\nb"), std::string("\x1b[31m"),
                                 std::string("a\0b", 3), std::string("caf\xc3\xa9"), good + "x"}) {
    Hello hello = TestHello(bad);
    CHECK(absl::IsDataLoss(DecodeHello(EncodeHello(hello, {}).bytes).status()));
    hello.role = good;
    CHECK(DecodeHello(EncodeHello(hello, {}).bytes).ok());
    hello.cluster = bad;
    CHECK(absl::IsDataLoss(DecodeHello(EncodeHello(hello, {}).bytes).status()));
  }
}

TEST_CASE("an ERROR keeps the code and message of a status, and not its payloads") {
  Status sent = absl::FailedPreconditionError("not the owner");
  sent.SetPayload("test/local", absl::Cord("bytes"));
  const OutgoingFrame frame = ErrorFrame(5, sent);
  CHECK(frame.header.request_id == 5);
  Status received;
  REQUIRE(DecodeError(frame.header, frame.message.metadata.bytes, received).ok());
  CHECK(received == absl::FailedPreconditionError("not the owner"));
}

TEST_CASE("an ERROR truncates a long message to the limits of a HELLO") {
  const std::string most(2'048, 'm');
  for (const std::string& message : {most, most + "more"}) {
    const OutgoingFrame frame = ErrorFrame(5, absl::InternalError(message));
    CHECK(CheckFits(frame.message, kLeastLimits).ok());
    Status received;
    REQUIRE(DecodeError(frame.header, frame.message.metadata.bytes, received).ok());
    CHECK(received.message() == most);
  }
}

TEST_CASE("a message above the receiver's limits is refused before it is sent") {
  const OutgoingMessage message = Message(Bytes(10), {Bytes(100), Bytes(26)});
  const auto fits = [&](FrameLimits limits) { return CheckFits(message, limits); };
  CHECK(fits({.max_frame_bytes = 64 + 16 + 10 + 126}).ok());
  CHECK(absl::IsInvalidArgument(fits({.max_frame_bytes = 64 + 16 + 10 + 125})));
  CHECK(fits({.max_metadata_bytes = 10}).ok());
  CHECK(absl::IsInvalidArgument(fits({.max_metadata_bytes = 9})));
  CHECK(fits({.max_segments = 2}).ok());
  CHECK(absl::IsInvalidArgument(fits({.max_segments = 1})));
  OutgoingMessage many;
  many.segments.resize(size_t{kMaxSegments} + 1);
  CHECK(absl::IsInvalidArgument(CheckFits(many, {.max_frame_bytes = uint64_t{1} << 40})));
}

// Decodes one frame like a receiver.
Status Receive(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return absl::DataLossError("short");
  SIMURGH_ASSIGN_OR_RETURN(const FrameHeader header,
                           DecodeHeader(bytes.first<kHeaderBytes>(), {.max_frame_bytes = 1 << 20}));
  if (header.has_borrowed()) return absl::DataLossError("no memory is shared");
  if (FrameBytes(header) > bytes.size()) return absl::DataLossError("short");
  std::vector<uint64_t> table(header.segment_count);
  if (!table.empty()) std::memcpy(table.data(), bytes.data() + kHeaderBytes, TableBytes(header));
  SIMURGH_RETURN_IF_ERROR(CheckSegmentTable(header, table));
  const auto source = bytes.subspan(kHeaderBytes + TableBytes(header), header.metadata_length);
  const Bytes metadata(source.begin(), source.end());  // Aligned, as in a receiver.
  Status error;
  if (header.kind == FrameKind::kHello) return DecodeHello(metadata).status();
  if (header.kind == FrameKind::kError) return DecodeError(header, metadata, error);
  return absl::OkStatus();
}

TEST_CASE("the decoder survives any mutation of a frame") {
  constexpr uint64_t kSeed = 20'260'801;
  INFO("seed " << kSeed);
  Random random(kSeed);
  RawFrame request;
  request.header = RequestHeader();
  request.metadata = Bytes(24);
  request.segments = {Bytes(40), Bytes(0), Bytes(60)};
  const OutgoingFrame error = ErrorFrame(3, absl::NotFoundError("nothing here"));
  RawFrame raw_error;
  raw_error.header = error.header;
  raw_error.metadata.assign(error.message.metadata.bytes.begin(),
                            error.message.metadata.bytes.end());
  const std::vector<Bytes> corpus{Encode(request), Encode(raw_error),
                                  Encode(testing::HelloFrame(TestHello("fuzz")))};
  for (const Bytes& frame : corpus) CHECK(Receive(frame) == absl::OkStatus());

  uint64_t accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes frame = corpus[random.Below(corpus.size())];
    for (uint64_t edits = 1 + random.Below(4); edits != 0; --edits) {
      frame[random.Below(frame.size())] = static_cast<std::byte>(random());
    }
    if (random.Below(8) == 0) frame.resize(random.Below(frame.size()));
    if (random.Below(4) != 0 && frame.size() >= kHeaderBytes) {  // Past the checksum.
      FrameHeader header;
      std::memcpy(&header, frame.data(), kHeaderBytes);
      header = Seal(header);
      std::memcpy(frame.data(), &header, kHeaderBytes);
    }
    accepted += Receive(frame).ok();
  }
  // Both outcomes occur.
  CHECK(accepted > 1'000);
  CHECK(accepted < 199'000);
}

}  // namespace
}  // namespace simurgh::rpc
