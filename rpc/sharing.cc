#include "rpc/sharing.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/buffer.h"
#include "rpc/call.h"
#include "rpc/control.h"

namespace simurgh::rpc {

StatusOr<std::shared_ptr<Sharing>> Sharing::Offer(asio::any_io_executor executor,
                                                  uint64_t region_bytes) {
  SIMURGH_ASSIGN_OR_RETURN(auto outgoing, OutgoingRegion::Create(region_bytes));
  SIMURGH_ASSIGN_OR_RETURN(auto incoming, IncomingRegion::Create());
  return std::make_shared<Sharing>(std::move(executor), std::move(outgoing), std::move(incoming));
}

std::vector<FileDescriptor> Sharing::TakeFiles() {
  std::vector<FileDescriptor> files;
  files.push_back(outgoing_->TakeFile());
  files.push_back(incoming_->TakeBoard());
  return files;
}

Status Sharing::Agree(const std::vector<FileDescriptor>& files) {
  if (files.size() != 2) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory: received ", files.size(),
                     " of the peer's 2 files; raise the limit of open files"));
  }
  SIMURGH_RETURN_IF_ERROR(incoming_->Connect(files[0]));
  SIMURGH_ASSIGN_OR_RETURN(Mapping board, MapPeerMemory(files[1], kBoardBytes, kBoardBytes));
  outgoing_->Connect(std::move(board));
  return absl::OkStatus();
}

std::optional<Sharing::Lent> Sharing::Lend(std::span<const std::byte> bytes) {
  if (bytes.size() < kMinBorrowedBytes) return std::nullopt;
  std::optional<BorrowedSegment> segment = outgoing_->Lend(bytes);
  const bool copied = !segment;
  if (copied) {
    const std::optional<SegmentBuffer> copy = outgoing_->Allocate(bytes.size());
    if (copy) segment = outgoing_->Lend(copy->bytes);
    if (!segment) return std::nullopt;
    // The bytes may still change: the segment has not been sent.
    CopyPayload(copy->bytes, bytes);
  }
  TrimLater();
  return Lent{.segment = *segment, .copied = copied};
}

SegmentBuffer AllocateSegment(Sharing* sharing, size_t bytes) {
  if (sharing != nullptr && bytes >= Sharing::kMinBorrowedBytes) {
    std::optional<SegmentBuffer> buffer = sharing->Allocate(bytes);
    if (buffer) return *std::move(buffer);
  }
  return PooledBuffer(bytes);
}

void Sharing::TrimLater() {
  if (std::exchange(trim_pending_, true)) return;
  trim_timer_.expires_after(std::chrono::seconds(1));
  trim_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    self->trim_pending_ = false;
    if (self->outgoing_->Trim(uint64_t{2} << 20)) self->TrimLater();
  });
}

uint64_t SharingHandshake::Offer(const asio::any_io_executor& executor, uint64_t region_bytes) {
  if (files_ == nullptr || region_bytes == 0) return 0;
  StatusOr<std::shared_ptr<Sharing>> sharing = Sharing::Offer(executor, region_bytes);
  if (!sharing.ok()) return 0;
  sharing_ = *std::move(sharing);
  files_->Send(sharing_->TakeFiles());
  return kFeatureSharedMemory;
}

StatusOr<std::shared_ptr<Sharing>> SharingHandshake::Agree(uint64_t peer_features) {
  if (files_ == nullptr) return nullptr;
  const std::vector<FileDescriptor> received = files_->TakeAll();
  if (sharing_ == nullptr || (peer_features & kFeatureSharedMemory) == 0) return nullptr;
  const Status agreed = sharing_->Agree(received);
  if (agreed.ok()) return sharing_;
  files_->Send({});
  return WithCloseReason(agreed, CloseReason::kRefused);
}

}  // namespace simurgh::rpc
