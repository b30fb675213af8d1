#include "services/runtime/own_host.h"

#include <algorithm>
#include <chrono>
#include <semaphore>
#include <stop_token>

#include <netdb.h>

#include "absl/strings/str_cat.h"

#include "rpc/address.h"
#include "simurgh/base/log.h"

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};

// The resolver's error, or 0.
int Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (found != nullptr) ::freeaddrinfo(found);
  return error;
}

}  // namespace

Status AwaitOwnHost(DaemonContext& context, const std::string& key, const std::string& address) {
  const auto parsed = rpc::ParseAddress(address);
  if (!parsed.ok() || parsed->has_path()) return absl::OkStatus();
  std::binary_semaphore stopped(0);
  const std::stop_callback stopper(context.stop_source().get_token(), [&] { stopped.release(); });
  std::chrono::milliseconds pause = kFirstPause;
  for (int error = 0; (error = Resolve(parsed->host)) != 0;
       pause = std::min(2 * pause, kLongestPause)) {
    const std::string reason =
        absl::StrCat(key, ": host '", parsed->host, "' does not resolve: ", ::gai_strerror(error));
    spdlog::warn("waiting: {}; correct the host, or add it to the name service", reason);
    context.SetWaiting("host", absl::UnavailableError(reason));
    if (stopped.try_acquire_for(pause)) return absl::CancelledError("stopped while waiting");
  }
  context.SetWaiting("host", absl::OkStatus());
  return absl::OkStatus();
}

}  // namespace simurgh
