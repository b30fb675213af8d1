#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/ps/batches.h"
#include "rpc/client.h"
#include "rpc/method.h"
#include "services/runtime/io_thread.h"

namespace simurgh::bench {

// A client of an embedding-ps, with its own thread.
class Driver {
 public:
  Driver(const std::string& address, const rpc::Hello& hello, uint64_t map_version);
  ~Driver();

  // Pulls every batch once.
  // Errors: of the calls.
  Status Fill(const std::vector<PsBatch>& rows);

  // Returns rows per second of pulls or pushes, with `in_flight` calls at a time. Gradients are
  // ready in the buffer that is sent; received rows are not copied.
  // Errors: of the calls.
  StatusOr<double> Measure(const std::vector<PsBatch>& batches, bool push, size_t in_flight,
                           double seconds);

 private:
  struct Run;

  [[nodiscard]] rpc::awaitable<Status> Pull(const PsBatch& batch);
  [[nodiscard]] rpc::awaitable<Status> Push(const PsBatch& batch,
                                            const rpc::SegmentDestination<float>& gradients);
  [[nodiscard]] rpc::awaitable<Status> Repeat(Run& run);
  [[nodiscard]] rpc::awaitable<Status> RunAll(Run& run, size_t in_flight);

  const uint64_t map_version_;
  uint64_t step_ = 0;
  std::unique_ptr<rpc::Client> client_;
  IoThread io_{"client"};
};

}  // namespace simurgh::bench
