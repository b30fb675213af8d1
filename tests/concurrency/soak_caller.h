#pragma once

// The callers' side of a soak.

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/client.h"
#include "rpc/gate.h"
#include "tests/concurrency/soak_ledger.h"

namespace simurgh::rpc {

// Hands out the numbers of calls. Threads: any.
struct CallNumbers {
  const uint64_t seed;
  const uint64_t end;
  std::atomic<uint64_t> next{0};
};

// One client and its callers, each with one call in flight. They check every result, leave
// borrowed bytes to the library no longer than it may have them, and notice when it writes to
// destinations that are not its own any more.
//
// Threads: one, that of its executor. Lifetime: until Run() has ended.
class SoakCallers {
 public:
  SoakCallers(asio::any_io_executor executor, const std::string& address, CallNumbers& numbers,
              Ledger& ledger, ClientOptions options = {});

  // Makes calls with that many callers at once until the numbers have run out.
  [[nodiscard]] awaitable<Status> Run(size_t callers);

 private:
  class Caller;

  const asio::any_io_executor executor_;
  CallNumbers& numbers_;
  Ledger& ledger_;
  Client client_;
};

}  // namespace simurgh::rpc
