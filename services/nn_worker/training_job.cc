#include "services/nn_worker/training_job.h"

#include <string_view>
#include <utility>

#include "simurgh/base/hash.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {
namespace {

OpenReader ReaderOf(const ClusterConfig& config, const std::vector<std::string>& files,
                    const ReadOptions& options) {
  return [&config, &files, options] {
    return OpenBatchReader(config.data, config.features, files, config.training.batch_size,
                           options);
  };
}

uint64_t HashFloats(std::span<const float> values, uint64_t seed) {
  return HashBytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, seed);
}

}  // namespace

TrainingJob::TrainingJob(const ClusterConfig& config, MetricRegistry& registry)
    : config_(config), report_(registry) {}

StatusOr<std::unique_ptr<TrainingJob>> TrainingJob::Create(const ClusterConfig& config,
                                                           MetricRegistry& registry) {
  std::unique_ptr<TrainingJob> job(new TrainingJob(config, registry));
  SIMURGH_RETURN_IF_ERROR(FitStatistics(job->config_.data, job->config_.features));
  SIMURGH_ASSIGN_OR_RETURN(
      job->network_,
      CreateCpuNetwork(config.model, {.dense_width = DenseColumns(config.data).size(),
                                      .embedding_width = config.embedding_width(),
                                      .threads = config.nn_worker.threads,
                                      .seed = config.seed,
                                      .optimizer = config.training.dense_optimizer}));
  return job;
}

StatusOr<TrainResult> TrainingJob::Run(EmbeddingPort& port, uint64_t run, std::stop_token stop) {
  OpenReader open_test;
  if (!config_.data.test.empty()) open_test = ReaderOf(config_, config_.data.test, {});
  Trainer trainer(
      config_.training, run, config_.embedding_width(), port, *network_,
      ReaderOf(config_, config_.data.train,
               {.keep_negatives = config_.training.keep_negatives, .seed = config_.seed}),
      std::move(open_test), &report_);
  return trainer.Run(std::move(stop));
}

uint64_t TrainingJob::NetworkDigest() {
  return HashFloats(network_->state(), HashFloats(network_->parameters(), 0));
}

}  // namespace simurgh
