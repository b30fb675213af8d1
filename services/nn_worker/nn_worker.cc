#include "services/nn_worker/nn_worker.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/log.h"
#include "base/step_id.h"
#include "config/uri.h"
#include "data/guess/label_texts.h"
#include "services/nn_worker/checkpointer.h"
#include "services/nn_worker/loader_methods.h"
#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/model_saver.h"
#include "services/nn_worker/model_update.h"
#include "services/nn_worker/network_description.h"
#include "services/nn_worker/quality_warnings.h"
#include "services/nn_worker/remote_cluster.h"
#include "services/nn_worker/rendezvous.h"
#include "services/nn_worker/resume.h"
#include "services/nn_worker/training_end.h"
#include "services/nn_worker/training_job.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"
#include "services/runtime/log_limiter.h"
#include "services/runtime/peer_monitor.h"
#include "train/learning_rates.h"
#include "train/rank_monitor.h"

namespace simurgh {
namespace {

const GaugeFamily kCheckpointGeneration("simurgh_nn_checkpoint_generation",
                                        "Generation of new checkpoints.");

// Time that pending calls have after a stop before they are cancelled.
constexpr std::chrono::seconds kStopGrace{3};
// Time to tell the servers that the run has ended.
constexpr std::chrono::seconds kEndGrace{2};
// Time for loaders to submit their next batch and receive the result of the run.
constexpr std::chrono::seconds kLoaderGrace{2};

// Warns of keys of the configuration that a program's network does not use.
void WarnOfUnused(const ClusterConfig& config) {
  constexpr std::string_view kOptimizer = "training.dense_optimizer";
  const bool is_set = std::ranges::any_of(
      config.settings, [&](const auto& setting) { return setting.first.starts_with(kOptimizer); });
  if (is_set) spdlog::warn("{} has no effect: the program has its own optimizer", kOptimizer);
}

class NnWorker : public Daemon {
 public:
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context, NnWorkerOptions options) {
    const std::string& resume = options.resume;
    const std::string& update = options.update;
    std::unique_ptr<NnWorker> daemon(new NnWorker(context, options));
    daemon->takes_newest_ = resume == "auto";
    if (update.empty()) {
      SIMURGH_ASSIGN_OR_RETURN(daemon->resumed_, FindResumePoint(context.config(), resume));
    } else {
      SIMURGH_ASSIGN_OR_RETURN(daemon->resumed_,
                               FindUpdatePoint(context.config(), update, &daemon->takes_newest_));
      SIMURGH_RETURN_IF_ERROR(daemon->BeginUpdate(update));
    }
    if (options.hosted != nullptr) WarnOfUnused(context.config());
    const Checkpoint* resumed = daemon->resumed_ ? &daemon->resumed_->checkpoint : nullptr;
    SIMURGH_ASSIGN_OR_RETURN(
        daemon->job_, TrainingJob::Create(context.config(), context.metrics(), context.index(),
                                          resumed, update, options.hosted));
    if (resumed != nullptr || !context.config().checkpoint.directory.empty()) {
      SIMURGH_RETURN_IF_ERROR(daemon->job_->CheckFiles());
    }
    if (context.config().nn_worker.instances.size() > 1) {
      if (options.standalone) {
        return absl::InvalidArgumentError(
            absl::StrCat("--standalone supports one nn-worker; nn_worker.instances lists ",
                         context.config().nn_worker.instances.size(),
                         "; keep one, or start all daemons without --standalone"));
      }
    }
    daemon->CreateCheckpointer(context);
    SIMURGH_RETURN_IF_ERROR(daemon->Listen(context, options.standalone));
    if (options.standalone) {
      SIMURGH_ASSIGN_OR_RETURN(
          daemon->cluster_,
          LocalCluster::Create(context.config(), context.metrics(), daemon->learning_rates_));
    } else {
      daemon->cluster_ = std::make_unique<RemoteCluster>(context, daemon->learning_rates_);
      daemon->monitor_ = std::make_unique<PeerMonitor>(context, PeersOf(context));
    }
    if (!context.config().checkpoint.directory.empty() && context.index() == 0) {
      const bool continues = daemon->Continues(context.config().checkpoint.directory);
      SIMURGH_ASSIGN_OR_RETURN(
          daemon->saver_,
          ModelSaver::Open(context.config(), continues ? resumed : nullptr, daemon->takes_newest_,
                           daemon->run_, daemon->best_, SaverEnvironment(), !update.empty()));
      daemon->run_ = daemon->saver_->run();
      context.metrics()
          .Get(kCheckpointGeneration)
          .Set(static_cast<double>(daemon->saver_->generation()));
      daemon->token_link_.emplace(context.config());
    }
    SIMURGH_RETURN_IF_ERROR(daemon->OpenHistory());
    context.SetReload([daemon = daemon.get()](const ClusterConfig& config) {
      return daemon->learning_rates_.Change(config.tables);
    });
    context.SetReady();
    return std::move(daemon);
  }

  Status Run(std::stop_token stop) override {
    Status status = TrainAndSave(stop);
    if (update_) status = WithRemedy(job_->config().data, status);
    MayStartAgain(status) ? end_.Leave() : end_.Tell(status);
    return status;
  }

  // Returns kStartAgain if a start may continue from the last checkpoint: a lost process may be
  // back by then.
  ExitCode CodeOf(const Status& failure) const override {
    // The new rows of the update are bad: no step has been made.
    if (update_ && absl::IsInvalidArgument(failure)) return ExitCode::kBadConfiguration;
    return MayStartAgain(failure) ? ExitCode::kStartAgain : ExitCode::kRuntimeFailure;
  }

  void Drain(std::chrono::steady_clock::time_point deadline) override {
    if (listener_ != nullptr) listener_->Drain(deadline);
  }

  ~NnWorker() override {
    if (listener_ != nullptr) listener_->Close();
  }

 private:
  NnWorker(DaemonContext& context, const NnWorkerOptions& options)
      : context_(context),
        on_result_(options.on_result),
        fails_if_stopped_(options.fails_if_stopped),
        run_(RunNumber(/*generation=*/0, context.hello().incarnation)),
        rank_(context.index()),
        learning_rates_(context.config().tables),
        end_(context.stop_source(),
             [this] { return trains_ ? absl::OkStatus() : context_.waiting(); }),
        best_(context.config().checkpoint) {}

  Status TrainAndSave(const std::stop_token& stop) {
    // With a folder for the model, a stop ends training after a step and saves.
    std::stop_source cancel;
    const std::stop_callback stopper(stop, [&] {
      if (saves_model() && trains_) {
        job_->Interrupt();
      } else {
        cancel.request_stop();
      }
    });
    const std::stop_callback canceller(cancel.get_token(), [this] {
      cluster_->StopAfter(kStopGrace);
      if (checkpointer_ != nullptr) checkpointer_->Stop();
    });
    StatusOr<TrainResult> result = Train(cancel.get_token());
    if (is_complete() && joined_.run == 0 && MayBeAlone(result.status())) return ReportComplete();
    if (monitor_ != nullptr) monitor_->Stop();  // Other ranks may end now.
    if (fed_ != nullptr) NotifyLoaders(result.status());
    const Status saved = SaveOrAwait(result, stop);
    if (!saved.ok()) result = Annotate(saved, "training has ended, and its model is not saved");
    collective_.reset();
    if (joined_.run != 0) cluster_->EndRun(joined_, kEndGrace);
    if (absl::IsCancelled(result.status()) && stop.stop_requested()) {
      spdlog::info("training was stopped before its end");
      return Stopped();
    }
    SIMURGH_RETURN_IF_ERROR(result.status());
    if (result->interrupted) {
      spdlog::info("training was stopped: steps={}; start it again to continue", result->steps);
      // Endless training only ends by a stop, and is reported then.
      if (job_->config().training.epochs > 0) return Stopped();
    }
    Report(*result);
    return absl::OkStatus();
  }

  // Returns the status of a run that a signal to any rank has stopped.
  Status Stopped() const {
    if (!fails_if_stopped_) return absl::OkStatus();
    return absl::AbortedError("training was stopped before its end; start it again to continue");
  }

  bool saves_model() const { return !job_->config().checkpoint.directory.empty(); }

  // Returns whether this start of one of several ranks has no rows to train on.
  bool is_complete() const {
    return ranks_ != nullptr && saves_model() && Continues(job_->config().checkpoint.directory) &&
           job_->IsComplete();
  }

  // Returns whether the other ranks may have ended before, with the complete model.
  static bool MayBeAlone(const Status& status) {
    return absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
           absl::IsUnavailable(status);
  }

  // Waits for the other daemons; for nn_worker.rank_timeout if the model is complete.
  Status AwaitPeers(const std::stop_token& stop) {
    if (!is_complete()) return monitor_->Await(stop);
    return monitor_->Await(
        stop, std::chrono::steady_clock::now() + job_->config().nn_worker.rank_timeout);
  }

  // Ends a start without rows to train on, after the other ranks have ended.
  Status ReportComplete() {
    const TrainState& start = job_->start();
    const std::string reason = NothingTrained(
        job_->config(), {.steps = start.steps, .stopped_early = start.stopped_early});
    spdlog::warn("{}", reason);
    const std::string tested = update_ ? absl::StrCat(update_->tested, " ") : "";
    if (rank_ == 0) {
      on_result_(absl::StrCat("warning: ", reason, "\n", tested, "trained_steps=0\n"));
    }
    return absl::OkStatus();
  }

  // Returns whether training continues a checkpoint of this folder, not of another one.
  bool Continues(const std::string& directory) const {
    if (!resumed_) return false;
    if (IsUri(directory)) return BucketPath(directory) == resumed_->model;
    std::error_code ignored;
    return std::filesystem::equivalent(directory, resumed_->model, ignored);
  }

  // Returns whether the failure is the loss of another process, which a new start recovers from.
  bool MayStartAgain(const Status& failure) const {
    return job_->config().recovers() &&
           (absl::IsUnavailable(failure) || absl::IsAborted(failure) ||
            absl::IsDeadlineExceeded(failure) ||
            (trains_ && absl::IsDataLoss(failure)));  // A server has lost rows.
  }

  void CreateCheckpointer(DaemonContext& context) {
    const CheckpointConfig& config = context.config().checkpoint;
    if (config.directory.empty() || rank_ > 0) return;
    const auto prepare = [this](const TrainState& state) {
      return SaveModel(CopyModel(state, std::nullopt, /*is_end=*/false), /*directory=*/"");
    };
    const auto load = [this](uint64_t step, const std::stop_token& stop) {
      return LoadBest(step, stop);
    };
    const auto on_saved = [this](const SavedCheckpoint& saved, double seconds) {
      if (history_ != nullptr) history_->Add(saved, seconds);
    };
    checkpointer_ =
        std::make_unique<Checkpointer>(config, best_, prepare, load, context.metrics(), on_saved);
    if (Continues(config.directory)) {
      const Manifest& manifest = resumed_->checkpoint.manifest;
      checkpointer_->SetNewest(manifest.step, static_cast<double>(manifest.step_time));
    }
  }

  // Listens for other ranks, loaders, `simurgh checkpoint` and other hosts' `simurgh train`.
  Status Listen(DaemonContext& context, bool standalone) {
    const bool has_ranks = context.config().nn_worker.instances.size() > 1;
    const bool is_fed = !context.config().loaders.instances.empty();
    const bool may_be_asked = rank_ == 0 && !standalone && !context.instance().address.empty();
    if (!has_ranks && !is_fed && !may_be_asked) return absl::OkStatus();
    listener_ = std::make_unique<Listener>(context);
    checkpoint_service_ = std::make_unique<CheckpointService>(checkpointer_.get());
    if (has_ranks) ranks_ = std::make_unique<Ranks>(context, job_->Plan(), listener_->thread());
    if (is_fed) {
      // Loaders share the capacity of a file reader's queue. With two batches of each loader, one
      // arrives while the other is taken.
      const ClusterConfig& config = job_->config();
      const size_t loaders = config.loaders.instances.size();
      fed_ = std::make_unique<LoaderBuffer>(
          loaders, std::max<size_t>(2, config.training.loader_queue_batches / loaders),
          config.loaders.feed_buffer_bytes, config.loaders.timeout, job_->start().position);
      feeding_ = std::make_unique<LoaderService>(config, context.index(), *fed_, context.metrics(),
                                                 listener_->thread().executor());
      job_->TakeFrom(*fed_);
      spdlog::info("waiting for loaders: loaders={}", loaders);
    }
    return listener_->Listen(context, [&](rpc::Server& server) {
      if (has_ranks) ranks_->Register(server);
      if (is_fed) feeding_->Register(server);
      if (rank_ > 0) return;
      checkpoint_service_->Register(server);
      end_.Register(server);
    });
  }

  // Sends the result of the run to loaders that still feed, unless they take too long.
  void NotifyLoaders(const Status& status) {
    if (status.ok()) {
      fed_->Finish();
    } else {
      fed_->Fail(std::string(status.message()));
    }
    fed_->AwaitNotifiedAll(std::chrono::steady_clock::now() + kLoaderGrace);
  }

  // Waits without limit until all loaders have connected. Later, loaders.timeout applies.
  Status AwaitLoaders(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kLook{200};
    LogLimiter log(/*lines=*/1, std::chrono::seconds(10));
    for (std::string missing; !(missing = fed_->AwaitOpen(kLook)).empty();) {
      if (stop.stop_requested()) return absl::CancelledError("stopped while waiting for loaders");
      const std::string reason = absl::StrCat("waiting for ", missing);
      context_.SetWaiting("loaders", absl::UnavailableError(reason));
      if (log.Admit(LogLimiter::Clock::now())) spdlog::warn("{}; start them", reason);
    }
    context_.SetWaiting("loaders", absl::OkStatus());
    return absl::OkStatus();
  }

  // Returns the processes to wait for. Embedding workers are ready once they have reached the
  // servers. Ranks wait for each other.
  static std::vector<PeerMonitor::Peer> PeersOf(const DaemonContext& context) {
    const ClusterConfig& config = context.config();
    std::vector<PeerMonitor::Peer> peers =
        PeerMonitor::PeersOf(context, "embedding-worker", config.embedding_worker.instances);
    const auto add = [&](std::vector<PeerMonitor::Peer> more) {
      std::ranges::move(more, std::back_inserter(peers));
    };
    if (config.training.mode == TrainingConfig::Mode::kAsync) {
      add(PeerMonitor::PeersOf(context, "embedding-ps", config.embedding_ps.instances));
    }
    add(PeerMonitor::PeersOf(context, "nn-worker", config.nn_worker.instances,
                             /*must_be_ready=*/false));
    return peers;
  }

  StatusOr<TrainResult> Train(const std::stop_token& stop) {
    if (monitor_ != nullptr) SIMURGH_RETURN_IF_ERROR(AwaitPeers(stop));
    if (fed_ != nullptr) SIMURGH_RETURN_IF_ERROR(AwaitLoaders(stop));
    JointRun joint{.collective = nullptr, .run = run_};
    if (ranks_ == nullptr) {
      joint.collective = NewLocalCollective();
    } else {
      SIMURGH_ASSIGN_OR_RETURN(joint, ranks_->Join(run_, stop));
    }
    joined_ = {.run = joint.run, .rank = rank_, .ranks = joint.collective->ranks()};
    if (saver_ != nullptr) {
      const auto probe = [&] { return saver_->Probe(SaveRowsFunction()); };
      SIMURGH_RETURN_IF_ERROR(
          AwaitRows("saving", job_->config().training.retry_deadline, probe, nullptr, stop)
              .status());
    }
    SIMURGH_RETURN_IF_ERROR(BeginRows(joint, stop));
    spdlog::info("training starts: run={:016x} rank={} step={}", joint.run, rank_,
                 job_->start().steps);
    trains_ = true;
    if (checkpointer_ != nullptr) job_->SaveWith(*checkpointer_);
    collective_ = std::move(joint.collective);
    return job_->Run(cluster_->batches(), cluster_->dense(), joint.run, *collective_, stop);
  }

  // Makes the servers begin the run with the rows of the checkpoint, if there is one, or with
  // initial rows. Rank 0 does that; the others wait.
  Status BeginRows(JointRun& joint, const std::stop_token& stop) {
    const ClusterConfig& config = job_->config();
    if (!resumed_ && config.checkpoint.directory.empty() && !HasInitialRows(config.tables) &&
        config.checkpoint.start_from.empty()) {
      return absl::OkStatus();
    }
    const std::stop_callback stopper(stop, [&joint] {
      joint.collective->Abort(absl::CancelledError("stopped while the servers load rows"));
    });
    if (rank_ == 0) {
      if (resumed_) {
        const Manifest& manifest = resumed_->checkpoint.manifest;
        spdlog::info("continuing: model={} step={} generation={}", resumed_->model, manifest.step,
                     manifest.generation);
      }
      const Status restored =
          resumed_ ? RestoreRows("loading", resumed_->model, job_->start().steps, stop)
                   : RestoreRows("preparing", "", job_->start().steps, stop);
      if (!restored.ok()) {
        const Status failure = resumed_ ? OnNotLoaded(restored) : restored;
        joint.collective->Abort(failure);
        return failure;
      }
    }
    // This channel has no timeout: loading may take long.
    std::vector<std::byte> all(joint.collective->ranks());
    return joint.collective->Gather(Channel::kLoading, std::array{std::byte()}, all);
  }

  // Marks a checkpoint that is damaged, so that the next start takes an older one.
  Status OnNotLoaded(const Status& status) {
    const Checkpoint& checkpoint = resumed_->checkpoint;
    const Status failure = Annotate(status, checkpoint.folder);
    if (!absl::IsDataLoss(status) || !takes_newest_) return failure;
    if (!ModelDirectory(resumed_->model).SetAside(checkpoint.manifest.step).ok()) return failure;
    return absl::AbortedError(
        absl::StrCat(failure.message(), "; renamed it to ", checkpoint.folder,
                     ".damaged, and the next start continues from the checkpoint before it"));
  }

  // Makes the servers begin the run with the rows of a checkpoint, or without rows. what: see
  // AwaitRows.
  Status RestoreRows(const char* what, const std::string& model, uint64_t step,
                     const std::stop_token& stop) {
    const RestoreRowsCall call{
        .run = joined_.run, .ranks = joined_.ranks, .model = model, .step = step, .load = loads_++};
    const auto restore = [&] { return cluster_->RestoreRows(call); };
    return AwaitRows(what, job_->config().training.retry_deadline, restore, nullptr, stop).status();
  }

  // Replaces the servers' rows by those of the best checkpoint.
  Status LoadBest(uint64_t step, const std::stop_token& stop) {
    const std::string& model = job_->config().checkpoint.directory;
    spdlog::info("the best evaluation was of an earlier step: step={}", step);
    return Annotate(RestoreRows("loading", model, step, stop),
                    absl::StrCat(model, "/step-", step,
                                 ": training has ended, its model is saved, and the best "
                                 "checkpoint cannot be tested"));
  }

  // Sets `update_` to the state of the update in the resumed checkpoint, or to a new update.
  Status BeginUpdate(const std::string& id) {
    const Manifest& manifest = resumed_->checkpoint.manifest;
    SIMURGH_ASSIGN_OR_RETURN(update_, ReadUpdate(manifest));
    const std::string& saved = manifest.extra.at("agreement");
    has_format_of_model_ = saved == ModelAgreement(context_.config(), saved);
    if (!update_) update_.emplace();
    if (update_->id == id) return absl::OkStatus();
    update_ = ModelUpdate{.id = id, .trained = TrainedFiles(*update_)};
    return absl::OkStatus();
  }

  // Returns the update after a state. is_end: all its rows have been trained on.
  std::optional<ModelUpdate> UpdateAt(const TrainState& state, bool is_end) {
    if (!update_) return std::nullopt;
    if (job_->tested()) {
      update_->tested =
          absl::StrCat(TestResult(*job_->tested(), LabelColumns(job_->config().data), "before"),
                       " new_rows=", job_->tested()->samples,
                       CalibrationText(*job_->tested(), state.calibrations));
    }
    update_->files = state.files;
    update_->paths = job_->config().data.train;
    update_->position = state.position;
    update_->is_done = is_end;
    return update_;
  }

  // Copies the model. is_end: training has read all rows.
  // Errors: of a program that cannot give its state.
  StatusOr<std::shared_ptr<const ModelCopy>> CopyModel(
      const TrainState& state, const std::optional<EvaluationResult>& evaluation, bool is_end) {
    const TrainingConfig& training = job_->config().training;
    const bool on_servers = training.mode == TrainingConfig::Mode::kAsync;
    // The model has the mean of the ranks' statistics, as for an evaluation.
    const std::span<float> statistics = job_->network().statistics();
    const std::vector<float> own(statistics.begin(), statistics.end());
    SetMeanStatistics(state, statistics);
    ModelCopy model{
        .state = state,
        .evaluation = evaluation,
        .dense = DenseCopy(job_->network(), on_servers ? &training.dense_optimizer : nullptr,
                           state.server_optimizer),
        .probe =
            has_format_of_model_ ? MakeProbe(*job_, cluster_->batches(), joined_.run, state) : "",
        .update = UpdateAt(state, is_end),
        .step_time =
            std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                .count()};
    std::ranges::copy(own, job_->network().statistics().begin());
    if (job_->hosted() != nullptr) {
      SIMURGH_ASSIGN_OR_RETURN(model.dense.program, job_->hosted()->Save());
    }
    return std::make_shared<const ModelCopy>(std::move(model));
  }

  // Returns the work of a save: writes a copy and the servers' rows. directory: replaces
  // checkpoint.directory unless empty.
  Checkpointer::Work SaveModel(StatusOr<std::shared_ptr<const ModelCopy>> copy,
                               const std::string& directory) {
    return [this, copy = std::move(copy), directory](
               const OnRows& on_rows, const std::stop_token& stop) -> StatusOr<SavedCheckpoint> {
      SIMURGH_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelCopy> model, copy);
      const auto save = [&]() -> StatusOr<SavedCheckpoint> {
        std::unique_ptr<ModelSaver> other;
        if (!directory.empty()) {
          SIMURGH_ASSIGN_OR_RETURN(other, saver_->To(directory));
        }
        ModelSaver& saver = other == nullptr ? *saver_ : *other;
        return saver.Save(*model, job_->config(), SaveRowsFunction(), on_rows, stop);
      };
      StatusOr<SavedCheckpoint> saved = save();
      if (saved.ok()) return saved;
      return Annotate(saved.status(),
                      absl::StrCat("the model of step ", model->state.steps, " is not saved"));
    };
  }

  // Saves the model of the end, unless it is saved.
  Status SaveLast(const StatusOr<TrainResult>& result, const std::stop_token& stop) {
    Status status;
    if (!result.ok()) {
      // The calls to the servers have ended, too.
      checkpointer_->Stop();
    } else if (result->steps > checkpointer_->newest() ||
               (update_ && !result->interrupted && !update_->is_done)) {
      std::function<Status()> keep_alive;
      if (listener_ != nullptr) {
        keep_alive = [this] {
          // The servers admit no other run.
          const Status probed = saver_->Probe(SaveRowsFunction()).status();
          return absl::IsDataLoss(probed) ? probed : saver_->CheckNewest();
        };
      }
      const auto model = CopyModel(result->state, result->evaluation, !result->interrupted);
      const auto work = [&](const std::string& directory) { return SaveModel(model, directory); };
      status = checkpointer_->SaveLast(work, keep_alive, stop);
    }
    checkpointer_->Refuse(absl::FailedPreconditionError(
        absl::StrCat("training has ended without a new checkpoint", result.ok() ? "" : ": ",
                     result.status().message())));
    return status;
  }

  // Saves the model of the end on rank 0. The other ranks wait for it. If rank 0 is lost meanwhile,
  // they end with an error as well, and all start again.
  Status SaveOrAwait(const StatusOr<TrainResult>& result, const std::stop_token& stop) {
    const bool saves = checkpointer_ != nullptr;
    const bool is_joint =
        result.ok() && !result->interrupted && collective_->ranks() > 1 && saves_model();
    if (!is_joint) return saves ? SaveLast(result, stop) : absl::OkStatus();
    const std::stop_callback leaver(stop, [&] {
      if (!saves) collective_->Abort(absl::AbortedError("stopped while rank 0 saved the model"));
    });
    RankHeartbeat heartbeat(*collective_, Channel::kSave, [] {});
    if (!saves) {
      spdlog::info("waiting until rank 0 has saved the model");
      const Status told = heartbeat.AwaitAll();
      if (stop.stop_requested())
        return absl::CancelledError("stopped while rank 0 saves the model");
      return told;
    }
    ranks_->BeginSave();
    const Status saved = SaveLast(result, stop);
    if (!saved.ok()) collective_->Abort(saved);
    const Status told = heartbeat.AwaitAll();
    ranks_->EndSave();
    // A rank that was lost finds the model when it starts again.
    if (saved.ok() && !told.ok()) {
      spdlog::warn("{}; the model is saved", std::string(told.message()));
    }
    return saved;
  }

  ModelSaver::SaveRows SaveRowsFunction() {
    return [this](const SaveRowsCall& call) { return cluster_->SaveRows(call); };
  }

  // Returns the warnings about the model that training ends with.
  std::vector<std::string> QualityWarnings(const TrainResult& result) {
    std::vector<std::string> warnings;
    if (update_ && job_->tested()) warnings = NewRowsWarnings(*job_->tested(), job_->config());
    if (result.evaluation) {
      warnings = LogLossWarnings(*result.evaluation, LabelColumns(job_->config().data));
      std::ranges::move(TestWarnings(*result.evaluation, job_->config()),
                        std::back_inserter(warnings));
    }
    std::string drift = job_->DriftAt(result.best_step.value_or(result.steps));
    if (!drift.empty()) warnings.push_back(std::move(drift));
    return warnings;
  }

  // Opens the history of training, if this rank writes it.
  Status OpenHistory() {
    const ClusterConfig& config = context_.config();
    const std::string& folder = config.checkpoint.directory;
    if (rank_ > 0 || (folder.empty() && config.training.tensorboard.empty())) {
      return absl::OkStatus();
    }
    const bool continues = folder.empty() ? resumed_.has_value() : Continues(folder);
    SIMURGH_ASSIGN_OR_RETURN(history_,
                             History::Open(config, continues ? job_->start().steps : 0,
                                           saver_ == nullptr ? 0 : saver_->generation(),
                                           [this](uint64_t step) { return RatesAt(step); }));
    job_->WriteTo(*history_);
    return absl::OkStatus();
  }

  // Returns the learning rates at a step, of the dense network and of each table.
  History::Rates RatesAt(uint64_t step) const {
    const ClusterConfig& config = context_.config();
    const DenseOptimizerConfig& dense = config.training.dense_optimizer;
    History::Rates rates{.dense = LearningRateAt(dense.learning_rate, dense.schedule, step)};
    const std::vector<float> of_tables = learning_rates_.At(step);
    for (size_t t = 0; t < of_tables.size(); ++t) {
      rates.tables.emplace_back(config.tables[t].name, of_tables[t]);
    }
    return rates;
  }

  void Report(const TrainResult& result) {
    if (history_ != nullptr) history_->Add(result, job_->config().training.max_steps);
    const std::string digest =  // The weights of a program's network are not here.
        job_->hosted() != nullptr ? ""
                                  : fmt::format(" network_digest={:016x}", job_->NetworkDigest());
    spdlog::info("trained: steps={} samples={} skipped_steps={} seconds={:.1f} bad_rows={}{}",
                 result.steps, result.samples, result.skipped_steps, result.seconds,
                 job_->skipped_rows(), digest);
    std::vector<std::string> warnings = job_->LabelWarnings();
    const bool is_one_class = !warnings.empty();
    if (!update_) {
      std::ranges::move(UnusedLabelTexts(job_->config().data), std::back_inserter(warnings));
    }
    const bool has_trained = result.steps > job_->start().steps;
    if (!has_trained && !update_) {
      warnings.push_back(NothingTrained(job_->config(), result));
      spdlog::warn("{}", warnings.back());
    }
    for (std::string& warning : QualityWarnings(result)) {
      spdlog::warn("{}", warning);
      warnings.push_back(std::move(warning));
    }
    std::string text;
    for (const std::string& warning : warnings) {
      absl::StrAppend(&text, "warning: ", warning, "\n");
    }
    const double samples_per_second =
        has_trained ? static_cast<double>(result.samples) / result.seconds : 0;
    if (result.evaluation) {
      absl::StrAppend(&text, TestResult(*result.evaluation, LabelColumns(job_->config().data)),
                      " ");
    }
    if (update_) absl::StrAppend(&text, update_->tested, " ");
    if (result.best_step) absl::StrAppend(&text, "best_step=", *result.best_step, " ");
    if (job_->config().training.epochs == 0 || job_->config().data.streams()) {
      absl::StrAppend(&text, WindowText(result.window), " ");
    }
    if (is_one_class) absl::StrAppend(&text, "train_labels=one_class ");
    if (update_ && job_->skipped_rows() > 0) {
      absl::StrAppend(&text, "bad_rows=", job_->skipped_rows(), " ");
    }
    if (!has_trained || update_) {
      absl::StrAppend(&text, "trained_steps=", result.steps - job_->start().steps, " ");
    }
    absl::StrAppendFormat(&text, "samples_per_sec=%.0f\n", samples_per_second);
    on_result_(text);
  }

  DaemonContext& context_;
  const std::function<void(const std::string& text)> on_result_;
  const bool fails_if_stopped_;
  uint64_t run_;  // Number of this start's run. All ranks use the one of rank 0.
  const uint32_t rank_;
  StepId joined_;       // The run, once all ranks have joined it.
  uint32_t loads_ = 0;  // Number of loads of rows in this run, one at a time.
  LearningRates learning_rates_;
  TrainingEnd end_;                     // Used on rank 0 only.
  std::optional<ResumePoint> resumed_;  // The model that this training continues.
  bool takes_newest_ = false;           // False: the user has named one, or it is the best one.
  std::optional<ModelUpdate> update_;   // Nothing: a training.
  bool has_format_of_model_ = true;     // False: the new rows have another format.
  std::unique_ptr<History> history_;    // Null: the model has no folder, or another rank writes it.
  std::unique_ptr<TrainingJob> job_;
  std::atomic<bool> trains_ = false;  // If set, a stop ends training after a step.
  BestCheckpoints best_;
  std::unique_ptr<ModelSaver> saver_;  // Null: nothing is saved, or another rank saves.
  std::optional<TokenLink> token_link_;
  std::unique_ptr<CheckpointService> checkpoint_service_;  // Null on ranks other than 0.
  std::unique_ptr<Ranks> ranks_;        // Null: there is one rank. Outlives listener_.
  std::unique_ptr<Listener> listener_;  // Null: there are no peers that connect.
  std::unique_ptr<LoaderBuffer> fed_;   // Null: the nn-worker reads the files.
  std::unique_ptr<LoaderService> feeding_;
  std::unique_ptr<Collective> collective_;  // Set from the first step until the model is saved.
  std::unique_ptr<ClusterPort> cluster_;
  std::unique_ptr<Checkpointer> checkpointer_;  // Null if saver_ is null.
  std::unique_ptr<PeerMonitor> monitor_;        // Null with --standalone.
};

}  // namespace

DaemonDescription DescribeNnWorker(bool is_hosted) {
  return {.role = "nn-worker",
          .usage = {.program = "nn-worker",
                    .summary =
                        "Trainer of a Simurgh cluster. Reads the data, computes the dense network, "
                        "exchanges ids, embeddings and gradients with the embedding workers, and "
                        "evaluates."},
          .instances_key = "nn_worker.instances",
          .instances = [](const ClusterConfig& config) -> const auto& {
            return config.nn_worker.instances;
          },
          .input_files = InputFiles::kCheck,
          .check =
              [is_hosted](const ClusterConfig& config) {
                const Status tables = ParameterServer::CheckConfig(config);
                return tables.ok() ? TrainingJob::CheckModel(config, is_hosted) : tables;
              }};
}

StatusOr<std::unique_ptr<Daemon>> StartNnWorker(DaemonContext& context, NnWorkerOptions options) {
  return NnWorker::Start(context, std::move(options));
}

}  // namespace simurgh
