#include "services/runtime/peer_monitor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/log.h"

namespace simurgh {
namespace {

constexpr std::chrono::seconds kInterval{1};  // Pause between calls of a ready peer.
// Least and greatest pause after a call that has failed, which each failure doubles. The client's
// back-off is added.
constexpr std::chrono::milliseconds kFirstRetryPause{5};
constexpr std::chrono::milliseconds kLastPause{100};
constexpr std::chrono::seconds kPatience{1};  // Maximum wait for a connection.
constexpr std::chrono::seconds kTimeout{5};   // Maximum wait for an answer.
constexpr std::chrono::seconds kStart{3};     // Waiting this long for a peer's start is normal.

bool IsRefusal(const Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnauthenticated(status);
}

}  // namespace

std::vector<PeerMonitor::Peer> PeerMonitor::PeersOf(const DaemonContext& context,
                                                    const std::string& role,
                                                    const std::vector<InstanceConfig>& instances,
                                                    bool must_be_ready) {
  std::vector<Peer> peers;
  for (size_t i = 0; i < instances.size(); ++i) {
    if (role == context.hello().role && i == context.index()) continue;
    peers.push_back({.name = absl::StrCat(role, " ", i),
                     .address = instances[i].address,
                     .options = OptionsFor(context.rpc_options().client, role, instances, i),
                     .must_be_ready = must_be_ready,
                     .ends_wait = role != context.hello().role});
  }
  return peers;
}

PeerMonitor::PeerMonitor(DaemonContext& context, std::vector<Peer> peers) : context_(context) {
  if (peers.empty()) return;
  constexpr uint32_t kLines = 1;  // Burst of log lines per peer.
  for (Peer& peer : peers) {
    watched_.push_back(std::make_unique<Watched>(
        Watched{.peer = std::move(peer), .log = LogLimiter(kLines, std::chrono::seconds(10))}));
  }
  {
    const MutexLock lock(mutex_);
    context_.SetWaiting("peers", Summary());
  }
  thread_ = std::make_unique<IoThread>("peers");
  thread_->RunAndWait([this] {
    stop_ = std::make_unique<rpc::WaitList>(thread_->executor());
    for (const auto& watched : watched_) {
      const Peer& peer = watched->peer;
      watched->client = std::make_unique<rpc::Client>(
          thread_->executor(), peer.address, context_.hello(), peer.options, /*observer=*/nullptr);
      ++calling_;
      rpc::asio::co_spawn(thread_->executor(), Watch(*watched),
                          [this](const std::exception_ptr& /*none*/) {
                            --calling_;
                            stop_->NotifyAll();
                          });
    }
  });
}

rpc::awaitable<void> PeerMonitor::Watch(Watched& watched) {
  rpc::Clock::duration retry_pause = kFirstRetryPause;
  while (!stopped_) {
    rpc::CallOptions options(rpc::Clock::now() + kTimeout);
    options.patience = kPatience;
    Status status =
        (co_await rpc::Call(*watched.client, kReady, rpc::Outgoing<Ready::Request>(), options))
            .status();
    if (stopped_) co_return;
    if (!watched.peer.must_be_ready && absl::IsFailedPrecondition(status)) status = {};
    if (!watched.peer.ends_wait && IsRefusal(status)) {
      status = absl::UnavailableError(status.message());
    }
    Note(watched, status);
    const rpc::Clock::duration pause = status.ok() ? rpc::Clock::duration(kInterval) : retry_pause;
    retry_pause = status.ok() ? rpc::Clock::duration(kFirstRetryPause)
                              : std::min<rpc::Clock::duration>(2 * retry_pause, kLastPause);
    co_await stop_->Wait(rpc::Clock::now() + pause);
  }
}

void PeerMonitor::Note(Watched& watched, const Status& status) {
  const bool is_stopping = context_.stop_source().stop_requested();
  const std::string& name = watched.peer.name;
  const MutexLock lock(mutex_);
  if (status.ok() && !watched.was_ready) {
    spdlog::info("peer is ready: peer='{}' address={}", name, watched.peer.address);
  } else if (!status.ok() && !is_stopping) {
    const auto now = LogLimiter::Clock::now();
    // Daemons that start together wait for each other for a moment.
    const bool is_late = now - started_ > kStart || IsRefusal(status);
    if (const auto suppressed = watched.log.Admit(now)) {
      spdlog::log(is_late ? spdlog::level::warn : spdlog::level::info,
                  "waiting for a peer: peer='{}' suppressed_lines={}: {}", name, *suppressed,
                  std::string(status.message()));
    }
  }
  watched.was_ready = status.ok();
  watched.status = status;
  context_.SetWaiting("peers", Summary());
  changed_.NotifyAll();
}

Status PeerMonitor::Summary() const {
  const Watched* first = nullptr;
  size_t count = 0;
  for (const auto& watched : watched_) {
    if (watched->status.ok()) continue;
    ++count;
    if (first == nullptr || (IsRefusal(watched->status) && !IsRefusal(first->status))) {
      first = watched.get();
    }
  }
  if (first == nullptr) return absl::OkStatus();
  return Status(first->status.code(),
                absl::StrCat("waiting for ", first->peer.name, ": ", first->status.message(),
                             count > 1 ? absl::StrCat("; and for ", count - 1, " more") : ""));
}

Status PeerMonitor::Await(const std::stop_token& stop,
                          std::optional<std::chrono::steady_clock::time_point> deadline) {
  const std::stop_callback stopper(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  const MutexLock lock(mutex_);
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("stopped while waiting for peers");
    const Status summary = Summary();
    if (summary.ok() || IsRefusal(summary)) return summary;
    if (!deadline) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, *deadline)) {
      return Status(absl::StatusCode::kDeadlineExceeded, summary.message());
    }
  }
}

void PeerMonitor::Stop() {
  if (thread_ == nullptr) return;
  const auto stop = [this]() -> rpc::awaitable<void> {
    stopped_ = true;
    for (const auto& watched : watched_) watched->client->Stop();
    stop_->NotifyAll();
    while (calling_ > 0) co_await stop_->Wait(rpc::Clock::time_point::max());
    for (const auto& watched : watched_) watched->client.reset();
  };
  rpc::asio::co_spawn(thread_->executor(), stop, rpc::asio::use_future).get();
  thread_->RunAndWait([this] { stop_ = nullptr; });
  thread_ = nullptr;
}

}  // namespace simurgh
