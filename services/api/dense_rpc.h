#pragma once

// Methods of parameter servers that own the dense weights (training.mode: async), called by
// nn-workers. The tables are in dense.fbs. The number and meaning of a method never change.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "config/training_config.h"
#include "nn/dense_optimizer.h"
#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/method.h"
#include "services/api/dense_generated.h"
#include "train/ports.h"

namespace simurgh {

struct DenseAnswer {
  uint64_t version = 0;   // Pushes applied so far.
  uint64_t gap = 0;       // Push: other pushes applied since base_version.
  bool repeated = false;  // Push: it had been applied before.
};

struct StartDenseCall {
  uint64_t run = 0;
  DenseOptimizerConfig optimizer;
  std::span<const float> parameters;  // The server's range.
  std::span<const float> state;       // State of the optimizer for this range; empty: a new one.
  std::shared_ptr<const void> owner;  // Keeps the spans alive.
};

struct PullDenseCall {
  uint64_t run = 0;
  bool state = false;           // The optimizer's state in place of the weights.
  std::span<float> values;      // Overwritten.
  std::shared_ptr<void> owner;  // Keeps `values` alive.
};

struct PushDenseCall {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t number = 0;        // The rank's pushes are numbered from 0.
  uint64_t base_version = 0;  // Version of the weights that produced the gradients.
  float learning_rate = 0;
  std::span<const float> gradients;
  std::span<float> parameters;  // Overwritten with the weights after the push.
  std::shared_ptr<void> owner;  // Keeps the spans alive, unless the caller does.
};

}  // namespace simurgh

namespace simurgh::api {

// Segments hold the server's range of the flat weights, or their gradients.
using StartDense =
    rpc::MethodOf<rpc::MessageOf<wire::StartDenseRequest, rpc::Segment<"parameters", float>,
                                 rpc::Segment<"state", float>>,
                  rpc::MessageOf<wire::DenseResponse>>;
inline constexpr StartDense kStartDense{.number = 0x0103, .name = "start_dense"};

using PullDense =
    rpc::MethodOf<rpc::MessageOf<wire::PullDenseRequest>,
                  rpc::MessageOf<wire::DenseResponse, rpc::Segment<"parameters", float>>>;
inline constexpr PullDense kPullDense{.number = 0x0104, .name = "pull_dense"};

// The response holds the weights after the push.
using PushDense =
    rpc::MethodOf<rpc::MessageOf<wire::PushDenseRequest, rpc::Segment<"gradients", float>>,
                  rpc::MessageOf<wire::DenseResponse, rpc::Segment<"parameters", float>>>;
inline constexpr PushDense kPushDense{.number = 0x0105, .name = "push_dense"};

// Errors: INVALID_ARGUMENT for an unknown kind. Does not check the numbers.
StatusOr<DenseOptimizerConfig> Decode(const wire::DenseOptimizer& optimizer);

// Requests; segments refer to the call's arrays.
rpc::Outgoing<StartDense::Request> Encode(const StartDenseCall& call);
rpc::Outgoing<PullDense::Request> Encode(const PullDenseCall& call);
rpc::Outgoing<PushDense::Request> Encode(const PushDenseCall& call);

DenseAnswer Decode(const wire::DenseResponse& response);

rpc::Outgoing<StartDense::Response> EncodeStarted(const DenseAnswer& answer);

// Method: PullDense or PushDense.
template <typename Method>
rpc::Outgoing<typename Method::Response> EncodeWeights(const DenseAnswer& answer,
                                                       rpc::SegmentSource<float> parameters) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreateDenseResponse(builder, answer.version, answer.gap, answer.repeated);
  return {builder, root, std::move(parameters)};
}

}  // namespace simurgh::api

namespace simurgh {

// A server's range of the dense weights: the store itself or a client of another process.
//
// A rank sends its pushes one at a time, in the order of their numbers. The last push may be
// repeated and is then acknowledged without effect.
//
// Errors: DATA_LOSS when the server has lost state of the run; INVALID_ARGUMENT for a range of
// another length, a bad learning rate or optimizer; UNAVAILABLE or DEADLINE_EXCEEDED when the
// server is not reachable in time. Threads: call from one executor.
class DenseServer {
 public:
  virtual ~DenseServer() = default;

  // Sets the initial weights of the run, unless it has weights already.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                                                    rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                                                   rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                                                   rpc::CallOptions options) = 0;
};

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

  // Returns the index of a server's first weight.
  size_t FirstOf(size_t server, size_t weights) const { return weights * server / servers_.size(); }
  template <typename T>
  std::span<T> RangeOf(size_t server, std::span<T> all) const {
    const size_t first = FirstOf(server, all.size());
    return all.subspan(first, FirstOf(server + 1, all.size()) - first);
  }
  // Returns the parts of the optimizer's state that a server has.
  std::vector<DenseOptimizer::Part> StateOf(size_t server, const DenseOptimizerConfig& optimizer,
                                            size_t weights) const;

  const rpc::asio::any_io_executor executor_;
  const std::vector<std::unique_ptr<DenseServer>> servers_;
  const std::chrono::milliseconds call_timeout_;
  Random traces_;  // Used on the executor only.
};

}  // namespace simurgh
