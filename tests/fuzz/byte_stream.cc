#include "tests/fuzz/byte_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace simurgh::fuzz {
namespace {

using rpc::FrameHeader;
using rpc::asio::awaitable;

constexpr uint64_t kMaxChunkedBytes = 65'536;

// Gives the header and the segment table lengths that agree with one another and with the record.
void Fit(FrameHeader& header, Bytes& record) {
  header.flags &= static_cast<uint16_t>(~rpc::kFlagBorrowed);
  header.segment_count %= 4;
  const uint64_t behind = record.size() - rpc::kHeaderBytes;
  if (rpc::TableBytes(header) > behind) header.segment_count = 0;
  uint64_t left = behind - rpc::TableBytes(header);
  header.metadata_length = static_cast<uint32_t>(std::min<uint64_t>(header.metadata_length, left));
  left -= header.metadata_length;
  header.payload_length = 0;
  for (size_t i = 0; i < header.segment_count; ++i) {
    std::byte* const entry = record.data() + rpc::kHeaderBytes + i * sizeof(uint64_t);
    uint64_t length = 0;
    std::memcpy(&length, entry, sizeof(length));
    if (header.chunked()) {
      length %= kMaxChunkedBytes;
    } else {
      length = i + 1 == header.segment_count ? left : length % (left + 1);
      left -= length;
    }
    std::memcpy(entry, &length, sizeof(length));
    header.payload_length += length;
  }
  // Nothing may follow that belongs to no segment.
  if (header.chunked() || header.segment_count == 0) record.resize(record.size() - left);
}

void Repair(Bytes& record, bool fit) {
  if (record.size() < rpc::kHeaderBytes) return;
  FrameHeader header;
  std::memcpy(&header, record.data(), rpc::kHeaderBytes);
  header.magic = rpc::kFrameMagic;
  header.version = rpc::kFrameVersion;
  if (fit) Fit(header, record);
  header = rpc::Seal(header);
  std::memcpy(record.data(), &header, rpc::kHeaderBytes);
}

}  // namespace

Bytes ReadRecords(Input input) {
  SeedReader reader(input);
  Bytes all;
  while (!reader.rest().empty()) {
    const uint8_t kind = reader.Value<uint8_t>() % 3;
    Bytes record = reader.Part();
    if (kind != kAsItIs) Repair(record, kind == kFitted);
    all.insert(all.end(), record.begin(), record.end());
  }
  return all;
}

ByteStream::ByteStream(rpc::asio::any_io_executor executor, const Bytes& greeting,
                       const Bytes& bytes)
    : executor_(std::move(executor)),
      bytes_(greeting),
      random_(bytes.size()),
      end_(greeting.size()) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

rpc::Stream::Progress ByteStream::TryRead(std::span<const rpc::asio::mutable_buffer> buffers) {
  if (closed_) return {rpc::asio::error::operation_aborted};
  const bool held = next_ == end_ && end_ != bytes_.size();
  if (held || random_.Below(3) == 0) return {rpc::asio::error::would_block};
  return Give(buffers);
}

awaitable<rpc::Stream::Progress> ByteStream::Read(
    std::span<const rpc::asio::mutable_buffer> buffers, rpc::asio::cancellation_slot /*stop*/) {
  do {
    co_await rpc::asio::post(executor_, rpc::kNoThrow);
  } while (!closed_ && next_ == end_ && end_ != bytes_.size());
  if (closed_) co_return Progress{rpc::asio::error::operation_aborted};
  co_return Give(buffers);
}

rpc::Stream::Progress ByteStream::TryWrite(std::span<const rpc::asio::const_buffer> buffers) {
  Progress progress;
  for (const auto& buffer : buffers) progress.bytes += buffer.size();
  return progress;
}

void ByteStream::WhenWritable(std::function<void(const ErrorCode&)> ready) {
  rpc::asio::post(executor_, [ready = std::move(ready)] { ready({}); });
}

rpc::Stream::Progress ByteStream::Give(std::span<const rpc::asio::mutable_buffer> buffers) {
  if (next_ == end_) return {rpc::asio::error::eof};
  Progress progress;
  size_t piece = 1 + random_.Below(end_ - next_);
  for (const auto& buffer : buffers) {
    const size_t count = std::min(piece, buffer.size());
    if (count != 0) std::memcpy(buffer.data(), bytes_.data() + next_, count);
    next_ += count;
    piece -= count;
    progress.bytes += count;
  }
  return progress;
}

}  // namespace simurgh::fuzz
