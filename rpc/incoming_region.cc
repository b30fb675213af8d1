#include "rpc/incoming_region.h"

#include "absl/strings/str_cat.h"

namespace simurgh::rpc {
namespace {

Status Lie(const BorrowedSegment& loan, uint64_t length, const std::string& why) {
  return absl::DataLossError(absl::StrCat("malformed frame: loan of ", length, " bytes at ",
                                          loan.offset, " in slot ", loan.slot, ": ", why));
}

}  // namespace

StatusOr<std::shared_ptr<IncomingRegion>> IncomingRegion::Create() {
  SIMURGH_ASSIGN_OR_RETURN(SharedMemory board,
                           SharedMemory::Create("simurgh-rpc-board", kBoardBytes));
  return std::make_shared<IncomingRegion>(Private(), std::move(board));
}

Status IncomingRegion::Connect(const FileDescriptor& file) {
  SIMURGH_ASSIGN_OR_RETURN(region_, MapPeerMemory(file, kPageBytes, kMaxBytes));
  return absl::OkStatus();
}

StatusOr<ReceivedSegment> IncomingRegion::Borrow(const BorrowedSegment& loan, uint64_t length) {
  if (loan.offset > region_.size() || length > region_.size() - loan.offset) {
    return Lie(loan, length, absl::StrCat("the region has ", region_.size(), " bytes"));
  }
  if (loan.offset % kBorrowAlignment != 0) {
    return Lie(loan, length, absl::StrCat("the offset is no multiple of ", kBorrowAlignment));
  }
  if (loan.slot >= kMaxBorrowedSegments)
    return Lie(loan, length, absl::StrCat("slots end at ", kMaxBorrowedSegments));
  if (held_[loan.slot].exchange(true, std::memory_order_relaxed)) {
    return Lie(loan, length, "the slot is still lent");
  }
  struct Borrowed {
    Borrowed(std::shared_ptr<IncomingRegion> of, const BorrowedSegment& what)
        : region(std::move(of)), loan(what) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() { region->GiveBack(loan); }

    const std::shared_ptr<IncomingRegion> region;
    const BorrowedSegment loan;
  };
  return ReceivedSegment{.bytes = {region_.data() + loan.offset, length},
                         .owner = std::make_shared<const Borrowed>(shared_from_this(), loan)};
}

void IncomingRegion::GiveBack(const BorrowedSegment& loan) {
  // Before the board says so: from then on the peer may lend the slot anew.
  held_[loan.slot].store(false, std::memory_order_relaxed);
  auto* const words = reinterpret_cast<uint32_t*>(board_.mapping.data());
  // Our reads of the loan are done when the peer sees this.
  std::atomic_ref<uint32_t>(words[loan.slot]).store(loan.generation, std::memory_order_release);
}

}  // namespace simurgh::rpc
