#include "table/cold_rows.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/hash.h"
#include "table/row_index.h"

namespace simurgh {
namespace {

using Checksum = uint32_t;

// Neighbours that are written anew together.
constexpr size_t kMaxWindow = 5;
// Blocks that a rewriting reads together.
constexpr uint32_t kReadTogether = 8;
// The most blocks that one call of Maintain() writes anew.
constexpr uint32_t kRewrittenTogether = 4;
// Blocks that may be written anew for each block that rows fill.
constexpr uint32_t kRewritesPerBlock = 4;
constexpr uint32_t kMostRewritesDue = 32;

constexpr uint64_t RoundDown(uint64_t bytes) {
  return bytes / ColdDisk::kAlignment * ColdDisk::kAlignment;
}
constexpr uint64_t RoundUp(uint64_t bytes) { return RoundDown(bytes + ColdDisk::kAlignment - 1); }

// Makes the buffer hold `bytes`, aligned for the disk. Its content is lost.
void Reserve(AlignedBuffer& buffer, uint64_t bytes) {
  if (buffer.size() >= bytes) return;
  bytes = RoundUp(bytes);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(ColdDisk::kAlignment, bytes));
  SIMURGH_CHECK(memory != nullptr);
  buffer = AlignedBuffer(memory, bytes, [](std::byte* data) { std::free(data); });
}

Checksum ChecksumOf(const std::byte* record, uint64_t bytes, uint64_t seed) {
  const std::string_view text(reinterpret_cast<const char*>(record), bytes);
  return static_cast<Checksum>(HashBytes(text, seed));
}

bool HasBit(const std::vector<uint64_t>& bits, uint32_t number) {
  return number / 64 < bits.size() && (bits[number / 64] >> (number % 64) & 1) != 0;
}

// Returns whether a bit of a range is set.
bool HasAny(const std::vector<uint64_t>& bits, uint32_t begin, uint32_t end) {
  for (; begin < end && begin % 64 != 0; ++begin) {
    if (HasBit(bits, begin)) return true;
  }
  for (; begin + 64 <= end && begin / 64 < bits.size(); begin += 64) {
    if (bits[begin / 64] != 0) return true;
  }
  for (; begin < end; ++begin) {
    if (HasBit(bits, begin)) return true;
  }
  return false;
}

void SetBit(std::vector<uint64_t>& bits, uint32_t number) {
  bits[number / 64] |= uint64_t{1} << (number % 64);
}

void ClearBit(std::vector<uint64_t>& bits, uint32_t number) {
  if (number / 64 < bits.size()) bits[number / 64] &= ~(uint64_t{1} << (number % 64));
}

RowHeader HeaderOf(const std::byte* record) {
  RowHeader header;
  std::memcpy(&header, record, sizeof(header));
  return header;
}

}  // namespace

ColdRows::ColdRows(ColdDisk& disk, const RowLayout& layout)
    : disk_(disk),
      stride_bytes_(layout.stride_bytes),
      record_bytes_(stride_bytes_ + sizeof(Checksum)),
      block_bytes_(disk.segment_bytes() / kBlocks),
      per_block_(static_cast<uint32_t>(block_bytes_ / record_bytes_)),
      per_segment_(per_block_ * static_cast<uint32_t>(kBlocks)) {
  SIMURGH_CHECK(per_block_ > 0) << stride_bytes_;
}

uint64_t ColdRows::bytes_used() const {
  const uint64_t of_segment = sizeof(Segment) + (per_segment_ / 64 + 1) * sizeof(uint64_t);
  uint64_t rewritten = 0;
  if (rewrite_ != nullptr) {
    rewritten = rewrite_->writer.block.size();
    if (rewrite_->read != nullptr) rewritten += rewrite_->read->blocks.size();
  }
  return index_.bytes_used() + segments_.size() * of_segment + writer_.block.size() +
         oldest_.records.size() + rewritten;
}

bool ColdRows::IsUnwritten(uint32_t segment, uint32_t record) const {
  if (segment != writer_.segment) return false;
  const uint32_t filled = segments_[segment].filled;
  return filled % per_block_ != 0 && record / per_block_ == filled / per_block_;
}

StatusOr<uint32_t> ColdRows::NewSegment() {
  const bool adds = unused_.empty();
  if (adds && (segments_.size() + 1) * per_segment_ > UINT32_MAX - 1) {
    return absl::ResourceExhaustedError("a table has at most 2^32 cold rows in a partition");
  }
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t offset, disk_.Allocate());
  const auto number = adds ? static_cast<uint32_t>(segments_.size()) : unused_.back();
  adds ? void(segments_.emplace_back()) : unused_.pop_back();
  segments_[number] = {.offset = offset,
                       .generation = segments_[number].generation + 1,
                       .bits = std::vector<uint64_t>(per_segment_ / 64 + 1)};
  return number;
}

void ColdRows::FreeSegment(uint32_t segment) {
  if (oldest_.segment == segment) oldest_.segment = UINT32_MAX;
  disk_.Free(segments_[segment].offset);
  unused_.push_back(segment);
}

ChangeLog::Noted ColdRows::NotedOf(const Segment& segment, uint32_t record) const {
  return {.copied = HasBit(segment.copied, record), .recent = HasBit(segment.recent, record)};
}

Status ColdRows::Append(Writer& writer, const std::byte* record) {
  Segment& segment = segments_[writer.segment];
  const uint32_t number = segment.filled;
  if (writer.block.size() == 0) {
    Reserve(writer.block, block_bytes_);
    std::memset(writer.block.data(), 0, writer.block.size());
  }
  std::byte* const to = writer.block.data() + number % per_block_ * record_bytes_;
  std::memcpy(to, record, stride_bytes_);
  const Checksum checksum = ChecksumOf(to, stride_bytes_, SeedOf(PlaceOf(writer.segment, number)));
  std::memcpy(to + stride_bytes_, &checksum, sizeof(checksum));
  ++segment.filled;
  if (segment.filled % per_block_ == 0) {
    if (Status written = WriteBlock(writer); !written.ok()) {
      --segment.filled;
      return written;
    }
  }
  segment.oldest = std::min(segment.oldest, HeaderOf(record).recency);
  return absl::OkStatus();
}

void ColdRows::SetLive(Segment& segment, uint32_t record, const ChangeLog::Noted& noted) {
  SetBit(segment.bits, record);
  for (auto& [bits, is_set] :
       {std::pair(&segment.copied, noted.copied), std::pair(&segment.recent, noted.recent)}) {
    if (!is_set) continue;
    bits->resize(segment.bits.size());
    SetBit(*bits, record);
  }
  ++segment.live;
}

ChangeLog::Noted ColdRows::SetDead(uint32_t number, uint32_t record) {
  Segment& segment = segments_[number];
  const ChangeLog::Noted noted = NotedOf(segment, record);
  for (auto* const bits : {&segment.bits, &segment.copied, &segment.recent}) {
    ClearBit(*bits, record);
  }
  --segment.live;
  has_empty_ = has_empty_ || segment.live == 0;
  if (!ahead_.empty()) ForgetAt(PlaceOf(number, record));
  return noted;
}

Status ColdRows::WriteBlock(Writer& writer) {
  const Segment& segment = segments_[writer.segment];
  const uint64_t offset = segment.offset + (segment.filled - 1) / per_block_ * block_bytes_;
  SIMURGH_RETURN_IF_ERROR(disk_.Write(offset, writer.block.bytes().first(block_bytes_)));
  counts_.written_bytes += block_bytes_;
  return absl::OkStatus();
}

Status ColdRows::Add(const std::byte* record, const ChangeLog::Noted& noted, bool is_more) {
  if (is_more) SIMURGH_RETURN_IF_ERROR(disk_.KeepReserve());
  if (!writer_.is_open() || segments_[writer_.segment].filled == per_segment_) {
    SIMURGH_ASSIGN_OR_RETURN(writer_.segment, NewSegment());
    order_.push_back(writer_.segment);
  }
  const uint32_t number = segments_[writer_.segment].filled;
  SIMURGH_RETURN_IF_ERROR(Append(writer_, record));
  if ((number + 1) % per_block_ == 0) {
    rewrites_due_ = std::min(rewrites_due_ + kRewritesPerBlock, kMostRewritesDue);
  }
  SetLive(segments_[writer_.segment], number, noted);
  index_.Insert(RowIndex::Hash(HeaderOf(record).id), PlaceOf(writer_.segment, number));
  ++counts_.added;
  disk_.AddLive(static_cast<int64_t>(record_bytes_));
  return absl::OkStatus();
}

Status ColdRows::Check(std::byte* record, const Segment& segment, uint32_t place) const {
  Checksum stored;
  std::memcpy(&stored, record + stride_bytes_, sizeof(stored));
  if (stored != ChecksumOf(record, stride_bytes_, SeedOf(place))) {
    return absl::DataLossError(
        "a cold row on disk has a wrong checksum: the disk has lost or changed data");
  }
  auto& header = *reinterpret_cast<RowHeader*>(record);
  header.recency -= std::min(header.recency, segment.shift);
  return absl::OkStatus();
}

Status ColdRows::ReadFound() {
  parts_.clear();
  sources_.clear();
  const auto range_of = [&](const Row& row) {
    const uint64_t begin = OffsetOf(segments_[row.place / per_segment_], row.place % per_segment_);
    return std::pair(RoundDown(begin), RoundUp(begin + record_bytes_));
  };
  uint64_t page_bytes = 0;
  uint64_t record_bytes = 0;
  for (const Row& row : found_) {
    const uint32_t record = row.place % per_segment_;
    sources_.push_back(IsUnwritten(row.place / per_segment_, record)
                           ? writer_.block.data() + record % per_block_ * record_bytes_
                           : FindAhead(row.place));
    const auto [begin, end] = range_of(row);
    sources_.back() == nullptr ? page_bytes += end - begin : record_bytes += record_bytes_;
  }
  Reserve(disk_.scratch().fetched, page_bytes + record_bytes);
  std::byte* page = disk_.scratch().fetched.data();
  std::byte* copy = page + page_bytes;
  for (size_t i = 0; i < found_.size(); ++i) {
    Row& row = found_[i];
    if (sources_[i] != nullptr) {
      row.record = copy;
      std::memcpy(copy, sources_[i], record_bytes_);
      copy += record_bytes_;
      continue;
    }
    const auto [begin, end] = range_of(row);
    const uint64_t offset = OffsetOf(segments_[row.place / per_segment_], row.place % per_segment_);
    row.record = page + (offset - begin);
    parts_.push_back({begin, {page, end - begin}});
    page += end - begin;
  }
  counts_.read_bytes += page_bytes;
  counts_.late += parts_.size();
  SIMURGH_RETURN_IF_ERROR(disk_.Read(parts_));
  for (const Row& row : found_) {
    SIMURGH_RETURN_IF_ERROR(Check(row.record, segments_[row.place / per_segment_], row.place));
  }
  return absl::OkStatus();
}

ColdRows::Ahead ColdRows::ReadAhead(std::span<const uint64_t> ids, ColdDisk::Urgency urgency) {
  constexpr size_t kAhead = 16;
  Ahead ahead;
  if (size() == 0) return ahead;
  ahead.rows_ = self_;
  const auto read = std::make_shared<Ahead::Read>();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) index_.Prefetch(RowIndex::Hash(ids[i + kAhead]));
    index_.ForEach(RowIndex::Hash(ids[i]), [&](uint32_t place) {
      const uint32_t segment = place / per_segment_;
      const uint32_t record = place % per_segment_;
      if (IsUnwritten(segment, record)) return;
      if (const auto known = ahead_.find(place); known != ahead_.end()) {
        const auto& other = known->second.read;
        if (other != read && std::ranges::find(ahead.others_, other) == ahead.others_.end()) {
          ahead.others_.push_back(other);
        }
        return;
      }
      const auto number = static_cast<uint32_t>(read->places.size());
      // More is read when it is needed.
      if (disk_.ahead_bytes() + number * record_bytes_ >= ColdDisk::kMostAhead) return;
      ahead_.try_emplace(place, AheadRecord{read, number});
      read->places.push_back(place);
      read->offsets.push_back(OffsetOf(segments_[segment], record));
    });
  }
  if (urgency == ColdDisk::Urgency::kUrgent) {
    for (const auto& other : ahead.others_) disk_.Hurry(other.get());
  }
  if (read->places.empty()) return ahead;
  disk_.ahead_bytes() += read->places.size() * record_bytes_;
  read->unused = read->places.size();
  ahead.read_ = read;
  read->records.resize(read->places.size() * record_bytes_);
  const auto task = [read, &disk = disk_, bytes = record_bytes_, begin = size_t{0}]() mutable {
    if (read.use_count() == 1) return true;             // It has been forgotten.
    constexpr uint64_t kMostPages = uint64_t{8} << 20;  // Bytes.
    const size_t together = kMostPages / (RoundUp(bytes) + ColdDisk::kAlignment);
    thread_local AlignedBuffer pages;
    std::vector<ColdDisk::Part> parts;
    const auto offsets =
        std::span(read->offsets).subspan(begin, std::min(together, read->places.size() - begin));
    const auto length = [&](uint64_t offset) {
      return RoundUp(offset + bytes) - RoundDown(offset);
    };
    uint64_t all = 0;
    for (const uint64_t offset : offsets) all += length(offset);
    Reserve(pages, all);
    std::byte* to = pages.data();
    for (const uint64_t offset : offsets) {
      parts.push_back({RoundDown(offset), {to, length(offset)}});
      to += length(offset);
    }
    read->status = disk.Read(parts, ColdDisk::Reader::kAhead);
    for (size_t i = 0; i < offsets.size(); ++i) {
      std::memcpy(read->records.data() + (begin + i) * bytes,
                  parts[i].to.data() + (offsets[i] - parts[i].offset), bytes);
    }
    begin += offsets.size();
    read->done = begin == read->places.size() || !read->status.ok();
    return read->done.load();
  };
  disk_.Post(task, urgency, read.get());
  return ahead;
}

void ColdRows::Forget(const Ahead::Read& read) {
  disk_.ahead_bytes() -= read.places.size() * record_bytes_;
  if (read.done) {
    for (const uint64_t offset : read.offsets) {
      counts_.read_bytes += RoundUp(offset + record_bytes_) - RoundDown(offset);
    }
  }
  for (const uint32_t place : read.places) {
    const auto found = ahead_.find(place);
    if (found != ahead_.end() && found->second.read.get() == &read) ForgetAt(place);
  }
}

void ColdRows::ForgetAt(uint32_t place) {
  const auto found = ahead_.find(place);
  if (found == ahead_.end()) return;
  if (!found->second.is_used) --found->second.read->unused;
  ahead_.erase(found);
}

const std::byte* ColdRows::FindAhead(uint32_t place) {
  const auto found = ahead_.find(place);
  if (found == ahead_.end()) return nullptr;
  AheadRecord& record = found->second;
  if (!record.read->done || !record.read->status.ok()) return nullptr;
  if (!std::exchange(record.is_used, true)) --record.read->unused;
  return record.read->records.data() + record.number * record_bytes_;
}

StatusOr<std::span<const ColdRows::Row>> ColdRows::Fetch(std::span<const uint64_t> ids) {
  constexpr size_t kAhead = 16;
  found_.clear();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) index_.Prefetch(RowIndex::Hash(ids[i + kAhead]));
    index_.ForEach(RowIndex::Hash(ids[i]), [&](uint32_t place) {
      found_.push_back({i, place, segments_[place / per_segment_].generation, nullptr});
    });
  }
  SIMURGH_RETURN_IF_ERROR(ReadFound());
  std::erase_if(found_, [&](const Row& row) { return row.header().id != ids[row.at]; });
  return std::span<const Row>(found_);
}

bool ColdRows::MayHave(uint64_t id) const {
  bool may = false;
  index_.ForEach(RowIndex::Hash(id), [&](uint32_t) { may = true; });
  return may;
}

bool ColdRows::Has(const Row& row) const {
  const Segment& segment = segments_[row.place / per_segment_];
  return segment.generation == row.generation && segment.is_live(row.place % per_segment_);
}

ChangeLog::Noted ColdRows::Remove(const Row& row) {
  Segment& segment = segments_[row.place / per_segment_];
  const uint32_t record = row.place % per_segment_;
  SIMURGH_CHECK(segment.is_live(record));
  const ChangeLog::Noted noted = SetDead(row.place / per_segment_, record);
  index_.Erase(RowIndex::Hash(row.header().id), row.place);
  ++counts_.removed;
  disk_.AddLive(-static_cast<int64_t>(record_bytes_));
  return noted;
}

StatusOr<ColdRows::Row> ColdRows::Oldest() {
  for (const uint32_t number : order_) {
    const Segment& segment = segments_[number];
    if (segment.live == 0) continue;
    size_t word = 0;
    while (segment.bits[word] == 0) ++word;
    const auto record = static_cast<uint32_t>(word * 64 + std::countr_zero(segment.bits[word]));
    const uint32_t block = record / per_block_;
    if (oldest_.segment != number || oldest_.block != block || record >= oldest_.filled) {
      SIMURGH_RETURN_IF_ERROR(ReadBlock(number, block, segment.filled, segment.bits));
      std::swap(oldest_.records, disk_.scratch().block);
      oldest_.segment = number;
      oldest_.block = block;
      oldest_.filled = segment.filled;
    }
    return Row{0, PlaceOf(number, record), segment.generation,
               oldest_.records.data() + record % per_block_ * record_bytes_};
  }
  return absl::InternalError("there is no cold row");
}

Status ColdRows::ReadBlock(uint32_t segment, uint32_t block, uint32_t filled,
                           const std::vector<uint64_t>& bits) {
  Reserve(disk_.scratch().block, block_bytes_);
  const uint32_t first = block * per_block_;
  if (IsUnwritten(segment, first)) {
    std::memcpy(disk_.scratch().block.data(), writer_.block.data(), block_bytes_);
  } else {
    const ColdDisk::Part part = {segments_[segment].offset + block * block_bytes_,
                                 disk_.scratch().block.bytes().first(block_bytes_)};
    SIMURGH_RETURN_IF_ERROR(disk_.Read({&part, 1}));
    counts_.read_bytes += block_bytes_;
  }
  return CheckBlock(disk_.scratch().block.data(), segment, block, filled, bits);
}

Status ColdRows::CheckBlock(std::byte* records, uint32_t segment, uint32_t block, uint32_t filled,
                            const std::vector<uint64_t>& bits) const {
  const uint32_t first = block * per_block_;
  for (uint32_t i = first; i < std::min(filled, first + per_block_); ++i) {
    if (!HasBit(bits, i)) continue;
    SIMURGH_RETURN_IF_ERROR(
        Check(records + (i - first) * record_bytes_, segments_[segment], PlaceOf(segment, i)));
  }
  return absl::OkStatus();
}

void ColdRows::VisitBlock(uint32_t segment, uint32_t block, uint32_t filled,
                          const std::vector<uint64_t>& bits,
                          absl::FunctionRef<void(const Row&)> visit) {
  const uint32_t first = block * per_block_;
  for (uint32_t i = first; i < std::min(filled, first + per_block_); ++i) {
    if (!HasBit(bits, i)) continue;
    visit({0, PlaceOf(segment, i), segments_[segment].generation,
           disk_.scratch().block.data() + (i - first) * record_bytes_});
  }
}

Status ColdRows::Scan(size_t count, uint32_t recency, absl::FunctionRef<void(const Row&)> visit) {
  // A segment that has nothing to find costs little.
  for (size_t looked = 0; looked < order_.size(); ++looked) {
    if (scan_segment_ >= order_.size()) scan_segment_ = 0;
    const uint32_t number = order_[scan_segment_];
    const Segment& segment = segments_[number];
    const uint32_t oldest = segment.oldest - std::min(segment.oldest, segment.shift);
    while (count > 0 && segment.live > 0 && oldest < recency &&
           scan_block_ * per_block_ < segment.filled) {
      SIMURGH_RETURN_IF_ERROR(ReadBlock(number, scan_block_, segment.filled, segment.bits));
      VisitBlock(number, scan_block_, segment.filled, segment.bits, visit);
      ++scan_block_;
      count -= std::min<size_t>(count, per_block_);
    }
    if (count == 0) return absl::OkStatus();
    ++scan_segment_;
    scan_block_ = 0;
  }
  return absl::OkStatus();
}

Status ColdRows::ForEach(absl::FunctionRef<void(const Row&)> visit) {
  for (const uint32_t number : order_) {
    const Segment& segment = segments_[number];
    for (uint32_t block = 0; segment.live > 0 && block * per_block_ < segment.filled; ++block) {
      SIMURGH_RETURN_IF_ERROR(ReadBlock(number, block, segment.filled, segment.bits));
      VisitBlock(number, block, segment.filled, segment.bits, visit);
    }
  }
  return absl::OkStatus();
}

void ColdRows::FreeEmpty() {
  if (!std::exchange(has_empty_, false)) return;
  std::erase_if(order_, [this](uint32_t number) {
    const Segment& segment = segments_[number];
    const bool is_written =
        number == writer_.segment || (rewrite_ != nullptr && number == rewrite_->writer.segment);
    if (segment.live > 0 || is_written) return false;
    segment.pins > 0 ? dropped_.push_back(number) : FreeSegment(number);
    return true;
  });
}

bool ColdRows::HasGaps(uint64_t percent) const {
  const size_t sealed = order_.size() - (writer_.is_open() ? 1 : 0);
  const uint64_t open_rows = writer_.is_open() ? segments_[writer_.segment].live : 0;
  return sealed >= 2 &&
         (index_.size() - open_rows + per_segment_) * 100 <= sealed * per_segment_ * percent;
}

bool ColdRows::BeginRewrite() {
  if (!HasGaps(80)) return false;
  const size_t sealed = order_.size() - (writer_.is_open() ? 1 : 0);
  // Takes the neighbours that give a segment back for the fewest rows to write.
  size_t best = 0;
  size_t best_count = 0;
  double best_cost = 0;
  for (size_t first = 0; first + 1 < sealed; ++first) {
    uint64_t rows = segments_[order_[first]].live;
    for (size_t count = 2; count <= std::min(kMaxWindow, sealed - first); ++count) {
      rows += segments_[order_[first + count - 1]].live;
      const uint64_t needed = (rows + per_segment_ - 1) / per_segment_;
      if (needed >= count) continue;
      const double cost = static_cast<double>(rows) / static_cast<double>(count - needed);
      if (best_count > 0 && cost >= best_cost) continue;
      best = first;
      best_count = count;
      best_cost = cost;
    }
  }
  if (best_count == 0) return false;
  const StatusOr<uint32_t> made = NewSegment();
  if (!made.ok()) return false;  // The disk is full.
  rewrite_ = std::make_unique<Rewrite>();
  rewrite_->writer.segment = *made;
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(best);
  rewrite_->old.assign(begin, begin + static_cast<std::ptrdiff_t>(best_count));
  for (const uint32_t number : rewrite_->old) ++segments_[number].pins;
  return true;
}

bool ColdRows::FindRewritten() {
  Rewrite& rewrite = *rewrite_;
  for (; rewrite.at < rewrite.old.size(); ++rewrite.at, rewrite.block = 0) {
    const Segment& segment = segments_[rewrite.old[rewrite.at]];
    for (; segment.live > 0 && rewrite.block * per_block_ < segment.filled; ++rewrite.block) {
      const uint32_t first = rewrite.block * per_block_;
      if (HasAny(segment.bits, first, first + per_block_)) return true;
    }
  }
  return false;
}

void ColdRows::ReadRewritten(bool now) {
  Rewrite& rewrite = *rewrite_;
  const Segment& segment = segments_[rewrite.old[rewrite.at]];
  const uint32_t blocks = (segment.filled + per_block_ - 1) / per_block_;
  const auto read = std::make_shared<Rewrite::Read>();
  read->segment = rewrite.old[rewrite.at];
  read->first = rewrite.block;
  read->end = std::min(rewrite.block + kReadTogether, blocks);
  const uint64_t bytes = (read->end - read->first) * block_bytes_;
  Reserve(read->blocks, bytes);
  rewrite.read = read;
  counts_.read_bytes += bytes;
  const ColdDisk::Part part = {segment.offset + read->first * block_bytes_,
                               read->blocks.bytes().first(bytes)};
  const auto run = [read, part, &disk = disk_](ColdDisk::Reader reader) {
    read->status = disk.Read({&part, 1}, reader);
    read->done = true;
  };
  if (now) return run(ColdDisk::Reader::kOwner);
  disk_.Post(
      [run] {
        run(ColdDisk::Reader::kAhead);
        return true;
      },
      ColdDisk::Urgency::kUrgent, nullptr);
}

Status ColdRows::RewriteBlock() {
  Rewrite& rewrite = *rewrite_;
  const uint32_t number = rewrite.old[rewrite.at];
  const uint32_t block = rewrite.block;
  SIMURGH_RETURN_IF_ERROR(rewrite.read->status);
  std::byte* const records =
      rewrite.read->blocks.data() + (block - rewrite.read->first) * block_bytes_;
  const uint32_t first = block * per_block_;
  const uint32_t filled = segments_[number].filled;
  SIMURGH_RETURN_IF_ERROR(CheckBlock(records, number, block, filled, segments_[number].bits));
  for (uint32_t i = first; i < std::min(filled, first + per_block_); ++i) {
    if (!segments_[number].is_live(i)) continue;
    Writer& writer = rewrite.writer;
    if (!writer.is_open() || segments_[writer.segment].filled == per_segment_) {
      if (writer.is_open() && !rewrite.is_in_order) FreeSegment(writer.segment);  // All have died.
      writer.segment = UINT32_MAX;
      const StatusOr<uint32_t> made = NewSegment();
      if (!made.ok()) {  // The disk is full.
        EndRewrite();
        return absl::OkStatus();
      }
      writer.segment = *made;
      rewrite.is_in_order = false;
    }
    const std::byte* const record = records + (i - first) * record_bytes_;
    const uint32_t to = segments_[writer.segment].filled;
    rewrite.moves.push_back({RowIndex::Hash(HeaderOf(record).id), PlaceOf(number, i), to});
    const uint64_t written_before = counts_.written_bytes;
    if (!Append(writer, record).ok()) {
      EndRewrite();
      return absl::OkStatus();
    }
    counts_.compacted_bytes += counts_.written_bytes - written_before;
    if (segments_[writer.segment].filled % per_block_ == 0) ApplyMoves();
  }
  if (++rewrite.block == rewrite.read->end) rewrite.read = nullptr;
  return absl::OkStatus();
}

void ColdRows::ApplyMoves() {
  Rewrite& rewrite = *rewrite_;
  Segment& made = segments_[rewrite.writer.segment];
  for (const Rewrite::Move& move : rewrite.moves) {
    const uint32_t number = move.from / per_segment_;
    Segment& old = segments_[number];
    if (!old.is_live(move.from % per_segment_)) continue;
    if (!rewrite.is_in_order) {
      // Its rows are older than those that have not moved.
      const auto left = std::span(rewrite.old).subspan(rewrite.pinned);
      const auto is_old = [&](uint32_t other) {
        return std::ranges::find(left, other) != left.end();
      };
      order_.insert(std::ranges::find_if(order_, is_old), rewrite.writer.segment);
      rewrite.is_in_order = true;
    }
    SetLive(made, move.to, SetDead(number, move.from % per_segment_));
    index_.Replace(move.hash, move.from, PlaceOf(rewrite.writer.segment, move.to));
  }
  rewrite.moves.clear();
  for (; rewrite.pinned < rewrite.at; ++rewrite.pinned) {
    --segments_[rewrite.old[rewrite.pinned]].pins;
  }
  FreeDropped();
}

void ColdRows::EndRewrite() {
  if (rewrite_ == nullptr) return;
  Writer& writer = rewrite_->writer;
  if (writer.is_open()) {
    Segment& made = segments_[writer.segment];
    if (!rewrite_->moves.empty()) made.filled -= made.filled % per_block_;  // Not on disk.
    rewrite_->is_in_order ? void(has_empty_ = true) : FreeSegment(writer.segment);
  }
  for (size_t i = rewrite_->pinned; i < rewrite_->old.size(); ++i) {
    --segments_[rewrite_->old[i]].pins;
  }
  rewrite_.reset();
  FreeDropped();
}

Status ColdRows::RewriteBlocks(uint32_t& count, bool now) {
  while (rewrite_ != nullptr) {
    Rewrite& rewrite = *rewrite_;
    if (!FindRewritten()) {
      if (!rewrite.moves.empty() && WriteBlock(rewrite.writer).ok()) {
        counts_.compacted_bytes += block_bytes_;
        ApplyMoves();
      }
      EndRewrite();
      break;
    }
    const auto is_read = [&] {
      return rewrite.read != nullptr && rewrite.read->segment == rewrite.old[rewrite.at] &&
             rewrite.read->first <= rewrite.block && rewrite.block < rewrite.read->end;
    };
    if (!is_read() || (now && !rewrite.read->done)) ReadRewritten(now);
    if (count == 0 || !rewrite.read->done) break;
    --count;
    if (Status moved = RewriteBlock(); !moved.ok()) {
      EndRewrite();
      return moved;
    }
  }
  return absl::OkStatus();
}

Status ColdRows::Maintain() {
  FreeEmpty();
  if (rewrite_ == nullptr && !BeginRewrite()) return absl::OkStatus();
  const bool is_late = HasGaps(65);
  const uint32_t count =
      is_late ? kRewrittenTogether : std::clamp(rewrites_due_, 1U, kRewrittenTogether);
  uint32_t left = count;
  const Status status = RewriteBlocks(left, is_late);
  rewrites_due_ -= std::min(rewrites_due_, count - left);
  return status;
}

Status ColdRows::Reclaim() {
  FreeEmpty();
  if (rewrite_ != nullptr || BeginRewrite()) {
    uint32_t left = UINT32_MAX;
    SIMURGH_RETURN_IF_ERROR(RewriteBlocks(left, true));
  }
  FreeEmpty();
  return absl::OkStatus();
}

Status ColdRows::Rebase(uint32_t shift) {
  // Records that come later are in another segment.
  if (writer_.is_open()) {
    if (segments_[writer_.segment].filled % per_block_ != 0) {
      SIMURGH_RETURN_IF_ERROR(WriteBlock(writer_));
    }
    writer_.segment = UINT32_MAX;
  }
  EndRewrite();
  oldest_.segment = UINT32_MAX;
  for (Segment& segment : segments_) {
    segment.shift += std::min(shift, UINT32_MAX - segment.shift);
  }
  return absl::OkStatus();
}

void ColdRows::BeginCopy(CopyBase base) {
  EndCopy();
  for (const uint32_t number : order_) {
    Segment& segment = segments_[number];
    std::vector<uint64_t> recent = std::exchange(segment.recent, {});
    if (base == CopyBase::kBeforeLast) {
      recent.resize(std::max(recent.size(), segment.copied.size()));
      for (size_t i = 0; i < segment.copied.size(); ++i) recent[i] |= segment.copied[i];
    }
    const bool is_noted = base == CopyBase::kLast || base == CopyBase::kBeforeLast;
    segment.copied = is_noted ? std::move(recent) : std::vector<uint64_t>();
    if (segment.live == 0) continue;
    ++segment.pins;
    copy_.push_back({.segment = number, .filled = segment.filled, .bits = segment.bits});
  }
}

uint64_t ColdRows::CountChanges() const {
  uint64_t count = 0;
  for (const CopiedSegment& copied : copy_) {
    for (const uint64_t word : segments_[copied.segment].copied) count += std::popcount(word);
  }
  return count;
}

void ColdRows::CopyChanges() {
  for (CopiedSegment& copied : copy_) {
    const std::vector<uint64_t>& changed = segments_[copied.segment].copied;
    copied.bits = changed.empty() ? std::vector<uint64_t>(copied.bits.size()) : changed;
  }
}

void ColdRows::EndCopy() {
  for (const CopiedSegment& copied : copy_) --segments_[copied.segment].pins;
  copy_.clear();
  FreeDropped();
}

void ColdRows::FreeDropped() {
  std::erase_if(dropped_, [this](uint32_t number) {
    if (segments_[number].pins > 0) return false;
    FreeSegment(number);
    return true;
  });
}

StatusOr<uint64_t> ColdRows::TakeCopied(size_t count, std::vector<std::byte>& records) {
  uint64_t taken = 0;
  while (taken < count && !copy_.empty()) {
    CopiedSegment& copied = copy_.front();
    const uint32_t first = copied.block * per_block_;
    if (first < copied.filled && !HasAny(copied.bits, first, first + per_block_)) {
      ++copied.block;
      continue;
    }
    if (first < copied.filled) {
      SIMURGH_RETURN_IF_ERROR(ReadBlock(copied.segment, copied.block, copied.filled, copied.bits));
      VisitBlock(copied.segment, copied.block, copied.filled, copied.bits, [&](const Row& row) {
        records.insert(records.end(), row.record, row.record + stride_bytes_);
        ++taken;
      });
      ++copied.block;
      continue;
    }
    const uint32_t number = copied.segment;
    copy_.pop_front();
    if (--segments_[number].pins > 0) continue;
    if (std::erase(dropped_, number) > 0) FreeSegment(number);
  }
  return taken;
}

}  // namespace simurgh
