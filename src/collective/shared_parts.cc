#include "collective/shared_parts.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// More than a bucket of gradients ever has.
constexpr size_t kHalf = size_t{1} << 34;

using Place = uint64_t;  // Bytes from the beginning of a region.

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

SharedParts::SharedParts(GlooMesh& mesh, bool shares)
    : mesh_(mesh),
      own_(shares ? SharedRegion::Create(2 * kHalf) : nullptr),
      theirs_(mesh.ranks()),
      is_reader_(mesh.ranks()) {}

Status SharedParts::Meet() {
  const SharedRegion::Key key = own_ == nullptr ? SharedRegion::Key() : own_->key();
  Parts keys(mesh_.ranks());
  keys.outgoing.assign(mesh_.ranks(), BytesOf(key));
  keys.expected.assign(mesh_.ranks(), sizeof(key));
  SIMURGH_RETURN_IF_ERROR(mesh_.Exchange(Channel::kLoading, keys));
  std::vector<std::byte> reads(mesh_.ranks());
  Parts readers(mesh_.ranks());
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    if (peer == mesh_.rank()) continue;
    SharedRegion::Key theirs;
    std::memcpy(&theirs, keys.incoming[peer].data(), sizeof(theirs));
    theirs_[peer] = SharedRegion::Open(theirs, 2 * kHalf);
    reads[peer] = std::byte{theirs_[peer] != nullptr};
    readers.outgoing[peer] = BytesOf(reads[peer]);
    readers.expected[peer] = 1;
  }
  SIMURGH_RETURN_IF_ERROR(mesh_.Exchange(Channel::kLoading, readers));
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    if (peer != mesh_.rank()) is_reader_[peer] = readers.incoming[peer][0];
  }
  return absl::OkStatus();
}

std::span<std::byte> SharedParts::Outgoing(Channel channel, size_t bytes) {
  if (own_ == nullptr || channel != Channel::kGradients) {
    std::vector<std::byte>& memory = unshared_[static_cast<size_t>(channel)];
    memory.resize(bytes);
    return memory;
  }
  if (bytes == 0) return {};
  SIMURGH_CHECK_LE(bytes, kHalf);
  const size_t half = std::exchange(next_half_, 1 - next_half_);
  return own_->bytes().subspan(half * kHalf, bytes);
}

Status SharedParts::Exchange(Channel channel, Parts& parts) {
  Parts sent = parts;
  std::vector<Place> places(mesh_.ranks());
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    const std::span<const std::byte> part = parts.outgoing[peer];
    if (!part.empty() && IsReadBy(peer, channel)) {
      places[peer] = static_cast<Place>(part.data() - own_->bytes().data());
      sent.outgoing[peer] = BytesOf(places[peer]);
    }
    if (parts.expected[peer] > 0 && Reads(peer, channel)) sent.expected[peer] = sizeof(Place);
  }
  SIMURGH_RETURN_IF_ERROR(mesh_.Exchange(channel, sent));
  for (uint32_t peer = 0; peer < mesh_.ranks(); ++peer) {
    parts.incoming[peer] = sent.incoming[peer];
    if (sent.incoming[peer].empty() || !Reads(peer, channel)) continue;
    SIMURGH_ASSIGN_OR_RETURN(parts.incoming[peer],
                             PartAt(peer, sent.incoming[peer], parts.expected[peer]));
  }
  return absl::OkStatus();
}

StatusOr<std::span<const std::byte>> SharedParts::PartAt(uint32_t peer,
                                                         std::span<const std::byte> place,
                                                         size_t bytes) const {
  Place first = 0;
  std::memcpy(&first, place.data(), sizeof(first));
  const std::span<const std::byte> memory = theirs_[peer]->bytes();
  if (first <= memory.size() && bytes <= memory.size() - first) return memory.subspan(first, bytes);
  Status status =
      absl::InternalError(absl::StrCat("ranks: rank ", peer,
                                       " has given a place outside of its memory; start the same "
                                       "program everywhere"));
  mesh_.Abort(status);
  return status;
}

}  // namespace simurgh
