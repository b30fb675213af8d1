#include "rpc/outbox.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/support.h"

namespace simurgh::rpc {
namespace {

constexpr uint64_t kLargeBatchBytes = 4 * Stream::kBatchBytes;

OutgoingFrame RequestOf(uint64_t id, std::vector<Bytes> segments, Bytes metadata = {}) {
  OutgoingFrame frame;
  frame.header.kind = FrameKind::kRequest;
  frame.header.request_id = id;
  frame.message = Message(std::move(metadata), segments);
  return frame;
}

// Decodes what an outbox has sent.
struct Received {
  struct Frame {
    FrameHeader header;
    std::vector<uint64_t> table;
    Bytes metadata;
    Bytes payload;
    size_t begin = 0;

    // The messages that the payload belongs to.
    std::vector<uint64_t> Ids() const {
      if (!header.gathered()) return {header.request_id};
      std::vector<uint64_t> ids(header.segment_count);
      std::memcpy(ids.data(), metadata.data(), metadata.size());
      return ids;
    }
  };

  explicit Received(const Bytes& stream, const FrameLimits& limits = FrameLimits()) {
    size_t at = 0;
    const auto take = [&](size_t count) {
      REQUIRE(at + count <= stream.size());
      const auto from = stream.begin() + static_cast<ptrdiff_t>(at);
      at += count;
      return Bytes(from, from + static_cast<ptrdiff_t>(count));
    };
    while (at < stream.size()) {
      Frame frame{.begin = at};
      const Bytes bytes = take(kHeaderBytes);
      const auto header = DecodeHeader(std::span(bytes).first<kHeaderBytes>(), limits);
      REQUIRE(header.status() == absl::OkStatus());
      frame.header = *header;
      frame.table.resize(header->segment_count);
      const Bytes table = take(frame.table.size() * sizeof(uint64_t));
      if (!table.empty()) std::memcpy(frame.table.data(), table.data(), table.size());
      REQUIRE(CheckSegmentTable(*header, frame.table) == absl::OkStatus());
      frame.metadata = take(header->metadata_length);
      frame.payload = take(header->following_bytes());
      frames.push_back(std::move(frame));
    }
  }

  // Payloads by request id.
  std::map<uint64_t, Bytes> Payloads() const {
    std::map<uint64_t, Bytes> payloads;
    for (const Frame& frame : frames) {
      if (frame.header.kind == FrameKind::kPadding) continue;
      auto begin = frame.payload.begin();
      const std::vector<uint64_t> ids = frame.Ids();
      for (size_t i = 0; i < ids.size(); ++i) {
        const uint64_t bytes = frame.header.gathered() ? frame.table[i] : frame.payload.size();
        const auto end = begin + static_cast<ptrdiff_t>(bytes);
        Bytes& payload = payloads[ids[i]];
        payload.insert(payload.end(), begin, end);
        begin = end;
      }
    }
    return payloads;
  }

  std::vector<Frame> frames;
};

// Writes up to `limit` bytes at a time, as a socket does.
void WriteSome(Outbox& outbox, size_t limit, Bytes& stream) {
  size_t written = 0;
  for (const asio::const_buffer& buffer : outbox.Gather()) {
    const size_t part = std::min(buffer.size(), limit - written);
    const auto* data = static_cast<const std::byte*>(buffer.data());
    stream.insert(stream.end(), data, data + part);
    written += part;
    if (written == limit) break;
  }
  outbox.Written(written);
  outbox.Release();
}

Bytes WriteAll(Outbox& outbox) {
  Bytes stream;
  while (!outbox.empty()) WriteSome(outbox, SIZE_MAX, stream);
  return stream;
}

Bytes Concatenated(const std::vector<Bytes>& segments) {
  Bytes all;
  for (const Bytes& segment : segments) all.insert(all.end(), segment.begin(), segment.end());
  return all;
}

TEST_CASE("an outbox sends every message whole with any sizes of writes") {
  Random random(GENERATE(1, 2, 3, 4));
  const bool established = GENERATE(false, true);
  Outbox outbox;
  if (established) outbox.Establish(FrameLimits());
  std::map<uint64_t, Bytes> sent;
  std::map<uint64_t, Bytes> metadata;
  Bytes stream;
  uint64_t last_id = 0;
  while (last_id < 200 || !outbox.empty()) {
    if (last_id < 200 && random.Uniform() < 0.6) {
      std::vector<Bytes> segments(random() % 4);
      for (Bytes& segment : segments) {
        segment = RandomBytes(random, random() % (random.Uniform() < 0.1 ? 900'000 : 9'000));
      }
      metadata[++last_id] = RandomBytes(random, random() % 300);
      sent[last_id] = Concatenated(segments);
      outbox.Add(RequestOf(last_id, segments, metadata[last_id]));
    }
    WriteSome(outbox, 1 + random() % 200'000, stream);
  }
  CHECK(outbox.bytes() == 0);
  const Received received(stream);
  CHECK((received.Payloads() == sent));
  size_t gatherings = 0;
  for (const auto& frame : received.frames) {
    const FrameHeader& header = frame.header;
    gatherings += header.gathered();
    if (header.kind == FrameKind::kChunk || header.kind == FrameKind::kPadding) {
      CHECK(established);
      continue;
    }
    CHECK((frame.metadata == metadata[header.request_id]));
    const bool large = header.payload_length > Outbox::kMaxWholeBytes;
    const bool maybe = established && header.payload_length >= kSmallPayloadBytes;
    CHECK((header.chunked() == (established && large) || maybe));
  }
  CHECK((gatherings != 0) == established);
}

// Checks that no hint reaches into a large payload. Returns how many reach its start.
size_t CheckHints(const Received& received) {
  size_t covered = 0;
  for (size_t i = 0; i < received.frames.size(); ++i) {
    const FrameHeader& header = received.frames[i].header;
    uint64_t reach = received.frames[i].begin + FrameBytes(header) -
                     (header.payload_length - header.following_bytes());
    reach += header.read_ahead;
    const auto large =
        std::find_if(received.frames.begin() + static_cast<ptrdiff_t>(i) + 1, received.frames.end(),
                     [](const Received::Frame& frame) { return !frame.header.payload_is_small(); });
    if (large == received.frames.end()) break;
    const size_t payload =
        large->begin + kHeaderBytes + TableBytes(large->header) + large->metadata.size();
    CHECK(reach <= payload);
    covered += reach == payload;
  }
  return covered;
}

TEST_CASE("a hint never reaches into a large payload, and covers the small frames of a batch") {
  Random random(5);
  Outbox outbox;
  outbox.Establish(FrameLimits());
  for (uint64_t id = 1; id <= 300; ++id) {
    const size_t size = random.Uniform() < 0.1 ? 5'000 + random() % 400'000 : random() % 4'096;
    outbox.Add(RequestOf(id, {RandomBytes(random, size)}));
  }
  CHECK(CheckHints(Received(WriteAll(outbox))) > 200);
}

TEST_CASE("padding keeps what hints promise of the next batch") {
  Random random(GENERATE(6, 7, 8));
  Outbox outbox;
  outbox.Establish(FrameLimits());
  std::map<uint64_t, Bytes> sent;
  Bytes stream;
  constexpr size_t kBatches = 300;
  for (size_t i = 0; i < kBatches; ++i) {
    const size_t size = std::array{0, 10, 5'000, 50'000, 700'000}[random() % 5];
    for (size_t count = 1 + random() % 6; count > 0; --count) {
      const uint64_t id = sent.size() + 1;
      sent[id] = RandomBytes(random, size);
      outbox.Add(RequestOf(id, {sent[id]}, Bytes(random() % 100)));
    }
    const Bytes batch = WriteAll(outbox);
    CHECK(outbox.bytes() == 0);
    stream.insert(stream.end(), batch.begin(), batch.end());
  }
  const Received received(stream);
  CHECK((received.Payloads() == sent));
  CheckHints(received);
  size_t padding = 0;
  for (const auto& frame : received.frames) padding += frame.header.kind == FrameKind::kPadding;
  CHECK(padding != 0);
  CHECK(padding < kBatches);
}

TEST_CASE("written frames are not pending while padding is written") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const Outbox::Ticket first = outbox.Add(RequestOf(1, {Bytes(500)}));
  (void)WriteAll(outbox);
  const Outbox::Ticket second = outbox.Add(RequestOf(2, {Bytes(5'000)}));
  Bytes padding;
  WriteSome(outbox, 500, padding);
  const FrameHeader header = Received(padding).frames.at(0).header;
  CHECK((header.kind == FrameKind::kPadding && FrameBytes(header) == 500));
  CHECK_FALSE(outbox.Pending(first));
  CHECK(outbox.Pending(second));
  (void)WriteAll(outbox);
  CHECK_FALSE(outbox.Pending(second));
}

TEST_CASE("batches of one shape need no padding, and hints reach the next payload") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  Bytes stream;
  for (uint64_t id = 1; id <= 30; ++id) {
    outbox.Add(RequestOf(id, {Bytes(5'000)}, Bytes(24)));
    if (id % 3 != 0) continue;
    const Bytes batch = WriteAll(outbox);
    stream.insert(stream.end(), batch.begin(), batch.end());
  }
  const Received received(stream);
  constexpr size_t kFramesOfBatch = 4;  // Three heads and a chunk.
  CHECK(received.frames.size() == 10 * kFramesOfBatch);
  CHECK(CheckHints(received) == 9 * kFramesOfBatch + kFramesOfBatch - 1);
}

TEST_CASE("heads of messages of some KiB leave before their payloads") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const std::vector<size_t> sizes{100, 5'000, 4'096, 16'384, 4'095, 6'000, 16'385, 7'000, 8'000};
  for (size_t i = 0; i < sizes.size(); ++i) {
    outbox.Add(RequestOf(i + 1, {Bytes(sizes[i])}, Bytes(24)));
  }
  uint64_t expected = outbox.bytes();
  const Bytes stream = WriteAll(outbox);
  std::vector<std::vector<uint64_t>> order;
  for (const auto& frame : Received(stream).frames) {
    if (frame.header.gathered()) expected += kHeaderBytes + frame.table.size() * 16;
    order.push_back(frame.Ids());
  }
  // The sixth is between two that are too small and too large.
  CHECK((order == std::vector<std::vector<uint64_t>>{
                      {1}, {2}, {3}, {4}, {2, 3, 4}, {5}, {6}, {7}, {8}, {9}, {8, 9}}));
  CHECK(stream.size() == expected);
  CHECK(outbox.bytes() == 0);
}

TEST_CASE("a message with gathered payload is pending until its own bytes are written") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const Outbox::Ticket first = outbox.Add(RequestOf(1, {Bytes(5'000)}));
  const Outbox::Ticket second = outbox.Add(RequestOf(2, {Bytes(5'000)}));
  const size_t heads = 3 * kHeaderBytes + 2 * 8 + 2 * 16;
  Bytes stream;
  WriteSome(outbox, heads + 4'999, stream);
  CHECK(outbox.Pending(first));
  WriteSome(outbox, 1, stream);
  CHECK_FALSE(outbox.Pending(first));
  WriteSome(outbox, 4'999, stream);
  CHECK(outbox.Pending(second));
  CHECK(outbox.Withdraw(second) == Outbox::Withdrawn::kNothing);
  WriteSome(outbox, 1, stream);
  CHECK_FALSE(outbox.Pending(second));
  CHECK(outbox.empty());
}

TEST_CASE("a gathered chunk has at most kMaxGathered messages") {
  Outbox outbox(kLargeBatchBytes);
  outbox.Establish(FrameLimits());
  for (uint64_t id = 1; id <= 2 * kMaxGathered + 2; ++id) {
    outbox.Add(RequestOf(id, {Bytes(kSmallPayloadBytes)}));
  }
  std::vector<size_t> messages;
  for (const auto& frame : Received(WriteAll(outbox)).frames) {
    if (frame.header.gathered()) messages.push_back(frame.table.size());
  }
  CHECK(messages == std::vector<size_t>{kMaxGathered, kMaxGathered, 2});
}

TEST_CASE("payloads are gathered only for a receiver that accepts the largest chunk") {
  FrameLimits limits{.max_frame_bytes = kHeaderBytes + kMaxGathered * (16 + 16'384),
                     .max_metadata_bytes = 4'096,
                     .max_segments = kMaxGathered};
  bool accepts = true;
  SECTION("just so") {}
  SECTION("fewer bytes") {
    --limits.max_frame_bytes;
    accepts = false;
  }
  SECTION("fewer segments") {
    --limits.max_segments;
    accepts = false;
  }
  Outbox outbox(kLargeBatchBytes);
  outbox.Establish(limits);
  for (uint64_t id = 1; id <= kMaxGathered; ++id) outbox.Add(RequestOf(id, {Bytes(16'384)}));
  const Received received(WriteAll(outbox), limits);
  CHECK(received.frames.back().header.gathered() == accepts);
}

TEST_CASE("a small frame passes a large message between two batches") {
  const uint64_t batch = GENERATE(Stream::kBatchBytes, kLargeBatchBytes);
  Outbox outbox(batch);
  outbox.Establish(FrameLimits());
  const Bytes large(8 * batch);
  outbox.Add(RequestOf(1, {large}));
  Bytes stream;
  WriteSome(outbox, SIZE_MAX, stream);
  CHECK(stream.size() >= batch);
  outbox.Add(RequestOf(2, {Bytes(100)}));
  WriteSome(outbox, SIZE_MAX, stream);
  CHECK(stream.size() <= 2 * batch + 1'000);
  bool passed = false;
  for (const auto& frame : Received(stream).frames) passed |= frame.header.request_id == 2;
  CHECK(passed);
}

TEST_CASE("large messages take turns") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const size_t size = 20'000'000;
  for (uint64_t id = 1; id <= 2; ++id) outbox.Add(RequestOf(id, {Bytes(size)}));
  const Received received(WriteAll(outbox));
  uint64_t of_first = 0;
  for (const auto& frame : received.frames) {
    if (frame.header.kind == FrameKind::kChunk && frame.header.request_id == 2) break;
    of_first += frame.payload.size();
  }
  CHECK(of_first > 8'000'000);
  CHECK(of_first < 9'000'000);
}

TEST_CASE("withdrawn frames are not sent, and the result tells how much was") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const Outbox::Ticket first = outbox.Add(RequestOf(1, {Bytes(100)}));
  const Outbox::Ticket whole = outbox.Add(RequestOf(2, {Bytes(100)}));
  CHECK(outbox.Withdraw(whole) == Outbox::Withdrawn::kWhole);
  const Outbox::Ticket large = outbox.Add(RequestOf(3, {Bytes(1'000'000)}));
  Bytes stream;
  WriteSome(outbox, 100, stream);
  CHECK(outbox.Pending(first));
  CHECK(outbox.Withdraw(first) == Outbox::Withdrawn::kNothing);
  CHECK(outbox.Withdraw(large) == Outbox::Withdrawn::kRest);
  CHECK(outbox.Pending(large));  // Part of it is in the batch.
  while (!outbox.empty()) WriteSome(outbox, SIZE_MAX, stream);
  CHECK_FALSE(outbox.Pending(first));
  CHECK_FALSE(outbox.Pending(large));
  CHECK(outbox.bytes() == 0);
  const auto payloads = Received(stream).Payloads();
  CHECK(payloads.at(1).size() == 100);
  CHECK_FALSE(payloads.contains(2));
  CHECK(payloads.at(3).size() < 1'000'000);
}

TEST_CASE("an outbox holds owners until their bytes are written") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const auto bytes = std::make_shared<const Bytes>(1'000'000);
  OutgoingFrame frame;
  frame.header.kind = FrameKind::kRequest;
  frame.header.request_id = 1;
  frame.message.segments.push_back({.bytes = *bytes, .owner = bytes});
  outbox.Add(std::move(frame));
  Bytes stream;
  while (stream.size() < 1'000'000) {
    CHECK(bytes.use_count() == 2);
    WriteSome(outbox, 100'000, stream);
  }
  while (!outbox.empty()) WriteSome(outbox, SIZE_MAX, stream);
  CHECK(bytes.use_count() == 1);
}

TEST_CASE("a large message withdrawn while its head is written is released") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  std::vector<std::weak_ptr<const Bytes>> owners;
  std::vector<Outbox::Ticket> tickets;
  for (uint64_t id = 1; id <= 2; ++id) {
    OutgoingFrame frame = RequestOf(id, {});
    const auto bytes = std::make_shared<const Bytes>(2 * Stream::kBatchBytes);
    frame.message.segments.push_back({.bytes = *bytes, .owner = bytes});
    owners.emplace_back(bytes);
    tickets.push_back(outbox.Add(std::move(frame)));
  }
  Bytes stream;
  WriteSome(outbox, 1, stream);  // The batch has both heads and a chunk of the first.
  CHECK(outbox.Withdraw(tickets[1]) == Outbox::Withdrawn::kRest);
  CHECK(outbox.Pending(tickets[1]));
  while (!outbox.empty()) WriteSome(outbox, SIZE_MAX, stream);
  CHECK_FALSE(outbox.Pending(tickets[0]));
  CHECK_FALSE(outbox.Pending(tickets[1]));
  CHECK(owners[0].expired());
  CHECK(owners[1].expired());
  CHECK(outbox.bytes() == 0);
  CHECK(Received(stream).Payloads().at(2).empty());
}

TEST_CASE("a large message withdrawn between two batches is released at once") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  OutgoingFrame frame = RequestOf(1, {});
  const auto bytes = std::make_shared<const Bytes>(4 * Stream::kBatchBytes);
  frame.message.segments.push_back({.bytes = *bytes, .owner = bytes});
  const Outbox::Ticket ticket = outbox.Add(std::move(frame));
  Bytes stream;
  WriteSome(outbox, SIZE_MAX, stream);
  CHECK(outbox.Pending(ticket));
  CHECK(outbox.Withdraw(ticket) == Outbox::Withdrawn::kRest);
  CHECK_FALSE(outbox.Pending(ticket));
  CHECK(bytes.use_count() == 1);
  CHECK(outbox.empty());
  CHECK(outbox.bytes() == 0);
}

TEST_CASE("after a drop unwritten frames are pending, and no owner is held") {
  Outbox outbox;
  outbox.Establish(FrameLimits());
  const Outbox::Ticket first = outbox.Add(RequestOf(1, {Bytes(100)}));
  const Outbox::Ticket second = outbox.Add(RequestOf(2, {Bytes(100)}));
  OutgoingFrame frame = RequestOf(3, {Bytes(1'000'000)});
  const std::weak_ptr<const void> owner = frame.message.segments[0].owner;
  const Outbox::Ticket large = outbox.Add(std::move(frame));
  Bytes stream;
  WriteSome(outbox, 250, stream);
  outbox.Drop();
  CHECK(owner.expired());
  CHECK_FALSE(outbox.Pending(first));
  CHECK(outbox.Pending(second));
  CHECK(outbox.Pending(large));
  CHECK(outbox.empty());
}

}  // namespace
}  // namespace simurgh::rpc
