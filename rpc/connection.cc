#include "rpc/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/tls_stream.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {

Connection::Connection(std::shared_ptr<Stream> stream, std::string peer, FrameLimits limits,
                       ObserverLink observer)
    : stream_(std::move(stream)),
      peer_(std::move(peer)),
      limits_(limits),
      observer_(std::move(observer)),
      outbox_(stream_->batch_bytes()),
      written_(stream_->executor()) {}

Status Connection::StreamError(const char* what, const Stream::ErrorCode& error) {
  if (IsTlsRefusal(error)) {
    return WithCloseReason(absl::UnauthenticatedError(error.message()), CloseReason::kTls);
  }
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

bool Connection::IsStalled(bool in_chunks, uint64_t rounds, Clock::time_point now,
                           Clock::duration timeout) {
  const Flow frames = incoming();
  const Flow chunks{.expected = in_chunks && waiting_, .rounds = rounds, .bytes = frames.bytes};
  const bool in_frame = frames_.IsStalled(frames, now, timeout);
  return chunks_.IsStalled(chunks, now, timeout) || in_frame;
}

void Connection::Close(Status reason) {
  SIMURGH_CHECK(!reason.ok()) << "Close() needs an error";
  if (!reason_.ok()) return;
  reason_ = std::move(reason);
  stream_->Close();
  if (sharing_ != nullptr) sharing_->Close();
  if (const auto why = CloseReasonOf(reason_)) observer_->OnClose(peer_, *why, reason_);
  if (established_) observer_->OnDisconnect(peer_, reason_);
  outbox_.Drop();
  written_.NotifyAll();
}

void Connection::CloseAfterWrites(Status reason) {
  if (outbox_.empty()) return Close(std::move(reason));
  if (closing_.ok()) closing_ = std::move(reason);
}

}  // namespace simurgh::rpc
