#include "rpc/connection.h"

#include <utility>

#include "rpc/control.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {

Connection::Connection(std::unique_ptr<Stream> stream, std::string peer, FrameLimits limits,
                       ObserverLink observer)
    : stream_(std::move(stream)),
      peer_(std::move(peer)),
      limits_(limits),
      observer_(std::move(observer)),
      written_(stream_->executor()) {}

void Connection::Establish(std::string peer, uint16_t protocol) {
  peer_ = std::move(peer);
  if (protocol >= kProtocolWithChunks) outbox_.AllowChunks();
  established_ = true;
  observer_->OnConnect(peer_);
}

void Connection::Close(Status reason) {
  SIMURGH_CHECK(!reason.ok()) << "a connection closes for a reason";
  if (!reason_.ok()) return;
  reason_ = std::move(reason);
  stream_->Close();
  if (absl::IsDataLoss(reason_)) observer_->OnProtocolError(peer_, reason_);
  if (established_) observer_->OnDisconnect(peer_, reason_);
  outbox_.Drop();
  written_.NotifyAll();
}

void Connection::CloseAfterWrites(Status reason) {
  if (outbox_.empty()) return Close(std::move(reason));
  if (closing_.ok()) closing_ = std::move(reason);
}

}  // namespace simurgh::rpc
