#include "rpc/incoming_region.h"

#include "absl/strings/str_cat.h"

namespace simurgh::rpc {
namespace {

Status Malformed(const BorrowedSegment& segment, uint64_t length, const std::string& why) {
  return absl::DataLossError(absl::StrCat("malformed frame: borrowed segment of ", length,
                                          " bytes at ", segment.offset, " in slot ", segment.slot,
                                          ": ", why));
}

}  // namespace

StatusOr<std::shared_ptr<IncomingRegion>> IncomingRegion::Create() {
  SIMURGH_ASSIGN_OR_RETURN(SharedMemory board,
                           SharedMemory::Create("simurgh-rpc-board", kBoardBytes));
  return std::shared_ptr<IncomingRegion>(new IncomingRegion(std::move(board)));
}

Status IncomingRegion::Connect(const FileDescriptor& file) {
  SIMURGH_ASSIGN_OR_RETURN(region_, MapPeerMemory(file, kPageBytes, kMaxBytes));
  return absl::OkStatus();
}

StatusOr<ReceivedSegment> IncomingRegion::Borrow(const BorrowedSegment& segment, uint64_t length) {
  if (segment.offset > region_.size() || length > region_.size() - segment.offset) {
    return Malformed(segment, length, absl::StrCat("the region has ", region_.size(), " bytes"));
  }
  if (segment.offset % kBorrowAlignment != 0) {
    return Malformed(segment, length,
                     absl::StrCat("the offset is not a multiple of ", kBorrowAlignment));
  }
  if (segment.slot >= kMaxBorrowedSegments) {
    return Malformed(segment, length, absl::StrCat("there are ", kMaxBorrowedSegments, " slots"));
  }
  if (held_[segment.slot].exchange(true, std::memory_order_relaxed)) {
    return Malformed(segment, length, "the slot is in use");
  }
  const std::byte* const data = region_.data() + segment.offset;
  auto give_back = [self = shared_from_this(), segment](const std::byte* /*data*/) {
    // Before the store to the board, after which the peer may use the slot again.
    self->held_[segment.slot].store(false, std::memory_order_relaxed);
    auto* const words = reinterpret_cast<uint32_t*>(self->board_.mapping.data());
    // Release: all reads of the segment precede this store.
    std::atomic_ref<uint32_t>(words[segment.slot])
        .store(segment.generation, std::memory_order_release);
  };
  return ReceivedSegment{.bytes = {data, length}, .owner = {data, std::move(give_back)}};
}

}  // namespace simurgh::rpc
