#include "services/nn_worker/training_job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "retrieval/tower_data.h"

#include "base/hash.h"
#include "base/log.h"
#include "collective/nccl_library.h"
#include "config/cluster_config.h"
#include "config/statistics.h"
#include "data/reading/batch_reader.h"
#include "data/reading/replay_reader.h"
#include "embedding/batch_plan.h"
#include "nn/two_towers.h"
#include "services/nn_worker/model_update.h"
#include "services/nn_worker/resume.h"
#include "train/dense_weights.h"
#include "train/item_pool.h"
#include "train/nccl_sums.h"

namespace simurgh {
namespace {

const CounterFamily kSkippedRowsTotal("simurgh_nn_skipped_rows_total",
                                      "Bad rows that were skipped, in all readings.", {"data"});
const GaugeFamily kQueueLimitBatches("simurgh_nn_queue_limit_batches",
                                     "training.loader_queue_batches.");
const GaugeFamily kStalenessLimitSteps(
    "simurgh_nn_staleness_limit_steps",
    "Largest possible simurgh_nn_staleness_steps, except in mode async.");

class JobReader final : public BatchReader {
 public:
  JobReader(std::unique_ptr<BatchReader> reader, const RawMasks& masks, Counter& skipped_rows,
            LabelCounts* labels, const TargetScales* scales)
      : reader_(std::move(reader)),
        masks_(masks),
        skipped_rows_(skipped_rows),
        labels_(labels),
        scales_(scales) {}

  ~JobReader() override {
    if (labels_ == nullptr) return;
    for (const std::string& warning : labels_->Warnings()) spdlog::warn("{}", warning);
  }
  JobReader(const JobReader&) = delete;
  JobReader& operator=(const JobReader&) = delete;

  StatusOr<std::optional<Batch>> Next() override {
    StatusOr<std::optional<Batch>> batch = reader_->Next();
    skipped_rows_.Add(reader_->skipped_rows() - counted_);
    counted_ = reader_->skipped_rows();
    if (!batch.ok() || !batch->has_value() || (*batch)->size() == 0) return batch;
    if (labels_ != nullptr) labels_->Add((*batch)->dense);
    if (scales_ != nullptr) Scale((*batch)->dense);
    masks_.AppendTo(**batch);
    return batch;
  }

  uint64_t skipped_rows() const override { return reader_->skipped_rows(); }
  void Stop() override { reader_->Stop(); }

 private:
  void Scale(DenseBatch& batch) const {
    const std::vector<LabelScale>& labels = scales_->labels;
    const size_t count = batch.batch_size * batch.tasks;
    for (size_t label = 0; label < labels.size(); ++label) {
      if (labels[label] == LabelScale()) continue;
      for (size_t i = label; i < count; i += batch.tasks) {
        batch.labels[i] = labels[label].Scaled(batch.labels[i]);
      }
    }
    if (scales_->mean_weight == 1) return;
    for (float& weight : std::span(batch.labels).subspan(count)) {
      weight = static_cast<float>(double{weight} / scales_->mean_weight);
    }
  }

  std::unique_ptr<BatchReader> reader_;
  const RawMasks& masks_;
  Counter& skipped_rows_;
  LabelCounts* const labels_;
  const TargetScales* const scales_;
  uint64_t counted_ = 0;
};

Counter& SkippedRowsOf(MetricRegistry& registry, const char* data) {
  return registry.Get(kSkippedRowsTotal, {data});
}

// Returns the address without the port; equal for instances of one machine.
std::string_view HostOf(std::string_view address) { return address.substr(0, address.rfind(':')); }

// Returns the configured device, or one for each rank of a machine, in their order.
uint32_t DeviceOf(const NnWorkerConfig& config, uint32_t rank) {
  const InstanceConfig& own = config.instances[rank];
  if (own.cuda_device) return *own.cuda_device;
  return static_cast<uint32_t>(std::ranges::count_if(
      std::span(config.instances).first(rank),
      [&](const auto& other) { return HostOf(other.address) == HostOf(own.address); }));
}

// Lets networks on devices sum gradients between devices, until destroyed.
class JoinedDevices {
 public:
  explicit JoinedDevices(DenseNetwork& network) : network_(network) {}
  ~JoinedDevices() {
    if (sums_ != nullptr) network_.LeaveRanks();
  }
  JoinedDevices(const JoinedDevices&) = delete;
  JoinedDevices& operator=(const JoinedDevices&) = delete;

  // Errors: see ConnectDevices and JoinRanks.
  Status Join(const ClusterConfig& config, Collective& collective) {
    if (collective.ranks() == 1) return absl::OkStatus();
    std::string reason;
    SIMURGH_ASSIGN_OR_RETURN(sums_, ConnectDevices(network_, collective, LoadNccl(),
                                                   config.nn_worker.rank_timeout, &reason));
    if (sums_ == nullptr) {
      if (config.nn_worker.device != ComputeDevice::kCpu) {
        spdlog::info("ranks sum gradients on the hosts: {}", reason);
      }
      return absl::OkStatus();
    }
    spdlog::info("ranks sum gradients between devices with NCCL");
    const TrainingConfig& training = config.training;
    return network_.JoinRanks({.sums = sums_.get(),
                               .allreduce = training.allreduce,
                               .overlap = training.mode != TrainingConfig::Mode::kNaiveHybrid});
  }

 private:
  DenseNetwork& network_;
  std::unique_ptr<DeviceSums> sums_;  // Null: the trainer sums.
};

// Returns this rank's share of the forward buffers, without the batches read ahead and one of an
// evaluation. At most the number of pushes that servers remember.
uint32_t AsyncStaleness(const ClusterConfig& config) {
  constexpr uint64_t kMax = 1'024;
  const uint64_t room = uint64_t{config.embedding_worker.forward_buffer_batches} *
                        config.embedding_worker.instances.size() /
                        config.nn_worker.instances.size();
  const uint64_t ahead = config.training.loader_queue_batches + uint64_t{1};
  return static_cast<uint32_t>(std::clamp<uint64_t>(room, ahead + 1, ahead + kMax) - ahead);
}

// Returns the size of all files; files that are not local count as 0.
double BytesOf(const std::vector<std::string>& files) {
  double bytes = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (!error) bytes += static_cast<double>(size);
  }
  return bytes;
}

uint64_t HashFloats(std::span<const float> values, uint64_t seed) {
  return HashBytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, seed);
}

}  // namespace

std::optional<size_t> GroupFeature(const ClusterConfig& config) {
  for (size_t i = 0; i < config.features.size(); ++i) {
    if (config.features[i].name == config.training.auc_group_feature) return i;
  }
  return std::nullopt;
}

void LabelCounts::Add(const DenseBatch& batch) {
  const size_t tasks = columns_.size();
  if (samples_ == 0) first_.assign(tasks, std::numeric_limits<float>::quiet_NaN());
  samples_ += batch.batch_size;
  for (size_t i = 0; i < batch.batch_size * tasks; ++i) {
    float& first = first_[i % tasks];
    if (std::isnan(batch.labels[i])) continue;  // The label is unknown.
    if (std::isnan(first)) first = batch.labels[i];
    if (batch.labels[i] != first) differs_[i % tasks] = true;
  }
}

std::vector<std::string> LabelCounts::Warnings() const {
  std::vector<std::string> warnings;
  for (size_t task = 0; task < columns_.size() && samples_ > 0; ++task) {
    if (differs_[task]) continue;
    if (std::isnan(first_[task])) {
      warnings.push_back(absl::StrCat("all ", samples_, " training labels of column '",
                                      columns_[task],
                                      "' that this rank read are missing; check the column"));
      continue;
    }
    warnings.push_back(absl::StrCat("all ", samples_, " training labels of column '",
                                    columns_[task], "' that this rank read are ", first_[task],
                                    "; check the column, and `positive` if its labels are texts"));
  }
  return warnings;
}

std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          LabelCounts* labels, const TargetScales* scales) {
  return std::make_unique<JobReader>(std::move(reader), masks, skipped_rows, labels, scales);
}

TrainingJob::TrainingJob(const ClusterConfig& config, MetricRegistry& registry, uint32_t rank)
    : config_(config),
      rank_(rank),
      masks_(config.features),
      identities_(config.data.on_change),
      bad_rows_(config.checkpoint, rank == 0 ? "" : absl::StrCat("-rank-", rank)),
      report_(registry, LabelColumns(config.data), config.training, RanksItems(config)),
      // Rows of a model of two towers may all be positives.
      labels_(RanksItems(config) ? std::vector<std::string>() : LabelColumns(config.data)),
      skipped_train_rows_(SkippedRowsOf(registry, "train")),
      skipped_validation_rows_(SkippedRowsOf(registry, "validation")),
      skipped_test_rows_(SkippedRowsOf(registry, "test")) {
  registry.Get(kQueueLimitBatches).Set(config.training.loader_queue_batches);
  if (config.training.mode == TrainingConfig::Mode::kAsync) return;
  registry.Get(kStalenessLimitSteps).Set(config.training.staleness - 1.0);
}

OpenReader TrainingJob::ReaderOf(const std::vector<std::string>& files, ReadOptions options,
                                 Counter& skipped_rows, LabelCounts* labels) {
  options.share = rank_;
  options.identities = &identities_;
  options.bad_rows = &bad_rows_;
  options.threads = ReadingThreads(config_.data);
  options.shares = static_cast<uint32_t>(config_.nn_worker.instances.size());
  return [this, &files, options, &skipped_rows,
          labels]() -> StatusOr<std::unique_ptr<BatchReader>> {
    SIMURGH_ASSIGN_OR_RETURN(auto reader, OpenBatchReader(config_.data, config_.features, files,
                                                          config_.training.batch_size, options));
    // Only rows to train on are counted and scaled.
    return NewJobReader(std::move(reader), masks_, skipped_rows, labels,
                        labels == nullptr ? nullptr : &scales_);
  };
}

StatusOr<std::unique_ptr<BatchReader>> TrainingJob::WithReplay(std::unique_ptr<BatchReader> reader,
                                                               uint32_t epoch) {
  const DataConfig& data = config_.data;
  const double share = data.replay_share;
  const double old_bytes = BytesOf(data.replay);
  // Takes the share of rows that is needed from all of the files.
  const double wanted = BytesOf(data.train) * share / (1 - share);
  ReadOptions options{.keep_negatives = config_.training.keep_negatives,
                      .seed = config_.seed,
                      .keep_rows = old_bytes > 0 ? std::min(1.0, wanted / old_bytes) : 1.0};
  const auto open_old = [this, options, epoch](uint32_t time) mutable {
    options.epoch = (epoch << 16U) + time;
    return ReaderOf(config_.data.replay, options, skipped_train_rows_, &labels_)();
  };
  const size_t least = config_.training.drop_last ? config_.training.batch_size : 1;
  return std::make_unique<ReplayReader>(std::move(reader), open_old, share, least);
}

uint64_t TrainingJob::skipped_rows() const {
  const uint64_t of_training = skipped_train_rows_.value() + skipped_validation_rows_.value();
  return tests_first_ ? of_training : of_training + skipped_test_rows_.value();
}

Status TrainingJob::LoadRanking() {
  const bool evaluates = !config_.data.validation.empty() || !config_.data.test.empty();
  if (!RanksItems(config_) || !evaluates) return absl::OkStatus();
  ranking_.emplace(config_, [this](std::unique_ptr<BatchReader> reader) {
    return NewJobReader(std::move(reader), masks_, skipped_test_rows_, nullptr);
  });
  return rank_ == 0 ? ranking_->Load() : absl::OkStatus();
}

StatusOr<std::unique_ptr<TrainingJob>> TrainingJob::Create(const ClusterConfig& config,
                                                           MetricRegistry& registry, uint32_t rank,
                                                           const Checkpoint* resumed,
                                                           const std::string& update,
                                                           std::shared_ptr<HostedNetwork> hosted) {
  SIMURGH_RETURN_IF_ERROR(CheckModel(config, hosted != nullptr));
  std::unique_ptr<TrainingJob> job(new TrainingJob(config, registry, rank));
  if (resumed == nullptr) {
    SIMURGH_RETURN_IF_ERROR(
        FitStatistics(job->config_.data, job->config_.features, &job->identities_));
  } else {
    SIMURGH_RETURN_IF_ERROR(
        ApplyStatistics(resumed->manifest.statistics, job->config_.data, job->config_.features));
    SIMURGH_ASSIGN_OR_RETURN(job->start_,
                             ReadState(resumed->manifest, LabelColumns(config.data).size()));
  }
  job->scales_ = {.labels = LabelScalesOf(job->config_.data),
                  .mean_weight = MeanWeightOf(job->config_.data)};
  if (!update.empty()) {
    SIMURGH_RETURN_IF_ERROR(BeginUpdate(resumed->manifest, update, job->start_));
    job->tests_first_ = job->start_.files.empty();
    if (!job->tests_first_) job->config_.data.test.clear();
    job->config_.training.drop_last = false;  // A day may have less than a batch.
    job->config_.data.shuffle = 0;            // The newest rows are the last ones.
  }
  job->report_.course().StartAfter(job->start_.epochs);
  job->start_.position = job->start_.position.ContinueWith(job->TrainDivision());
  job->start_.position.SetWindow(job->config_.data.shuffle);
  if (hosted != nullptr) {
    job->hosted_ = std::move(hosted);
    job->network_ = job->hosted_;
    if (resumed != nullptr) {
      SIMURGH_ASSIGN_OR_RETURN(ProgramState state, ReadProgram(*resumed));
      job->hosted_->StartFrom(std::move(state));
    }
    return job;
  }
  SIMURGH_ASSIGN_OR_RETURN(
      job->network_,
      CreateNetwork(config.model, {.inputs = InputsOf(config),
                                   .threads = config.nn_worker.threads,
                                   .seed = config.seed,
                                   // In mode async, the servers have the optimizer.
                                   .optimizer = config.training.mode == TrainingConfig::Mode::kAsync
                                                    ? DenseOptimizerConfig()
                                                    : config.training.dense_optimizer,
                                   .device = config.nn_worker.device,
                                   .precision = config.nn_worker.precision,
                                   .cuda_device = DeviceOf(config.nn_worker, rank),
                                   .batch_rows = config.training.batch_size,
                                   .batch_row_bytes = config.nn_worker.batch_row_bytes,
                                   .wire = WireOf(config)}));
  if (resumed == nullptr && !config.model.initial_weights.empty()) {
    SIMURGH_RETURN_IF_ERROR(SetInitialWeights(job->config_, *job->network_));
  } else if (resumed == nullptr && !config.checkpoint.start_from.empty()) {
    SIMURGH_RETURN_IF_ERROR(
        Annotate(SetStartWeights(job->config_, *job->network_), "checkpoint.start_from"));
  }
  if (resumed != nullptr) {
    const TrainingConfig& training = config.training;
    const bool on_servers = training.mode == TrainingConfig::Mode::kAsync;
    SIMURGH_ASSIGN_OR_RETURN(
        job->start_.server_optimizer,
        RestoreDense(*resumed, rank, static_cast<uint32_t>(config.nn_worker.instances.size()),
                     *job->network_, on_servers ? &training.dense_optimizer : nullptr));
  }
  // Before ranks wait for each other.
  SIMURGH_RETURN_IF_ERROR(job->LoadRanking());
  return job;
}

StatusOr<std::vector<Calibration>> TrainingJob::Restore(uint64_t step) {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                           ModelDirectory(config_.checkpoint.directory).Open(step));
  if (hosted_ != nullptr) {
    SIMURGH_ASSIGN_OR_RETURN(const ProgramState state, ReadProgram(checkpoint));
    SIMURGH_RETURN_IF_ERROR(hosted_->RestoreProgram(state));
    return ReadCalibrations(checkpoint.manifest, LabelColumns(config_.data).size());
  }
  SIMURGH_RETURN_IF_ERROR(RestoreDense(checkpoint, rank_,
                                       static_cast<uint32_t>(config_.nn_worker.instances.size()),
                                       *network_, nullptr)
                              .status());
  return ReadCalibrations(checkpoint.manifest, LabelColumns(config_.data).size());
}

Division TrainingJob::TrainDivision() const {
  const auto ranks = static_cast<uint32_t>(config_.nn_worker.instances.size());
  const auto loaders = static_cast<uint32_t>(config_.loaders.instances.size());
  return {.batch_size = config_.training.batch_size,
          .piece_batches = loaders > 0 ? ranks : 1,
          .shares = loaders > 0 ? loaders : ranks};
}

Status TrainingJob::CheckFiles() {
  if (start_.steps > 0) {
    const RowNumber first = start_.position.first();
    spdlog::info("reading continues: epoch={} row={} ranks={} global_batch={}", first.epoch + 1,
                 first.row, config_.nn_worker.instances.size(),
                 config_.training.batch_size * config_.nn_worker.instances.size());
  }
  StatusOr<std::vector<DataFile>> files = IdentifyFiles(config_.data.train);
  if (!files.ok() && !config_.loaders.instances.empty()) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(files.status());
  const Status same = CheckReadFiles(start_.files, *files);
  // Other ranks can have copies of the files that rank 0 has noted.
  const std::string touched = rank_ == 0 ? TouchedFiles(start_.files, *files) : "";
  if (same.ok() && !touched.empty()) spdlog::warn("{}", touched);
  if (!same.ok()) start_.position.ForgetPlaces();
  has_new_files_ = *files != start_.files;
  start_.files = *std::move(files);
  if (same.ok()) return same;
  if (config_.data.on_change == DataConfig::OnChange::kFail) {
    return Annotate(same, "the model does not continue with these data");
  }
  spdlog::warn("{}", std::string(same.message()));
  return absl::OkStatus();
}

bool TrainingJob::IsComplete() const {
  const TrainingConfig& training = config_.training;
  if (start_.steps == 0 || !config_.loaders.instances.empty() || config_.data.streams()) {
    return false;
  }
  return start_.stopped_early || (training.max_steps > 0 && start_.steps >= training.max_steps) ||
         (start_.epochs >= training.epoch_limit() && !has_new_files_);
}

namespace {

// Checks a plug-in without loading it: a program that only checks its configuration must not run
// code.
Status CheckPluginFile(const std::string& where, const PluginConfig& plugin) {
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  if (plugin.path.empty()) return absl::OkStatus();
  std::string head(kElf.size(), '\0');
  std::ifstream(plugin.path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  if (head == kElf) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ".plugin.path: '", plugin.path,
                   "' is not a shared object; give the file that the compiler made with -shared"));
}

}  // namespace

Status TrainingJob::CheckModel(const ClusterConfig& config, bool is_hosted) {
  const size_t given = CalibrationConfig::Of(config.settings).given.size();
  if (given > 0 && given != config.model.tasks.size()) {
    return absl::InvalidArgumentError(absl::StrCat("training.calibration: numbers of ", given,
                                                   " labels for ", config.model.tasks.size(),
                                                   " labels; write those of each"));
  }
  for (const FeatureConfig& feature : config.features) {
    SIMURGH_RETURN_IF_ERROR(CheckPluginFile(feature.key, feature.processing.plugin));
  }
  for (size_t i = 0; i < config.data.derived.size(); ++i) {
    SIMURGH_RETURN_IF_ERROR(
        CheckPluginFile(absl::StrCat("data.derived.", i), config.data.derived[i].plugin));
  }
  if (config.model.is_hosted() != is_hosted) {
    return absl::InvalidArgumentError(
        is_hosted
            ? "model: the configuration has a network, and so has the program; remove `model`, or "
              "run simurgh train without a program"
            : "model: missing; set model: deepfm, wide_deep, dlrm or dcn_v2, or run a program "
              "that has the network: simurgh train CONFIG -- python3 train.py");
  }
  if (!is_hosted) return simurgh::CheckModel(config.model, InputsOf(config));
  if (config.training.mode == TrainingConfig::Mode::kAsync) {
    return absl::InvalidArgumentError(
        "training.mode: async keeps the dense weights on servers, and a program keeps its own; set "
        "hybrid, sync or naive_hybrid");
  }
  return absl::OkStatus();
}

Status TrainingJob::DrawNegatives(uint32_t ranks, TrainerData& data) const {
  const uint32_t count = config_.model.tasks.front().loss.uniform_negatives;
  if (count == 0) return absl::OkStatus();
  const std::vector<std::string>& files = config_.data.items.files;
  SIMURGH_RETURN_IF_ERROR(ReadItemIds(config_).status());  // Each item has one row.
  SIMURGH_ASSIGN_OR_RETURN(const DataConfig format,
                           DataOfTower(config_, config_.data, TowerSide::kItem, {}, files));
  SIMURGH_ASSIGN_OR_RETURN(ItemPool read, ItemPool::Read(format, config_.features, files));
  const auto pool = std::make_shared<ItemPool>(std::move(read));
  data.uniform_negatives = count;
  data.items = pool->size();
  data.add_negatives = [pool, count, ranks, this](uint64_t step, Batch& batch) {
    std::vector<size_t> items;
    for (uint64_t n = rank_; n < count; n += ranks) {
      items.push_back(pool->Draw(config_.seed, step, n));
    }
    return pool->AddTo(batch, items);
  };
  return absl::OkStatus();
}

StatusOr<TrainResult> TrainingJob::Run(EmbeddingPort& port, DensePort* dense, uint64_t run,
                                       Collective& collective, std::stop_token stop) {
  OpenEpoch train;
  if (buffer_ == nullptr) {
    train = [this](uint32_t epoch) -> StatusOr<std::unique_ptr<BatchReader>> {
      const ReadOptions options{.keep_negatives = config_.training.keep_negatives,
                                .seed = config_.seed,
                                .read = &start_.position,
                                .epoch = epoch};
      auto reader = ReaderOf(config_.data.train, options, skipped_train_rows_, &labels_)();
      if (!reader.ok() || config_.data.replay.empty()) return reader;
      return WithReplay(*std::move(reader), epoch);
    };
  } else {
    train = [this](uint32_t) -> StatusOr<std::unique_ptr<BatchReader>> {
      return NewJobReader(NewLoaderReader(*buffer_), masks_, skipped_train_rows_, &labels_,
                          &scales_);
    };
  }
  TrainerData data{.train = std::move(train),
                   .embeddings = EmbeddingCheck(InputsOf(config_).features, WireOf(config_)),
                   .dense_width = InputsOf(config_).dense_width,
                   .tasks = config_.model.tasks,
                   .scales = scales_.labels,
                   .is_weighted = InputsOf(config_).has_sample_weights,
                   .group_feature = GroupFeature(config_),
                   .calibration = CalibrationConfig::Of(config_.settings),
                   .async_staleness = AsyncStaleness(config_),
                   .start = start_,
                   .checkpoints = checkpoints_,
                   .restore = [this](uint64_t step) { return Restore(step); },
                   .interrupt = &interrupted_,
                   .reads_in_step = config_.reads_in_step()};
  if (hosted_ == nullptr && IsInBatch(config_.model)) {
    SIMURGH_ASSIGN_OR_RETURN(data.two_towers, ColumnsOfTwoTowers(config_.model, InputsOf(config_)));
    const Status drawn = DrawNegatives(collective.ranks(), data);
    if (!drawn.ok()) {
      collective.Abort(drawn);
      return drawn;
    }
  }
  if (!config_.data.validation.empty()) {
    data.validation = ReaderOf(config_.data.validation, {}, skipped_validation_rows_);
  }
  if (!config_.data.test.empty()) data.test = ReaderOf(config_.data.test, {}, skipped_test_rows_);
  if (tests_first_) data.on_first_test = [this](const auto& result) { tested_ = result; };
  TrainingConfig training = config_.training;
  if (buffer_ != nullptr) {
    training.epochs = start_.position.first().epoch + 1;  // One reader has all batches.
    training.drop_last = false;
  }
  JoinedDevices devices(*network_);
  if (hosted_ == nullptr && training.mode != TrainingConfig::Mode::kAsync) {
    const Status joined = devices.Join(config_, collective);
    if (!joined.ok()) {
      collective.Abort(joined);
      return joined;
    }
  }
  if (hosted_ != nullptr) hosted_->Join(collective);
  if (ranking_) {
    data.evaluate = [&](const StepId& step_id, EvaluationSet set, const EvaluationOptions& options,
                        const std::stop_token& ends) {
      return ranking_->Evaluate(port, *network_, collective, step_id, set, options, ends);
    };
  }
  Trainer trainer(training, run, port, *network_, collective, std::move(data), report_, dense);
  StatusOr<TrainResult> result = trainer.Run(std::move(stop));
  if (result.ok() || buffer_ == nullptr || !buffer_->ended_empty()) return result;
  return Annotate(result.status(), "all loaders ended without a batch");
}

Status TrainingJob::Predict(EmbeddingPort& port, uint64_t run, uint64_t steps,
                            const std::vector<Calibration>& calibrations,
                            const std::vector<std::string>& files, ReadOptions reading,
                            PredictionSink sink) {
  const OpenReader open = [&]() -> StatusOr<std::unique_ptr<BatchReader>> {
    SIMURGH_ASSIGN_OR_RETURN(auto reader, OpenBatchReader(config_.data, config_.features, files,
                                                          config_.training.batch_size, reading));
    return NewJobReader(std::move(reader), masks_, skipped_test_rows_, nullptr);
  };
  const EvaluationOptions options{
      .tasks = config_.model.tasks,
      .is_weighted = InputsOf(config_).has_sample_weights,
      .kept_negatives = config_.training.keep_negatives,
      .calibrations = calibrations,
      .scales = scales_.labels,
      .embeddings = EmbeddingCheck(InputsOf(config_).features, WireOf(config_)),
      .retry_deadline = config_.training.retry_deadline,
      .sink = std::move(sink)};
  const std::unique_ptr<Collective> alone = NewLocalCollective();
  const StepId step_id{.run = run, .rank = rank_, .step = steps};
  return simurgh::Predict(port, *network_, *alone, step_id, open, options, {});
}

std::string TrainingJob::Plan() {
  // The hash leaves out the running statistics, which each rank may have for itself.
  return absl::StrCat(TrainingAgreement(config_), "first step = ", start_.steps,
                      "\ninitial dense weights = XXH3 ",
                      absl::Hex(HashFloats(network_->parameters(), 0), absl::kZeroPad16), "\n");
}

uint64_t TrainingJob::NetworkDigest() {
  return HashFloats(network_->state(), HashFloats(network_->parameters(), 0));
}

}  // namespace simurgh
