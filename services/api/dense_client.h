#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "rpc/method.h"
#include "services/api/dense_server.h"
#include "simurgh/base/random.h"
#include "simurgh/nn/dense_optimizer.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// Calls the DenseServer of another process.
//
// Threads: call from the client's executor.
class RemoteDenseServer : public DenseServer {
 public:
  // name: for errors, "embedding-ps 1".
  RemoteDenseServer(std::string name, std::unique_ptr<rpc::Client> client)
      : name_(std::move(name)), client_(std::move(client)) {}

  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                                            rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                                           rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                                           rpc::CallOptions options) override;

 private:
  template <typename Method, typename... Destinations>
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Call(
      Method method, rpc::Outgoing<typename Method::Request> request, rpc::CallOptions options,
      Destinations... destinations);

  const std::string name_;
  const std::unique_ptr<rpc::Client> client_;
};

// The dense weights of all servers: server s of S holds weights P * s / S to P * (s + 1) / S - 1.
//
// Lifetime: must outlive every call, and so must the executor's thread.
class DenseClient : public DensePort {
 public:
  // servers: by index; called on `executor`.
  DenseClient(rpc::asio::any_io_executor executor,
              std::vector<std::unique_ptr<DenseServer>> servers,
              std::chrono::milliseconds call_timeout);

  void Start(uint64_t run, const DenseOptimizerConfig& optimizer, std::span<const float> parameters,
             std::span<const float> state, std::shared_ptr<const void> owner,
             std::function<void(Status)> done) override;
  void Pull(uint64_t run, std::span<float> parameters, std::shared_ptr<void> owner,
            std::function<void(StatusOr<DenseVersions>)> done) override;
  void PullState(uint64_t run, const DenseOptimizerConfig& optimizer, size_t weights,
                 std::span<float> state, std::shared_ptr<void> owner,
                 std::function<void(Status)> done) override;
  void Push(const DensePush& push, std::span<const float> gradients, std::span<float> parameters,
            std::shared_ptr<void> owner,
            std::function<void(StatusOr<DenseVersions>)> done) override;

 private:
  // Runs call(server, options) for all servers concurrently. Returns the first error.
  template <typename Call>
  void OnServers(Call call, std::function<void(StatusOr<DenseVersions>)> done);

  // The first weight of a server.
  size_t FirstOf(size_t server, size_t weights) const { return weights * server / servers_.size(); }
  template <typename T>
  std::span<T> RangeOf(size_t server, std::span<T> all) const {
    const size_t first = FirstOf(server, all.size());
    return all.subspan(first, FirstOf(server + 1, all.size()) - first);
  }
  // The parts of all weights' state that a server has.
  std::vector<DenseOptimizer::Part> StateOf(size_t server, const DenseOptimizerConfig& optimizer,
                                            size_t weights) const;

  const rpc::asio::any_io_executor executor_;
  const std::vector<std::unique_ptr<DenseServer>> servers_;
  const std::chrono::milliseconds call_timeout_;
  Random traces_;  // On the executor.
};

}  // namespace simurgh
