#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include "services/api/batch_codec.h"
#include "services/api/row_codec.h"
#include "services/embedding_worker/embedding_worker.h"
#include "services/runtime/io_thread.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/data/encoded_batch.h"
#include "simurgh/feature/bucket_map.h"
#include "simurgh/table/run_number.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Bytes of metadata and payload of a method's calls, as simurgh_rpc_request_bytes_total and
// simurgh_rpc_response_bytes_total count them.
struct CallBytes {
  double request = 0;
  double response = 0;

  double both() const { return request + response; }
  template <typename Request>
  void Add(const rpc::Outgoing<Request>& sent) {
    request += static_cast<double>(rpc::BytesOf(sent.message()));
  }
  template <typename Request, typename Response>
  void Add(const rpc::Outgoing<Request>& sent, const rpc::Outgoing<Response>& answer) {
    Add(sent);
    response += static_cast<double>(rpc::BytesOf(answer.message()));
  }
};

// What the steps of one rank have sent.
struct StepTraffic {
  CallBytes submit, pull, push;    // Between nn-worker and embedding worker.
  CallBytes pull_rows, push_rows;  // Between embedding worker and all servers.
  double rows = 0;                 // Rows that pulls have requested.
  uint64_t steps = 0;
  double buffered_bytes = 0;  // The largest batch in the forward buffer.
};

// Counts the bytes that training steps send, without a network: batches pass through an embedding
// worker and all codecs, to servers without rows. The sizes are those of real calls.
//
// Threads: one owner.
class StepMeter {
 public:
  explicit StepMeter(const ClusterConfig& config)
      : config_(config), metrics_(registry_, config), compute_(1) {
    std::vector<std::unique_ptr<RowServer>> servers;
    for (size_t i = 0; i < config.embedding_ps.instances.size(); ++i) {
      servers.push_back(std::make_unique<Server>(MapOf(config).version(), traffic_));
    }
    worker_ = std::make_unique<EmbeddingWorker>(config, kIncarnation, compute_.get_executor(),
                                                std::move(servers), metrics_);
  }
  ~StepMeter() {
    compute_.join();
    worker_.reset();
  }
  StepMeter(const StepMeter&) = delete;
  StepMeter& operator=(const StepMeter&) = delete;

  // Takes a batch through a step. Errors: of EmbeddingWorker.
  Status Step(std::shared_ptr<const CompactBatch> batch) {
    return rpc::asio::co_spawn(io_.executor(), Run(std::move(batch)), rpc::asio::use_future).get();
  }

  // Of the steps so far. A row cache is cold in the first training.row_age_steps; Forget() them.
  const StepTraffic& traffic() const { return traffic_; }
  void Forget() { traffic_ = {}; }

 private:
  static constexpr uint64_t kIncarnation = 0x5eed'5eed'5eed'5eed;
  static constexpr rpc::Clock::time_point kNoDeadline = rpc::Clock::time_point::max();

  class Server : public RowServer {
   public:
    Server(uint64_t map_version, StepTraffic& traffic)
        : map_version_(map_version), traffic_(traffic) {}

    [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                            rpc::CallOptions) override {
      std::ranges::fill(call.rows, std::byte{0x3c});  // A row cache keeps no zeros.
      const PullReport report{.found = call.ids.size(), .created = 1};
      traffic_.rows += static_cast<double>(call.ids.size());
      traffic_.pull_rows.Add(api::Encode(call, map_version_), api::Encode(report, {call.rows}));
      co_return report;
    }
    [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                            rpc::CallOptions) override {
      const PushReport report{.updated = call.ids.size()};
      traffic_.push_rows.Add(api::Encode(call, map_version_), api::Encode(report));
      co_return report;
    }

   private:
    const uint64_t map_version_;
    StepTraffic& traffic_;
  };

  [[nodiscard]] rpc::awaitable<Status> Run(std::shared_ptr<const CompactBatch> batch) {
    const TrainingConfig& training = config_.training;
    const StepId step_id{.run = RunNumber(1, kIncarnation),
                         .step = step_++,
                         .ranks = static_cast<uint32_t>(config_.nn_worker.instances.size())};

    SIMURGH_CO_ASSIGN_OR_RETURN(EncodedBatch encoded, EncodeBatch(*batch));
    const std::shared_ptr<BufferedBatch> buffered = worker_->LeaseBatch();
    buffered->encoded = encoded;
    const SubmitOptions submit{.run = step_id.run, .step = step_id.step};
    SIMURGH_CO_ASSIGN_OR_RETURN(const BatchReference reference,
                                co_await worker_->SubmitEncoded(buffered, submit, kNoDeadline));
    traffic_.submit.Add(
        api::Encode(submit, std::make_shared<const EncodedBatch>(std::move(encoded))),
        api::Encode(reference));
    traffic_.buffered_bytes = std::max(traffic_.buffered_bytes, metrics_.buffered_bytes.value());

    const PullOptions pull{.step_id = step_id,
                           .acknowledged_steps = step_id.step,
                           .row_age_steps = training.row_age_steps};
    SIMURGH_CO_ASSIGN_OR_RETURN(
        const size_t bytes,
        worker_->AnswerBytes(reference, training.embeddings, training.embedding_precision));
    const auto room = std::make_shared<AlignedBuffer>(bytes);
    EmbeddingBuffer embeddings(training.embedding_precision, room->bytes(), room);
    embeddings.form = training.embeddings;
    SIMURGH_CO_ASSIGN_OR_RETURN(const PullAnswer answer,
                                co_await worker_->Pull(reference, pull, embeddings, kNoDeadline));
    traffic_.pull.Add(api::Encode({.reference = reference,
                                   .options = pull,
                                   .precision = embeddings.precision,
                                   .form = embeddings.form}),
                      api::Encode(answer, {embeddings.bytes, room}));

    const auto zeros = std::make_shared<AlignedBuffer>(
        batch->batch_size * worker_->row_bytes(training.gradient_precision));
    std::ranges::fill(zeros->bytes(), std::byte{0});
    GradientBuffer gradients(training.gradient_precision, WireOf(config_).gradient_factor,
                             zeros->bytes(), zeros);
    gradients.argmax = answer.argmax;
    const api::PushBatchMessage message{
        .reference = reference,
        .step_id = step_id,
        .learning_rates = std::vector<float>(config_.tables.size(), 1.0F),
        .precision = gradients.precision,
        .scale = gradients.scale};
    traffic_.push.Add(api::Encode(message, {zeros->bytes(), zeros}, gradients.argmax));
    ++traffic_.steps;
    co_return co_await worker_->Push(reference, step_id, message.learning_rates, gradients,
                                     kNoDeadline);
  }

  const ClusterConfig& config_;
  StepTraffic traffic_;
  uint64_t step_ = 1;
  MetricRegistry registry_;
  WorkerMetrics metrics_;
  std::unique_ptr<EmbeddingWorker> worker_;
  rpc::asio::thread_pool compute_;
  IoThread io_{"plan"};
};

}  // namespace simurgh
