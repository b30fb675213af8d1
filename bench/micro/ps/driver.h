#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/ps/batches.h"
#include "rpc/client.h"
#include "rpc/typed_message.h"
#include "services/runtime/io_thread.h"

namespace simurgh::bench {

// A client of a server of rows, on a thread of its own.
class Driver {
 public:
  Driver(const std::string& address, const rpc::Hello& hello, uint64_t map_version);
  ~Driver();

  // Pulls every batch once.
  // Errors: of the calls.
  Status Fill(const std::vector<PsBatch>& rows);

  // Rows a second of pulls or pushes, so many at a time. Gradients lie ready where they are sent
  // from; rows are left where the transport has them.
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
