#include "rpc/outbox.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace simurgh::rpc {
namespace {

// Minimum size of a chunk that is not the last of its message.
constexpr uint64_t kMinChunkBytes = 65'536;
// A large message's turn. Shorter turns cost cache misses at both ends.
constexpr uint64_t kTurnBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxHint = 0xffff;
// A larger payload gets its own system call.
constexpr uint64_t kMaxGatheredBytes = 16'384;

uint64_t HeadBytes(const FrameHeader& header) {
  return kHeaderBytes + TableBytes(header) + header.metadata_length;
}

}  // namespace

// The payload of a chunked message.
struct Outbox::Bulk {
  uint64_t number = 0;
  uint64_t request_id = 0;
  std::vector<OutgoingSegment> segments;
  Gate::Pass pass;
  WindowShare share;
  uint64_t total = 0;     // Bytes.
  uint64_t composed = 0;  // Bytes in this batch and earlier ones.
  uint64_t turn = 0;      // Bytes in the current turn.
};

uint64_t Outbox::BytesOf(const Item& item) {
  const bool elsewhere = (item.bulk != nullptr) != (item.header.kind == FrameKind::kChunk);
  return HeadBytes(item.header) + (elsewhere ? 0 : item.header.payload_length);
}

void Outbox::Establish(const FrameLimits& peer) {
  constexpr uint64_t kMaxBytes =
      kHeaderBytes + kMaxGathered * (2 * sizeof(uint64_t) + kMaxGatheredBytes);
  established_ = true;
  may_gather_ = peer.max_segments >= kMaxGathered && peer.max_frame_bytes >= kMaxBytes;
}

Outbox::Ticket Outbox::Add(OutgoingFrame&& frame) {
  Item& item = queue_.emplace_back();
  item.header = frame.header;
  item.number = ++last_number_;
  FrameHeader& header = item.header;
  header.payload_length = 0;
  for (const OutgoingSegment& segment : frame.message.segments) {
    item.table.push_back(segment.bytes.size());
    header.payload_length += segment.bytes.size();
  }
  SIMURGH_CHECK_LE(item.table.size(), kMaxSegments);
  header.segment_count = static_cast<uint16_t>(item.table.size());
  header.metadata_length = static_cast<uint32_t>(frame.message.metadata.bytes.size());
  item.message = std::move(frame.message);
  if (sharing_ != nullptr) LendSegments(item);
  item.pass = std::move(frame.pass);
  item.share = std::move(frame.share);
  bytes_ += BytesOf(item);
  if (!established_ || header.payload_length <= kMaxWholeBytes) return {item.number, false};

  header.flags |= kFlagChunked;
  item.bulk = std::make_shared<Bulk>(Bulk{.number = item.number,
                                          .request_id = header.request_id,
                                          .segments = std::exchange(item.message.segments, {}),
                                          .pass = std::exchange(item.pass, {}),
                                          .share = std::exchange(item.share, {}),
                                          .total = header.payload_length});
  open_.push_back(item.bulk);
  return {item.number, true};
}

void Outbox::LendSegments(Item& item) {
  std::vector<OutgoingSegment>& segments = item.message.segments;
  const auto is_large = [](const OutgoingSegment& segment) {
    return segment.bytes.size() >= Sharing::kMinBorrowedBytes;
  };
  const uint64_t large = static_cast<uint64_t>(std::ranges::count_if(segments, is_large));
  // The table must not be larger than the bytes it saves.
  if (large * Sharing::kMinBorrowedBytes < segments.size() * sizeof(BorrowedSegment)) return;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!is_large(segments[i])) continue;
    const std::optional<Sharing::Lent> lent = sharing_->Lend(segments[i].bytes);
    if (!lent) continue;
    if (item.borrowed.empty())
      item.borrowed.resize(segments.size(), BorrowedSegment{.slot = kNotBorrowed});
    item.borrowed[i] = lent->segment;
    item.header.payload_length -= segments[i].bytes.size();
    if (lent->copied) {
      shared_bytes_.copied += segments[i].bytes.size();
      copied_.push_back(std::move(segments[i].owner));
    }
    segments[i].bytes = {};
  }
  if (item.borrowed.empty()) return;
  item.header.flags |= kFlagBorrowed;
  borrowed_bytes_ += BorrowedBytesOf(item);
}

uint64_t Outbox::BorrowedBytesOf(const Item& item) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < item.borrowed.size(); ++i) {
    if (item.borrowed[i].slot != kNotBorrowed) bytes += item.table[i];
  }
  return bytes;
}

Outbox::Withdrawn Outbox::Withdraw(const Ticket& ticket) {
  const auto queued = std::ranges::find(queue_, ticket.number, &Item::number);
  if (queued != queue_.end()) {
    bytes_ -= BytesOf(*queued) + (queued->bulk ? queued->bulk->total : 0);
    if (queued->bulk) std::erase(open_, queued->bulk);
    borrowed_bytes_ -= BorrowedBytesOf(*queued);
    for (const BorrowedSegment& segment : queued->borrowed) sharing_->TakeBack(segment);
    const Item withdrawn = std::move(*queued);
    queue_.erase(queued);
    return Withdrawn::kWhole;
  }
  const auto begun =
      std::ranges::find_if(bulk_, [&](const auto& bulk) { return bulk->number == ticket.number; });
  if (begun == bulk_.end()) return Withdrawn::kNothing;
  const std::shared_ptr<Bulk> bulk = std::move(*begun);
  bulk_.erase(begun);
  bytes_ -= bulk->total - bulk->composed;
  bulk->total = bulk->composed;
  const auto rest = std::span(batch_).subspan(items_done_);
  if (std::ranges::find(rest, bulk, &Item::bulk) == rest.end()) std::erase(open_, bulk);
  return Withdrawn::kRest;
}

bool Outbox::Pending(const Ticket& ticket) const {
  if (!ticket.chunked) return ticket.number > written_;
  return std::ranges::any_of(open_,
                             [&](const auto& bulk) { return bulk->number == ticket.number; });
}

std::span<const asio::const_buffer> Outbox::Gather() {
  if (batch_.empty()) Compose();
  return std::span(gathered_).subspan(buffers_done_);
}

void Outbox::Compose() {
  batch_bytes_ = 0;
  ComposeFrames();
  if (may_gather_) GatherPayloads();
  while (!bulk_.empty() && batch_bytes_ < batch_limit_) {
    batch_.push_back(NextChunk(batch_limit_ - batch_bytes_));
    batch_bytes_ += BytesOf(batch_.back());
  }
  if (established_ && !batch_.empty()) {
    PadOpening();
    FillHints();
  }
  gathered_.clear();
  buffers_done_ = 0;
  items_done_ = 0;
  for (size_t i = 0; i < batch_.size(); ++i) AddBuffers(i);
}

void Outbox::ComposeFrames() {
  auto end = queue_.begin();
  for (; end != queue_.end() && batch_bytes_ < batch_limit_; ++end) {
    batch_bytes_ += BytesOf(*end);
    if (end->bulk) bulk_.push_back(end->bulk);
  }
  if (end == queue_.end()) return std::swap(batch_, queue_);
  batch_.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
}

// Moves consecutive payloads of some KiB behind the heads of all their messages: the receiver then
// has all destinations and reads the payloads with one system call.
void Outbox::GatherPayloads() {
  const auto fits = [](const Item& item) {
    const uint64_t bytes = item.header.following_bytes();
    return bytes >= kSmallPayloadBytes && bytes <= kMaxGatheredBytes;
  };
  std::vector<std::pair<size_t, Item>> chunks;  // Each with its position in batch_.
  for (size_t begin = 0; begin < batch_.size();) {
    size_t count = 0;
    const auto rest = std::span(batch_).subspan(begin);
    while (count < std::min<size_t>(rest.size(), kMaxGathered) && fits(rest[count])) ++count;
    if (count >= 2) chunks.emplace_back(begin + count, GatheredChunk(rest.first(count)));
    begin += std::max<size_t>(count, 1);
  }
  // The loop begins at the end, so that no frame moves twice.
  size_t from = batch_.size();
  size_t to = from + chunks.size();
  batch_.resize(to);
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    while (from != chunk->first) batch_[--to] = std::move(batch_[--from]);
    batch_[--to] = std::move(chunk->second);
  }
}

Outbox::Item Outbox::GatheredChunk(std::span<Item> messages) {
  Item item;
  item.header.kind = FrameKind::kChunk;
  item.header.segment_count = static_cast<uint16_t>(messages.size());
  const auto ids = std::make_shared<std::array<uint64_t, kMaxGathered>>();
  for (size_t i = 0; i < messages.size(); ++i) {
    FrameHeader& header = messages[i].header;
    header.flags |= kFlagChunked;
    item.header.payload_length += header.payload_length;
    item.table.push_back(header.payload_length);
    (*ids)[i] = header.request_id;
  }
  item.number = messages.back().number;
  const auto bytes = std::as_bytes(std::span(*ids).first(messages.size()));
  item.header.metadata_length = static_cast<uint32_t>(bytes.size());
  item.message.metadata = {.bytes = bytes, .owner = ids};
  bytes_ += HeadBytes(item.header);
  return item;
}

Outbox::Item Outbox::NextChunk(uint64_t room) {
  std::shared_ptr<Bulk> bulk = std::move(bulk_.front());
  bulk_.pop_front();
  Item item;
  item.header.kind = FrameKind::kChunk;
  item.header.request_id = bulk->request_id;
  const uint64_t left = bulk->total - bulk->composed;
  item.header.payload_length = left < room + kMinChunkBytes ? left : std::max(room, kMinChunkBytes);
  item.header.segment_count = 1;
  item.table.push_back(item.header.payload_length);
  item.bulk_offset = bulk->composed;
  item.bulk = bulk;
  bulk->composed += item.header.payload_length;
  bytes_ += HeadBytes(item.header);
  if (bulk->composed == bulk->total) return item;
  bulk->turn += item.header.payload_length;
  if (bulk->turn < kTurnBytes) {
    bulk_.push_front(std::move(bulk));
  } else {
    bulk->turn = 0;
    bulk_.push_back(std::move(bulk));
  }
  return item;
}

// Promises that the next batch starts with as many bytes without large payload as this one, and
// keeps the promise of the last batch. The receiver thus reads all heads of a batch with one system
// call.
void Outbox::PadOpening() {
  uint64_t opening = 0;
  for (const Item& item : batch_) {
    opening += HeadBytes(item.header);
    if (!item.header.payload_is_small() || opening >= kMaxPaddingBytes) break;
    opening += item.header.following_bytes();
  }
  if (opening < promised_) {
    static const auto zeros = std::make_shared<const std::array<std::byte, kMaxPaddingBytes>>();
    const uint64_t missing = std::max<uint64_t>(promised_ - opening, kHeaderBytes);
    Item& item = *batch_.emplace(batch_.begin());
    item.header.kind = FrameKind::kPadding;
    item.header.metadata_length = static_cast<uint32_t>(missing - kHeaderBytes);
    item.number = written_;
    item.message.metadata = {.bytes = std::span(*zeros).first(item.header.metadata_length),
                             .owner = zeros};
    bytes_ += HeadBytes(item.header);
  }
  promised_ = std::min<uint64_t>(opening, kMaxPaddingBytes);
}

// Sets read_ahead of each frame to the bytes after it without large payload.
void Outbox::FillHints() {
  uint64_t run = promised_;
  for (auto item = batch_.rbegin(); item != batch_.rend(); ++item) {
    item->header.read_ahead = static_cast<uint16_t>(std::min(run, kMaxHint));
    const uint64_t head = HeadBytes(item->header);
    const bool small = item->header.payload_is_small();
    run = head + (small ? item->header.following_bytes() + run : 0);
  }
}

void Outbox::AddBuffers(size_t index) {
  Item& item = batch_[index];
  item.header = Seal(item.header);
  AddBuffer(&item.header, kHeaderBytes);
  AddBuffer(item.table.data(), item.table.size() * sizeof(uint64_t));
  AddBuffer(item.borrowed.data(), item.borrowed.size() * sizeof(BorrowedSegment));
  AddBuffer(item.message.metadata.bytes.data(), item.message.metadata.bytes.size());
  if (item.header.gathered()) {
    for (size_t i = index - item.header.segment_count; i < index; ++i) AddPayload(batch_[i]);
  } else if (item.header.kind == FrameKind::kChunk || !item.header.chunked()) {
    AddPayload(item);
  }
  item.buffers_end = gathered_.size();
}

void Outbox::AddPayload(Item& item) {
  const bool chunk = item.header.kind == FrameKind::kChunk;
  uint64_t skip = item.bulk_offset;
  uint64_t left = item.header.payload_length;
  for (const OutgoingSegment& segment : chunk ? item.bulk->segments : item.message.segments) {
    if (left == 0) break;
    const uint64_t from = std::min<uint64_t>(skip, segment.bytes.size());
    const uint64_t length = std::min<uint64_t>(left, segment.bytes.size() - from);
    AddBuffer(segment.bytes.data() + from, length);
    skip -= from;
    left -= length;
  }
  item.buffers_end = gathered_.size();
}

void Outbox::Written(size_t bytes) {
  while (bytes != 0) {
    asio::const_buffer& buffer = gathered_[buffers_done_];
    const size_t part = std::min(bytes, buffer.size());
    buffer += part;
    bytes -= part;
    if (buffer.size() == 0) ++buffers_done_;
  }
  while (items_done_ < batch_.size() && batch_[items_done_].buffers_end <= buffers_done_) {
    NoteWritten(batch_[items_done_++]);
  }
  if (items_done_ < batch_.size()) return;
  items_done_ = 0;
  if (done_.empty()) return done_.swap(batch_);
  std::move(batch_.begin(), batch_.end(), std::back_inserter(done_));
  batch_.clear();
}

void Outbox::NoteWritten(const Item& item) {
  bytes_ -= BytesOf(item);
  const uint64_t lent = BorrowedBytesOf(item);
  borrowed_bytes_ -= lent;
  shared_bytes_.sent += lent;
  if (item.bulk == nullptr) {
    written_ = item.number;
    return;
  }
  // If the message was withdrawn before its first chunk, the head is all of it.
  const bool chunk = item.header.kind == FrameKind::kChunk;
  const uint64_t end = item.bulk_offset + (chunk ? item.header.payload_length : 0);
  if (end == item.bulk->total) std::erase(open_, item.bulk);
}

void Outbox::Drop() {
  // Destroyed at the end: destructors of owners may call into the connection.
  const std::vector<Item> batch = std::exchange(batch_, {});
  const std::vector<Item> queue = std::exchange(queue_, {});
  const std::deque<std::shared_ptr<Bulk>> bulk = std::exchange(bulk_, {});
  const std::vector<Item> done = std::exchange(done_, {});
  const auto copied = std::exchange(copied_, {});
  std::vector<Bulk> open;  // Pending() needs the number only.
  open.reserve(open_.size());
  for (const auto& held : open_) {
    open.push_back(std::exchange(*held, Bulk{.number = held->number}));
  }
  gathered_.clear();
  buffers_done_ = 0;
  items_done_ = 0;
  bytes_ = 0;
  borrowed_bytes_ = 0;
}

}  // namespace simurgh::rpc
