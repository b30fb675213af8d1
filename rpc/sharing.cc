#include "rpc/sharing.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/copy.h"
#include "rpc/segment_pool.h"

namespace simurgh::rpc {
namespace {

constexpr std::chrono::seconds kTrimPause{1};

}  // namespace

StatusOr<std::shared_ptr<Sharing>> Sharing::Offer(asio::any_io_executor executor,
                                                  uint64_t region_bytes) {
  SIMURGH_ASSIGN_OR_RETURN(auto outgoing, OutgoingRegion::Create(region_bytes));
  SIMURGH_ASSIGN_OR_RETURN(auto incoming, IncomingRegion::Create());
  return std::make_shared<Sharing>(std::move(executor), std::move(outgoing), std::move(incoming));
}

Sharing::Sharing(asio::any_io_executor executor, std::unique_ptr<OutgoingRegion> outgoing,
                 std::shared_ptr<IncomingRegion> incoming)
    : outgoing_(std::move(outgoing)),
      incoming_(std::move(incoming)),
      trim_timer_(std::move(executor)) {}

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
  Lent lent;
  std::optional<BorrowedSegment> segment = outgoing_->Lend(bytes);
  if (!segment) {
    const std::optional<SegmentBuffer> copy = outgoing_->Allocate(bytes.size());
    if (!copy) return std::nullopt;
    segment = outgoing_->Lend(copy->bytes);
    if (!segment) return std::nullopt;
    // The bytes may still change: the segment has not been sent.
    CopyPayload(copy->bytes, bytes);
    lent.copied = true;
  }
  lent.segment = *segment;
  TrimLater();
  return lent;
}

void Sharing::Close() {
  outgoing_->Close();
  trim_timer_.cancel();
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
  trim_timer_.expires_after(kTrimPause);
  trim_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    self->trim_pending_ = false;
    if (self->outgoing_->Trim(kKeptBytes)) self->TrimLater();
  });
}

}  // namespace simurgh::rpc
