// simurgh-feed: reads its share of the training data and submits it to the nn-workers.

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "config/cluster_config.h"
#include "data/reading/bad_row_file.h"
#include "data/reading/batch_reader.h"
#include "kafka/kafka_stream.h"
#include "services/loader_client/loader_client.h"
#include "services/runtime/daemon.h"
#include "services/runtime/peer_monitor.h"
#include "services/runtime/rpc_setup.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

const CounterFamily kBatchesTotal("simurgh_loader_batches_total",
                                  "Batches submitted to the nn-worker.");
const CounterFamily kSamplesTotal("simurgh_loader_samples_total",
                                  "Samples submitted to the nn-worker.");
const CounterFamily kSkippedRowsTotal("simurgh_loader_skipped_rows_total",
                                      "Bad rows of the share that were skipped, in all readings.");

// Logs the progress at an interval.
class Progress {
 public:
  explicit Progress(std::chrono::milliseconds interval) : interval_(interval) {}

  void Show(uint32_t epoch, uint32_t epochs, uint64_t batches, uint64_t samples) {
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < interval_) return;
    const double seconds = std::chrono::duration<double>(now - shown_).count();
    spdlog::info("progress: epoch={} epochs={} batches={} samples={} samples_per_s={:.0f}", epoch,
                 epochs, batches, samples, static_cast<double>(samples - samples_) / seconds);
    shown_ = now;
    samples_ = samples;
  }

 private:
  const std::chrono::milliseconds interval_;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
  uint64_t samples_ = 0;
};

class Feeder : public Daemon {
 public:
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context) {
    std::unique_ptr<Feeder> feeder(new Feeder(context));
    const Status fitted = SetLoaderStatistics(feeder->config_, &feeder->identities_);
    if (!fitted.ok()) {
      return Abandon(fitted, [&] {
        return LoaderClient::AbandonUnopened(context.config(), context.index(), fitted,
                                             context.stop_source().get_token());
      });
    }
    feeder->monitor_ = std::make_unique<PeerMonitor>(
        context, PeerMonitor::PeersOf(context, "nn-worker", context.config().nn_worker.instances,
                                      /*must_be_ready=*/false));
    context.SetReady();
    return std::move(feeder);
  }

  Status Run(std::stop_token stop) override {
    Status status = monitor_->Await(stop);
    if (status.ok()) status = FeedShare(stop);
    if (stop.stop_requested()) {
      spdlog::info(
          "stopped before the end of the share: batches={}; restart this loader within "
          "loaders.timeout to resume",
          batches_.value());
      return absl::OkStatus();
    }
    return status;
  }

  // Returns kStartAgain if the nn-workers were lost: they then need all batches since their
  // checkpoint.
  ExitCode CodeOf(const Status& failure) const override {
    const bool lost = absl::IsUnavailable(failure) || absl::IsDeadlineExceeded(failure) ||
                      absl::IsAborted(failure) || absl::IsFailedPrecondition(failure);
    return config_.recovers() && lost ? ExitCode::kStartAgain : ExitCode::kRuntimeFailure;
  }

  void Drain(std::chrono::steady_clock::time_point) override {}

 private:
  explicit Feeder(DaemonContext& context)
      : context_(context),
        parsed_(context.config()),
        config_(context.config()),
        index_(context.index()),
        identities_(config_.data.on_change),
        bad_rows_(config_.checkpoint, absl::StrCat("-loader-", index_)),
        batches_(context.metrics().Get(kBatchesTotal)),
        samples_(context.metrics().Get(kSamplesTotal)),
        skipped_rows_(context.metrics().Get(kSkippedRowsTotal)),
        progress_(config_.training.progress_interval),
        observer_(context.metrics(), RpcSide::kClient) {}

  Status FeedShare(const std::stop_token& stop);
  // Reports to the trainer why the share cannot be fed. Returns `reason`.
  static Status Abandon(const Status& reason, const std::function<Status()>& report);
  static Status Abandon(const Status& reason, LoaderClient& client) {
    return Abandon(reason, [&] { return client.Abandon(reason); });
  }
  // Returns one batch for each rank; fewer at the end, or none with drop_last. The batches are idle
  // if a stream has no records for a step yet.
  StatusOr<std::vector<Batch>> ReadStep(BatchReader& reader);
  StatusOr<std::unique_ptr<BatchReader>> OpenEpoch(uint32_t epoch, const DataPosition& begin);
  // Returns false if the trainer needs no more batches.
  StatusOr<bool> FeedEpoch(uint32_t epoch, const DataPosition& begin, LoaderClient& client,
                           const std::stop_token& stop);

  DaemonContext& context_;
  const ClusterConfig& parsed_;  // Peers compare its settings.
  ClusterConfig config_;         // `parsed_` with fitted statistics.
  const uint32_t index_;
  FileIdentities identities_;
  BadRowFile bad_rows_;
  Counter& batches_;
  Counter& samples_;
  Counter& skipped_rows_;
  Progress progress_;
  RpcMetrics observer_;
  std::unique_ptr<PeerMonitor> monitor_;
  std::unique_ptr<RecordStream> stream_;  // Null: reads files.
  std::vector<Batch> step_;               // The incomplete step of an idle stream.
  uint64_t number_ = 0;                   // Number of the next batch of the share.
};

Status Feeder::FeedShare(const std::stop_token& stop) {
  SIMURGH_ASSIGN_OR_RETURN(const auto client, LoaderClient::Open(parsed_,
                                                                 {.loader = index_,
                                                                  .input = InputAgreement(config_),
                                                                  .stream = config_.data.streams(),
                                                                  .observer = &observer_},
                                                                 stop));
  if (client->taken() > 0) {
    spdlog::info("resuming the share: taken_batches={}", client->taken());
  }
  const DataPosition& begin = client->begin();
  if (begin.division().shares != config_.loaders.instances.size()) {
    return absl::InternalError(absl::StrCat("the trainer's position has ", begin.division().shares,
                                            " shares, expected one for each loader"));
  }
  if (config_.data.streams()) number_ = client->taken();
  bool wanted = true;
  const uint32_t first = begin.next(index_).epoch;
  const uint32_t epochs = config_.data.streams() ? 1 : config_.training.epoch_limit();
  for (uint32_t epoch = first; wanted && epoch < epochs; ++epoch) {
    const uint64_t before = number_;
    SIMURGH_ASSIGN_OR_RETURN(wanted, FeedEpoch(epoch, begin, *client, stop));
    if (number_ == before && epoch > first) break;  // Further epochs are empty, too.
  }
  if (number_ == 0 && begin.next(index_) == RowNumber() && !config_.data.streams()) {
    spdlog::warn(
        "this share has no batch. data.train may have too few rows for loaders.instances and "
        "training.batch_size; training.drop_last drops partial batches. data.on_bad_row or "
        "training.keep_negatives may leave none; check data.train");
  }
  const Status ended = client->End(skipped_rows_.value());
  if (absl::IsInvalidArgument(ended)) return Abandon(ended, *client);  // A batch was refused.
  SIMURGH_RETURN_IF_ERROR(ended);
  spdlog::info("{}: batches={} samples={} bad_rows={}",
               wanted ? "share fed" : "share fed until the trainer had enough", batches_.value(),
               samples_.value(), skipped_rows_.value());
  return absl::OkStatus();
}

Status Feeder::Abandon(const Status& reason, const std::function<Status()>& report) {
  spdlog::warn("cannot feed the share, reporting to the trainer: {}",
               std::string(reason.message()));
  const Status reported = report();
  if (!reported.ok()) {
    spdlog::warn("could not report to the trainer: {}", std::string(reported.message()));
  }
  return reason;
}

StatusOr<std::vector<Batch>> Feeder::ReadStep(BatchReader& reader) {
  const TrainingConfig& training = config_.training;
  const size_t ranks = config_.nn_worker.instances.size();
  std::vector<Batch> step = std::exchange(step_, {});
  while (step.size() < ranks) {
    const uint64_t skipped_before = reader.skipped_rows();
    StatusOr<std::optional<Batch>> read;
    {
      const TimelineSpan span("read", batches_.value() + step.size());
      read = reader.Next();
    }
    skipped_rows_.Add(reader.skipped_rows() - skipped_before);
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, std::move(read));
    if (batch && batch->idle) {
      if (!step.empty()) batch->progress.offsets.clear();  // The step's batches wait.
      step_ = std::exchange(step, std::vector<Batch>(ranks, *batch));
      return step;
    }
    const bool is_full = batch && batch->size() == training.batch_size;
    if (training.drop_last && !is_full) return std::vector<Batch>();
    if (!batch) break;
    step.push_back(*std::move(batch));
  }
  return step;
}

StatusOr<std::unique_ptr<BatchReader>> Feeder::OpenEpoch(uint32_t epoch,
                                                         const DataPosition& begin) {
  const TrainingConfig& training = config_.training;
  const auto loaders = static_cast<uint32_t>(config_.loaders.instances.size());
  ReadOptions options{
      .keep_negatives = training.keep_negatives, .seed = config_.seed, .bad_rows = &bad_rows_};
  if (config_.data.streams()) {
    const auto on_state = [this](const Status& state) { context_.SetWaiting("kafka", state); };
    SIMURGH_ASSIGN_OR_RETURN(
        stream_,
        OpenKafkaStream(
            config_.data.kafka,
            {.share = index_, .shares = loaders, .begin = begin.offsets(), .on_state = on_state},
            context_.metrics()));
    return OpenStreamReader(config_.data, config_.features, *stream_, begin.offsets(),
                            training.batch_size, options);
  }
  options.share = index_;
  options.shares = loaders;
  options.piece_batches = static_cast<uint32_t>(config_.nn_worker.instances.size());
  options.read = &begin;
  options.epoch = epoch;
  options.identities = &identities_;
  options.threads = ReadingThreads(config_.data);
  return OpenBatchReader(config_.data, config_.features, config_.data.train, training.batch_size,
                         options);
}

StatusOr<bool> Feeder::FeedEpoch(uint32_t epoch, const DataPosition& begin, LoaderClient& client,
                                 const std::stop_token& stop) {
  const TrainingConfig& training = config_.training;
  const auto reader = OpenEpoch(epoch, begin);
  if (!reader.ok()) return Abandon(reader.status(), client);
  const std::stop_callback stopper(stop, [&] {
    (*reader)->Stop();  // Ends a long skip.
    if (stream_ != nullptr) stream_->Stop();
  });
  while (!stop.stop_requested()) {
    StatusOr<std::vector<Batch>> step = ReadStep(**reader);
    if (absl::IsCancelled(step.status())) break;
    if (!step.ok()) return Abandon(step.status(), client);
    if (step->empty()) return true;
    for (Batch& batch : *step) {
      if (client.HasTaken(number_++)) continue;
      const size_t samples = batch.size();
      const bool idle = batch.idle;
      const StatusOr<bool> wanted = client.Feed(std::move(batch), skipped_rows_.value());
      if (absl::IsInvalidArgument(wanted.status())) return Abandon(wanted.status(), client);
      if (!wanted.ok() || !*wanted) return wanted;
      if (idle) continue;
      batches_.Add();
      samples_.Add(samples);
    }
    progress_.Show(epoch + 1, training.epochs, batches_.value(), samples_.value());
  }
  return absl::CancelledError("stopped");
}

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  const simurgh::DaemonDescription description{
      .role = "loader",
      .usage = {.program = "simurgh-feed",
                .summary =
                    "Loader of a Simurgh cluster. Reads one share of the training data for the "
                    "nn-workers and submits its batches to them in turn. Start one process for "
                    "each entry of loaders.instances; together they feed every row once an epoch. "
                    "Loaders may start before the nn-workers and wait for "
                    "them. A restarted loader resumes."},
      .instances_key = "loaders.instances",
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.loaders.instances;
      },
      .input_files = simurgh::InputFiles::kCheck};
  return simurgh::RunDaemon(description, argc, argv, simurgh::Feeder::Start);
}
