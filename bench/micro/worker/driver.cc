#include "bench/micro/worker/driver.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "config/cluster_config.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh::bench {
namespace {

constexpr float kGradient = 1e-5F;

}  // namespace

// The batches in flight. Responses of the slots' calls arrive on the client's threads.
class WorkerDriver::Run {
 public:
  Run(WorkerDriver& driver, const std::vector<SubmittedIds>& batches, double seconds)
      : driver_(driver),
        batches_(batches),
        end_(rpc::Clock::now() + std::chrono::duration_cast<rpc::Clock::duration>(
                                     std::chrono::duration<double>(seconds))) {}

  StatusOr<uint64_t> Wait(uint32_t in_flight) {
    std::vector<std::unique_ptr<Slot>> slots;
    for (uint32_t i = 0; i < in_flight; ++i) {
      slots.push_back(std::make_unique<Slot>());
      const size_t samples = batches_.front().batch->batch_size;
      slots.back()->embeddings = AlignedBuffer(samples * driver_.embeddings_.row_bytes());
      slots.back()->gradients = driver_.GradientsOf(samples);
    }
    {
      MutexLock lock(mutex_);
      running_ = in_flight;
    }
    for (const auto& slot : slots) Next(*slot, absl::OkStatus());
    MutexLock lock(mutex_);
    while (running_ > 0) changed_.Wait(mutex_);
    if (!status_.ok()) return status_;
    return done_;
  }

 private:
  struct Slot {
    const SubmittedIds* ids = nullptr;
    StepId step_id;
    BatchReference reference;
    AlignedBuffer embeddings;
    AlignedBuffer gradients;
    PooledArgmax argmax;
  };

  // Of the slot's batch.
  static std::span<std::byte> BytesOf(const Slot& slot, const AlignedBuffer& buffer,
                                      const VectorCodec& codec) {
    return buffer.bytes().first(slot.ids->batch->batch_size * codec.row_bytes());
  }

  // The slot's batch is through, or failed, or the slot is new.
  void Next(Slot& slot, const Status& status) {
    {
      MutexLock lock(mutex_);
      if (slot.ids != nullptr && status.ok()) ++done_;
      if (status_.ok()) status_ = status;
      if (!status_.ok() || (begun_ >= batches_.size() && rpc::Clock::now() >= end_)) {
        if (--running_ == 0) changed_.NotifyAll();
        return;
      }
      slot.ids = &batches_[begun_++ % batches_.size()];
      slot.step_id = {.run = 1, .rank = 0, .step = driver_.step_++};
    }
    const SubmitOptions options{.run = slot.step_id.run, .step = slot.step_id.step};
    driver_.client_->Submit(*slot.ids, options, [this, &slot](StatusOr<BatchReference> reference) {
      if (!reference.ok()) return Next(slot, reference.status());
      slot.reference = *reference;
      Pull(slot);
    });
  }

  void Pull(Slot& slot) {
    const PullOptions options{.step_id = slot.step_id, .row_age_steps = driver_.row_age_steps_};
    driver_.client_->Pull(slot.reference, options,
                          {driver_.embeddings_.precision(),
                           BytesOf(slot, slot.embeddings, driver_.embeddings_), nullptr},
                          [this, &slot](StatusOr<PullAnswer> answer) {
                            if (!answer.ok()) return Next(slot, answer.status());
                            slot.argmax = std::move(answer->argmax);
                            Push(slot);
                          });
  }

  void Push(Slot& slot) {
    GradientBuffer gradients(driver_.gradients_.precision(), /*times=*/1,
                             BytesOf(slot, slot.gradients, driver_.gradients_), nullptr);
    gradients.argmax = slot.argmax;
    driver_.client_->Push(slot.reference, slot.step_id, std::move(gradients),
                          [this, &slot](const Status& status) { Next(slot, status); });
  }

  WorkerDriver& driver_;
  const std::vector<SubmittedIds>& batches_;
  const rpc::Clock::time_point end_;
  Mutex mutex_;
  CondVar changed_;
  Status status_ ABSL_GUARDED_BY(mutex_);
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
};

WorkerDriver::WorkerDriver(const ClusterConfig& config)
    : embeddings_(config.training.embedding_precision, WireOf(config).dims),
      gradients_(config.training.gradient_precision, WireOf(config).dims),
      row_age_steps_(config.training.row_age_steps),
      rates_(config.tables) {
  rpc::Hello hello{.cluster = config.name, .role = "nn-worker"};
  hello.run = 1;
  hello.configuration = ClusterAgreement(config);
  const StatusOr<RpcOptions> options = MakeRpcOptions(config.rpc);
  SIMURGH_CHECK(options.ok()) << options.status();
  io_.RunAndWait([&] {
    std::vector<std::unique_ptr<PeerClients>> workers;
    workers.push_back(std::make_unique<PeerClients>(io_.executor(),
                                                    config.embedding_worker.instances[0].address,
                                                    hello, options->client, nullptr));
    client_ = std::make_unique<BatchClient>(io_.executor(), std::move(workers), config, rates_);
  });
}

WorkerDriver::~WorkerDriver() {
  io_.RunAndWait([this] { client_.reset(); });
}

AlignedBuffer WorkerDriver::GradientsOf(size_t samples) const {
  const std::vector<float> floats(samples * gradients_.columns(), kGradient);
  AlignedBuffer encoded(samples * gradients_.row_bytes());
  gradients_.Encode({floats.data(), samples, gradients_.columns()}, /*factor=*/1,
                    /*key=*/std::nullopt, encoded.bytes());
  return encoded;
}

StatusOr<uint64_t> WorkerDriver::Drive(const std::vector<SubmittedIds>& batches, uint32_t in_flight,
                                       double seconds) {
  SIMURGH_CHECK(!batches.empty());
  return Run(*this, batches, seconds).Wait(in_flight);
}

}  // namespace simurgh::bench
