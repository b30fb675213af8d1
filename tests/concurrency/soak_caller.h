#pragma once

// The clients of a soak test.

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/client.h"
#include "tests/concurrency/soak_ledger.h"

namespace simurgh::rpc {

// The next call number. Threads: any.
struct CallNumbers {
  const uint64_t seed;
  const uint64_t end;
  std::atomic<uint64_t> next{0};
};

// One client and its callers, each with one call in flight. They check every result, reuse bytes
// without owner as soon as a call returns, and detect writes to destinations after it.
//
// Threads: that of the executor. Lifetime: until Run() has ended.
class SoakCallers {
 public:
  SoakCallers(asio::any_io_executor executor, const std::string& address, CallNumbers& numbers,
              Ledger& ledger, ClientOptions options = {});

  // Runs `callers` concurrent callers until all calls are made.
  [[nodiscard]] awaitable<Status> Run(size_t callers);

 private:
  class Caller;

  const asio::any_io_executor executor_;
  CallNumbers& numbers_;
  Ledger& ledger_;
  Client client_;
};

}  // namespace simurgh::rpc
