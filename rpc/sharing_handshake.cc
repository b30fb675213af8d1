#include "rpc/sharing_handshake.h"

#include <utility>

#include "rpc/close_reason.h"
#include "rpc/control.h"

namespace simurgh::rpc {

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
