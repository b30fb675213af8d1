#include "bench/e2e/proxy_network.h"

#include <csignal>
#include <iostream>
#include <list>

#include <boost/asio/signal_set.hpp>

#include "rpc/testing/proxy.h"

namespace simurgh::bench {

Status CarryConnections(const std::vector<ProxiedAddress>& addresses,
                        std::chrono::steady_clock::duration delay, double bytes_per_second) {
  rpc::asio::io_context loop(1);
  rpc::asio::signal_set end(loop, SIGTERM, SIGINT);
  end.async_wait([&loop](const auto& /*error*/, int /*signal*/) { loop.stop(); });
  std::list<rpc::testing::DelayingProxy> proxies;
  for (const ProxiedAddress& address : addresses) {
    SIMURGH_RETURN_IF_ERROR(rpc::ParseAddress(address.to).status());
    auto& proxy = proxies.emplace_back(loop.get_executor(), delay, bytes_per_second);
    SIMURGH_RETURN_IF_ERROR(proxy.Listen(address.from));
    proxy.SetTarget(address.to);
  }
  std::cout << "ready" << std::endl;
  loop.run();
  return absl::OkStatus();
}

}  // namespace simurgh::bench
