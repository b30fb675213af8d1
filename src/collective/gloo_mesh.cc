#include "collective/gloo_mesh.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "absl/strings/str_cat.h"

#include "collective/host_address.h"
#include "simurgh/base/check.h"
#include "simurgh/base/thread.h"

namespace simurgh {
namespace {

// Watch() enforces deadlines, not Gloo.
constexpr std::chrono::hours kForever{24 * 365};
constexpr std::chrono::seconds kFarewellTimeout{1};
constexpr uint64_t kFarewellSlot = 0;  // The channels use the next ones.

// Turns Gloo's exceptions into a Status.
template <typename Function>
Status Guard(const Function& function) {
  try {
    function();
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

// At least a millisecond.
std::chrono::milliseconds LeftUntil(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                  std::chrono::milliseconds(1));
}

}  // namespace

// A rank's last message: why it stops.
struct GlooMesh::Farewell {
  static constexpr size_t kMaxText = 1'000;

  struct Text {
    int32_t code = 0;
    uint32_t length = 0;
    char characters[kMaxText] = {};
  };

  Text text;
  std::unique_ptr<Buffer> buffer;
  Mutex mutex;
  bool received ABSL_GUARDED_BY(mutex) = false;
};

GlooMesh::GlooMesh(const GlooOptions& options) : options_(options) {
  for (uint32_t i = 1; i < ranks(); ++i) peers_.push_back((rank() + i) % ranks());
}

StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Connect(const GlooOptions& options,
                                                      const ExchangeAddresses& exchange) {
  SIMURGH_CHECK(options.ranks > 1 && options.rank < options.ranks);
  std::unique_ptr<GlooMesh> mesh(new GlooMesh(options));
  SIMURGH_RETURN_IF_ERROR(mesh->Open(exchange));
  const Status expecting = Guard([&] { mesh->OpenLines(); });
  if (!expecting.ok()) return Annotate(expecting, "ranks: connection lost during setup");
  mesh->watch_ = std::thread([mesh = mesh.get()] { mesh->Watch(); });
  const std::byte ready{1};
  Parts parts(options.ranks, std::span(&ready, 1), 1);
  SIMURGH_RETURN_IF_ERROR(mesh->Exchange(Channel::kStep, parts));
  return mesh;
}

GlooMesh::~GlooMesh() {
  if (!watch_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  watch_.join();
}

StatusOr<std::shared_ptr<gloo::transport::Device>> GlooMesh::Listen() const {
  const auto cannot = [this](const Status& status) {
    return absl::InvalidArgumentError(absl::StrCat("ranks: cannot listen at '", options_.host,
                                                   "': ", std::string(status.message()),
                                                   "; use an address of this rank's machine"));
  };
  const StatusOr<HostAddress> address = Resolve(options_.host);
  if (!address.ok()) return cannot(address.status());
  if (!options_.is_trusted && !address->is_loopback) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: '", options_.host,
                     "' is not a loopback address, and ranks neither encrypt nor authenticate "
                     "connections; use a loopback address, or set rpc.security: insecure in a "
                     "trusted network"));
  }
  std::shared_ptr<gloo::transport::Device> device;
  const Status listening = Guard([&] {
    device = gloo::transport::tcp::CreateDevice(
        gloo::transport::tcp::CreateDeviceAttr(address->number.c_str()));
  });
  if (!listening.ok()) return cannot(listening);
  return device;
}

Status GlooMesh::Open(const ExchangeAddresses& exchange) {
  SIMURGH_ASSIGN_OR_RETURN(const auto device, Listen());

  std::string own;  // One address per other rank, all of the same length.
  size_t address_bytes = 0;
  const Status prepared = Guard([&] {
    context_ = device->createContext(static_cast<int>(rank()), static_cast<int>(ranks()));
    context_->setTimeout(options_.timeout);
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      if (peer == rank()) continue;
      const auto bytes = context_->createPair(static_cast<int>(peer))->address().bytes();
      address_bytes = bytes.size();
      own.append(bytes.begin(), bytes.end());
    }
  });
  if (!prepared.ok()) return Annotate(prepared, "ranks");
  const size_t own_size = own.size();
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> all, exchange(std::move(own)));
  if (all.size() != ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: received addresses of ", all.size(), " ranks, expected ", ranks()));
  }
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    if (all[peer].size() != own_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("ranks: the addresses of rank ", peer, " have ", all[peer].size(),
                       " bytes, expected ", own_size, "; run the same version on all ranks"));
    }
    // The peer's list omits the peer itself.
    const size_t offset = (rank() < peer ? rank() : rank() - 1) * address_bytes;
    const auto begin = all[peer].begin() + static_cast<std::ptrdiff_t>(offset);
    const std::vector<char> address(begin, begin + static_cast<std::ptrdiff_t>(address_bytes));
    const Status connected =
        Guard([&] { context_->getPair(static_cast<int>(peer))->connect(address); });
    if (!connected.ok()) {
      return Annotate(connected, absl::StrCat("ranks: cannot connect to rank ", peer));
    }
  }
  return absl::OkStatus();
}

void GlooMesh::OpenLines() {
  farewells_.resize(ranks());
  for (const uint32_t peer : peers_) {
    farewells_[peer] = std::make_unique<Farewell>();
    Farewell& farewell = *farewells_[peer];
    farewell.buffer = context_->createUnboundBuffer(&farewell.text, sizeof(farewell.text));
    farewell.buffer->recv(static_cast<int>(peer), kFarewellSlot);
  }
  for (size_t channel = 0; channel < kChannels; ++channel) {
    lines_[channel].resize(ranks());
    for (const uint32_t peer : peers_) {
      lines_[channel][peer] =
          std::make_unique<GlooLine>(*context_, peer, kFarewellSlot + 1 + channel);
    }
  }
}

Status GlooMesh::Try(uint32_t peer, absl::FunctionRef<void()> call) {
  const Status status = Guard(call);
  return status.ok() ? status : FailAsGone(peer, std::string(status.message()));
}

Status GlooMesh::Exchange(Channel channel, Parts& parts, absl::FunctionRef<void()> meanwhile) {
  SIMURGH_RETURN_IF_ERROR(Check(channel));
  const auto& lines = lines_[static_cast<size_t>(channel)];
  std::vector<std::pair<uint32_t, GlooLine::Sending>> sent;
  for (const uint32_t peer : peers_) {
    SIMURGH_RETURN_IF_ERROR(Try(peer, [&] {
      sent.emplace_back(peer, lines[peer]->Announce(parts.outgoing[peer].size()));
    }));
  }
  const auto start = [&](uint32_t peer) {
    return Try(peer, [&] {
      sent.emplace_back(peer, lines[peer]->Start(parts.outgoing[peer], parts.expected[peer]));
    });
  };
  std::vector<uint32_t> growing;
  for (const uint32_t peer : peers_) {
    if (lines[peer]->TooSmall(parts.expected[peer]) != nullptr) {
      growing.push_back(peer);
    } else {
      SIMURGH_RETURN_IF_ERROR(start(peer));
    }
  }
  meanwhile();
  for (const uint32_t peer : growing) {
    GlooLine& line = *lines[peer];
    const size_t expected = parts.expected[peer];
    SIMURGH_RETURN_IF_ERROR(WaitFor(channel, line.TooSmall(expected), /*is_send=*/false, peer));
    SIMURGH_RETURN_IF_ERROR(Try(peer, [&] { line.Grow(expected); }));
    SIMURGH_RETURN_IF_ERROR(start(peer));
  }
  for (const uint32_t peer : peers_) {
    GlooLine& line = *lines[peer];
    SIMURGH_RETURN_IF_ERROR(WaitFor(channel, line.receiving(), /*is_send=*/false, peer));
    parts.incoming[peer] = line.Finish();
  }
  for (const auto& [peer, sending] : sent) {
    SIMURGH_RETURN_IF_ERROR(WaitFor(channel, sending.get(), /*is_send=*/true, peer));
  }
  return absl::OkStatus();
}

Status GlooMesh::StatusOf(Channel channel) const {
  if (failure_) return failure_->status();
  if (!closed_[static_cast<size_t>(channel)]) return absl::OkStatus();
  return absl::CancelledError("ranks: the channel is closed");
}

Status GlooMesh::Check(Channel channel) {
  const MutexLock lock(mutex_);
  return StatusOf(channel);
}

GlooMesh::Clock::time_point GlooMesh::DeadlineOf(Channel channel) const {
  // The loading channel prefetches, and may wait for as long as evaluation or loaders take.
  return channel == Channel::kLoading ? Clock::time_point::max() : Clock::now() + options_.timeout;
}

void GlooMesh::Interrupt(const Waiting& waiting) {
  if (waiting.buffer == nullptr) return;
  waiting.is_send ? waiting.buffer->abortWaitSend() : waiting.buffer->abortWaitRecv();
}

Status GlooMesh::WaitFor(Channel channel, Buffer* buffer, bool is_send, uint32_t peer) {
  if (buffer == nullptr) return absl::OkStatus();
  const auto index = static_cast<size_t>(channel);
  {
    const MutexLock lock(mutex_);
    SIMURGH_RETURN_IF_ERROR(StatusOf(channel));
    waiting_[index] = {
        .buffer = buffer, .is_send = is_send, .peer = peer, .deadline = DeadlineOf(channel)};
  }
  bool completed = false;
  const Status waited =
      Guard([&] { completed = is_send ? buffer->waitSend(kForever) : buffer->waitRecv(kForever); });
  {
    const MutexLock lock(mutex_);
    waiting_[index] = Waiting();
    if (waited.ok() && completed) return absl::OkStatus();
    SIMURGH_RETURN_IF_ERROR(StatusOf(channel));
  }
  return FailAsGone(peer, std::string(waited.message()));
}

bool GlooMesh::ReceiveFarewell(uint32_t peer, Clock::time_point deadline) {
  Farewell& farewell = *farewells_[peer];
  const MutexLock lock(farewell.mutex);
  if (farewell.received) return true;
  // A closed connection ends this wait too.
  bool received = false;
  (void)Guard([&] { received = farewell.buffer->waitRecv(LeftUntil(deadline)); });
  farewell.received = received;
  return received;
}

Status GlooMesh::FailAsGone(uint32_t peer, const std::string& what) {
  const Farewell& farewell = *farewells_[peer];
  if (ReceiveFarewell(peer, Clock::now() + kFarewellTimeout)) {
    const uint32_t length = std::min<uint32_t>(farewell.text.length, Farewell::kMaxText);
    const bool stopped = farewell.text.code == static_cast<int32_t>(absl::StatusCode::kCancelled);
    return Fail({.code = stopped ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable,
                 .message = std::string(farewell.text.characters, length)});
  }
  return Fail(
      {.code = absl::StatusCode::kUnavailable,
       .message = absl::StrCat(NameOf(peer), " disconnected: ", what, "; restart all ranks")});
}

std::string GlooMesh::NameOf(uint32_t rank) const {
  return absl::StrCat("rank ", rank, " of ", ranks(), " (nn_worker.instances.", rank, ")");
}

Status GlooMesh::FailAsSilent(uint32_t peer) {
  return Fail({.code = absl::StatusCode::kDeadlineExceeded,
               .message = absl::StrCat(NameOf(peer), " sent nothing for ", options_.timeout.count(),
                                       " ms (nn_worker.rank_timeout); see its log and restart all "
                                       "ranks")});
}

void GlooMesh::OnFailure(std::function<void()> listener) {
  const MutexLock lock(mutex_);
  on_failure_ = std::move(listener);
}

void GlooMesh::EndWith(const Failure& failure) {
  failure_ = failure;
  for (const Waiting& waiting : waiting_) Interrupt(waiting);
}

Status GlooMesh::Fail(const Failure& failure) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return failure_->status();
    EndWith(failure);
  }
  ExchangeFarewells(failure);
  return failure.status();
}

void GlooMesh::Close(Channel channel) {
  const MutexLock lock(mutex_);
  closed_[static_cast<size_t>(channel)] = true;
  Interrupt(waiting_[static_cast<size_t>(channel)]);
}

void GlooMesh::Abort(const Status& reason) {
  const std::string message(reason.message());
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    EndWith({reason.code(), message});
  }
  ExchangeFarewells(
      {.code = reason.code(), .message = absl::StrCat(NameOf(rank()), " stopped: ", message)});
}

void GlooMesh::ExchangeFarewells(const Failure& failure) {
  const auto deadline = Clock::now() + kFarewellTimeout;
  SendFarewells(failure, deadline);
  {
    // After the farewells: the peers of the listener look for them.
    const MutexLock lock(mutex_);
    if (on_failure_) on_failure_();
  }
  // Closing a connection discards unread messages. A peer that has read the farewell answers with
  // its own.
  for (const uint32_t peer : peers_) ReceiveFarewell(peer, deadline);
}

void GlooMesh::SendFarewells(const Failure& failure, Clock::time_point deadline) {
  Farewell::Text text{.code = static_cast<int32_t>(failure.code)};
  text.length = static_cast<uint32_t>(std::min(failure.message.size(), Farewell::kMaxText));
  std::memcpy(text.characters, failure.message.data(), text.length);
  std::vector<std::unique_ptr<Buffer>> sending;
  for (const uint32_t peer : peers_) {
    // Fails if the peer has disconnected.
    (void)Guard([&] {
      sending.push_back(context_->createUnboundBuffer(&text, sizeof(text)));
      sending.back()->send(static_cast<int>(peer), kFarewellSlot);
    });
  }
  for (const auto& buffer : sending) (void)Guard([&] { buffer->waitSend(LeftUntil(deadline)); });
}

void GlooMesh::Watch() {
  SetThreadName("ranks");
  while (true) {
    std::optional<uint32_t> late;
    {
      const MutexLock lock(mutex_);
      if (ending_ || failure_) return;
      const auto first = std::ranges::min_element(waiting_, {}, &Waiting::deadline);
      const auto now = Clock::now();
      if (first->deadline <= now) {
        late = first->peer;
      } else {
        // Waits that start meanwhile have later deadlines.
        changed_.WaitUntil(mutex_, std::min(first->deadline, now + options_.timeout));
      }
    }
    if (!late) continue;
    (void)FailAsSilent(*late);
    return;
  }
}

}  // namespace simurgh
