// nn-worker: reads the data, computes the dense network, drives training.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/thread_pool.hpp>

#include "services/api/batch_client.h"
#include "services/api/dense_client.h"
#include "services/nn_worker/feed_methods.h"
#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/model_saver.h"
#include "services/nn_worker/probe.h"
#include "services/nn_worker/ranks.h"
#include "services/nn_worker/resume.h"
#include "services/nn_worker/training_job.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/listener.h"
#include "services/runtime/rpc_metrics.h"
#include "simurgh/base/log.h"
#include "simurgh/train/learning_rates.h"

namespace simurgh {
namespace {

// Time that pending calls have after a stop before they are cancelled.
constexpr std::chrono::seconds kStopGrace{3};
// Time to tell the servers that the run has ended.
constexpr std::chrono::seconds kEndGrace{2};
// Time for loaders to submit their next batch and receive the result of the run.
constexpr std::chrono::seconds kLoaderGrace{2};

// The cluster's embedding workers, reached over the network.
class RemoteCluster {
 public:
  RemoteCluster(DaemonContext& context, const LearningRates& rates)
      : observer_(context.metrics(), RpcSide::kClient),
        wire_(context.config()),
        thread_("rpc", context.config().rpc.spin) {
    const ClusterConfig& config = context.config();
    rpc::Hello hello = context.hello();
    hello.run = hello.incarnation;
    std::vector<std::unique_ptr<PeerClients>> workers;
    const std::vector<InstanceConfig>& peers = config.embedding_worker.instances;
    for (size_t i = 0; i < peers.size(); ++i) {
      workers.push_back(std::make_unique<PeerClients>(
          thread_.executor(), peers[i].address, hello,
          OptionsFor(context.rpc_options().client, "embedding-worker", peers, i), &observer_));
    }
    client_ =
        std::make_unique<BatchClient>(thread_.executor(), encoder_.get_executor(),
                                      std::move(workers), config.rpc.call_timeout, rates, wire_);
    if (config.training.mode != TrainingConfig::Mode::kAsync) return;
    std::vector<std::unique_ptr<DenseServer>> servers;
    for (size_t i = 0; i < config.embedding_ps.instances.size(); ++i) {
      auto client = std::make_unique<rpc::Client>(
          thread_.executor(), config.embedding_ps.instances[i].address, hello,
          OptionsFor(context.rpc_options().client, "embedding-ps", config.embedding_ps.instances,
                     i),
          &observer_);
      servers.push_back(
          std::make_unique<RemoteDenseServer>(absl::StrCat("embedding-ps ", i), std::move(client)));
    }
    dense_ = std::make_unique<DenseClient>(thread_.executor(), std::move(servers),
                                           config.rpc.call_timeout);
  }

  // The clients' executor thread destroys them.
  ~RemoteCluster() {
    thread_.RunAndWait([this] {
      client_.reset();
      dense_.reset();
    });
  }

  BatchClient& port() { return *client_; }
  // Null unless the mode is async.
  DensePort* dense() { return dense_.get(); }

 private:
  RpcMetrics observer_;
  VectorWire wire_;
  std::unique_ptr<BatchClient> client_;
  std::unique_ptr<DenseClient> dense_;
  IoThread thread_;
  rpc::asio::thread_pool encoder_{1};  // After thread_: it posts to it until destroyed.
};

class NnWorker : public Daemon {
 public:
  // trace_file: empty for no trace. resume: as for FindResumePoint.
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context, bool standalone,
                                                 const std::string& trace_file,
                                                 const std::string& resume) {
    std::unique_ptr<NnWorker> daemon(new NnWorker(context, trace_file));
    SIMURGH_RETURN_IF_ERROR(daemon->OpenTrace());
    SIMURGH_ASSIGN_OR_RETURN(daemon->resumed_, FindResumePoint(context.config(), resume));
    const Checkpoint* resumed = daemon->resumed_ ? &daemon->resumed_->checkpoint : nullptr;
    SIMURGH_ASSIGN_OR_RETURN(daemon->job_, TrainingJob::Create(context.config(), context.metrics(),
                                                               context.index(), resumed));
    if (resumed != nullptr || !context.config().checkpoint.directory.empty()) {
      SIMURGH_RETURN_IF_ERROR(daemon->job_->CheckFiles());
    }
    if (context.config().nn_worker.instances.size() > 1) {
      if (standalone) {
        return absl::InvalidArgumentError(
            absl::StrCat("--standalone supports one nn-worker; nn_worker.instances lists ",
                         context.config().nn_worker.instances.size(),
                         "; keep one, or start all daemons without --standalone"));
      }
    }
    SIMURGH_RETURN_IF_ERROR(daemon->Listen(context));
    if (standalone) {
      SIMURGH_ASSIGN_OR_RETURN(
          daemon->local_,
          LocalCluster::Create(context.config(), context.metrics(), daemon->learning_rates_));
    } else {
      daemon->remote_ = std::make_unique<RemoteCluster>(context, daemon->learning_rates_);
    }
    if (!context.config().checkpoint.directory.empty() && context.index() == 0) {
      std::error_code ignored;
      const bool resumes =
          daemon->resumed_ && std::filesystem::equivalent(context.config().checkpoint.directory,
                                                          daemon->resumed_->model, ignored);
      SIMURGH_ASSIGN_OR_RETURN(daemon->saver_, ModelSaver::Open(context.config(), resumes));
    }
    if (!trace_file.empty()) daemon->job_->Trace(daemon->timeline_);
    context.SetReload([daemon = daemon.get()](const ClusterConfig& config) {
      return daemon->learning_rates_.Change(config.tables);
    });
    context.SetReady();
    return std::move(daemon);
  }

  Status Run(std::stop_token stop) override {
    // With a folder for the model, a stop ends training after a step and saves.
    std::stop_source cancel;
    const std::stop_callback stopper(stop, [&] {
      if (!job_->config().checkpoint.directory.empty() && trains_) {
        job_->Interrupt();
      } else {
        cancel.request_stop();
      }
    });
    const std::stop_callback canceller(cancel.get_token(), [this] {
      if (remote_ != nullptr) remote_->port().StopAfter(kStopGrace);
    });
    DensePort* const dense = local_ != nullptr ? &local_->dense() : remote_->dense();
    StatusOr<TrainResult> result = Train(dense, cancel.get_token());
    const bool has_trained = result.ok() && result->steps > job_->start().steps;
    if (has_trained && saver_ != nullptr) {
      const Status saved = Save(result->state, result->evaluation, cancel.get_token());
      if (!saved.ok()) result = Annotate(saved, "training has ended, and its model is not saved");
    }
    if (fed_ != nullptr) NotifyLoaders(result.status());
    if (remote_ != nullptr && joined_.run != 0) remote_->port().EndRun(joined_, kEndGrace);
    Status traced = WriteTrace();  // Also after a failure.
    if (absl::IsCancelled(result.status()) && stop.stop_requested()) {
      spdlog::info("training was stopped before its end");
      return absl::OkStatus();
    }
    SIMURGH_RETURN_IF_ERROR(result.status());
    if (result->interrupted) {
      spdlog::info("training was stopped: steps={}; start it again to continue", result->steps);
      return traced;
    }
    Report(*result);
    return traced;
  }

  void Drain(std::chrono::steady_clock::time_point deadline) override {
    if (listener_ != nullptr) listener_->Drain(deadline);
  }

  ~NnWorker() override {
    if (listener_ != nullptr) listener_->Close();
  }

 private:
  NnWorker(DaemonContext& context, std::string trace_file)
      : run_(context.hello().incarnation),
        trace_file_(std::move(trace_file)),
        rank_(context.index()),
        failed_saves_(context.metrics().GetCounter("simurgh_nn_failed_saves_total",
                                                   "Checkpoints that could not be saved.")),
        learning_rates_(context.config().tables) {}

  EmbeddingPort& Port() {
    return local_ != nullptr ? static_cast<EmbeddingPort&>(*local_) : remote_->port();
  }

  // A path that cannot be written must not cost a training. Errors: INVALID_ARGUMENT.
  Status OpenTrace() {
    if (trace_file_.empty()) return absl::OkStatus();
    std::error_code ignored;
    const bool is_pipe = std::filesystem::is_fifo(trace_file_, ignored);  // Opening one would wait.
    if (!is_pipe) trace_.open(trace_file_, std::ios::binary);
    if (trace_.is_open()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--trace ", trace_file_, ": cannot write it: ",
                                                   is_pipe ? "it is a pipe" : std::strerror(errno),
                                                   "; name a file in an existing folder"));
  }

  Status WriteTrace() {
    if (trace_file_.empty()) return absl::OkStatus();
    trace_ << timeline_.ToJson(rank_, absl::StrCat("nn-worker ", rank_)) << std::flush;
    if (trace_) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("--trace ", trace_file_, ": cannot write it: ", std::strerror(errno)));
  }

  // Listens for other ranks and for loaders.
  Status Listen(DaemonContext& context) {
    const bool has_ranks = context.config().nn_worker.instances.size() > 1;
    const bool is_fed = !context.config().loaders.instances.empty();
    if (!has_ranks && !is_fed) return absl::OkStatus();
    listener_ = std::make_unique<Listener>(context);
    if (has_ranks) ranks_ = std::make_unique<Ranks>(context, job_->Plan(), listener_->thread());
    if (is_fed) {
      // Loaders share the capacity of a file reader's queue. With two batches of each loader, one
      // arrives while the other is taken.
      const ClusterConfig& config = job_->config();
      const size_t loaders = config.loaders.instances.size();
      fed_ = std::make_unique<FeedBuffer>(
          loaders, std::max<size_t>(2, config.training.loader_queue_batches / loaders),
          config.loaders.feed_buffer_bytes, config.loaders.timeout, config.data.max_bad_rows,
          job_->start().position);
      feeding_ = std::make_unique<FeedService>(config, context.index(), *fed_, context.metrics(),
                                               listener_->thread().executor());
      job_->TakeFrom(*fed_);
      spdlog::info("waiting for loaders: loaders={}", loaders);
    }
    return listener_->Listen(context, [&](rpc::Server& server) {
      if (has_ranks) ranks_->Register(server);
      if (is_fed) feeding_->Register(server);
    });
  }

  // Loaders that still feed receive the result of the run, unless they take too long.
  void NotifyLoaders(const Status& status) {
    if (status.ok()) {
      fed_->Finish();
    } else {
      fed_->Fail(std::string(status.message()));
    }
    fed_->AwaitNotifiedAll(std::chrono::steady_clock::now() + kLoaderGrace);
  }

  StatusOr<TrainResult> Train(DensePort* dense, const std::stop_token& stop) {
    JointRun joint{.collective = nullptr, .run = run_};
    if (ranks_ == nullptr) {
      joint.collective = NewLocalCollective();
    } else {
      SIMURGH_ASSIGN_OR_RETURN(joint, ranks_->Join(stop));
    }
    joined_ = {.run = joint.run, .rank = rank_, .ranks = joint.collective->ranks()};
    if (saver_ != nullptr) {
      SIMURGH_RETURN_IF_ERROR(saver_->CheckServers(joint.run, SaveRowsFunction(), stop));
    }
    SIMURGH_RETURN_IF_ERROR(RestoreRows(joint, stop));
    spdlog::info("training starts: run={:016x} rank={} step={}", joint.run, rank_,
                 job_->start().steps);
    if (saver_ != nullptr) {
      job_->SaveWith([this, stop](const TrainState& state) { return SaveCheckpoint(state, stop); });
    }
    trains_ = job_->config().training.mode != TrainingConfig::Mode::kAsync;
    return job_->Run(Port(), dense, joint.run, *joint.collective, stop);
  }

  // Rank 0 lets the servers load the rows of the checkpoint; the others wait.
  Status RestoreRows(JointRun& joint, const std::stop_token& stop) {
    if (!resumed_) return absl::OkStatus();
    const Checkpoint& checkpoint = resumed_->checkpoint;
    const std::stop_callback stopper(stop, [&joint] {
      joint.collective->Abort(absl::CancelledError("stopped while the servers load rows"));
    });
    if (rank_ == 0) {
      spdlog::info("continuing: model={} step={} generation={}", resumed_->model,
                   checkpoint.manifest.step, checkpoint.manifest.generation);
      const RestoreRowsCall call{.run = joint.run,
                                 .ranks = joint.collective->ranks(),
                                 .model = resumed_->model,
                                 .step = checkpoint.manifest.step};
      const auto restore = [&] {
        return local_ != nullptr ? local_->RestoreRows(call) : remote_->port().RestoreRows(call);
      };
      const Status restored =
          AwaitRows("loading", job_->config().training.retry_deadline, restore, stop).status();
      if (!restored.ok()) {
        joint.collective->Abort(restored);
        return Annotate(restored, checkpoint.folder);
      }
    }
    // This channel has no timeout: loading may take long.
    std::vector<std::byte> all(joint.collective->ranks());
    return joint.collective->Gather(Channel::kLoading, std::array{std::byte()}, all);
  }

  Status Save(const TrainState& state, const std::optional<EvaluationResult>& evaluation,
              const std::stop_token& stop) {
    const uint64_t model_run = resumed_ ? resumed_->checkpoint.manifest.run : joined_.run;
    // The model has the mean of the ranks' statistics, as for an evaluation.
    const std::span<float> statistics = job_->network().statistics();
    const std::vector<float> own(statistics.begin(), statistics.end());
    SetMeanStatistics(state, statistics);
    const std::string probe = MakeProbe(*job_, Port(), joined_.run, state.steps);
    Status saved = saver_->Save(joined_.run, model_run, state, evaluation, job_->config(),
                                job_->network(), probe, SaveRowsFunction(), stop);
    std::ranges::copy(own, statistics.begin());
    return saved;
  }

  // Saves between two steps.
  Status SaveCheckpoint(const TrainState& state, const std::stop_token& stop) {
    Status saved = Save(state, std::nullopt, stop);
    if (saved.ok()) return saved;
    saved = Annotate(saved, absl::StrCat("the model of step ", state.steps, " is not saved"));
    failed_saves_.Add();
    if (absl::IsCancelled(saved) ||
        job_->config().checkpoint.on_error == CheckpointConfig::OnError::kStop) {
      return saved;
    }
    spdlog::error("{}; training continues", std::string(saved.message()));
    return absl::OkStatus();
  }

  ModelSaver::SaveRows SaveRowsFunction() {
    return [this](const SaveRowsCall& call) {
      return local_ != nullptr ? local_->SaveRows(call) : remote_->port().SaveRows(call);
    };
  }

  void Report(const TrainResult& result) {
    spdlog::info(
        "trained: steps={} samples={} skipped_steps={} seconds={:.1f} bad_rows={} "
        "network_digest={:016x}",
        result.steps, result.samples, result.skipped_steps, result.seconds, job_->skipped_rows(),
        job_->NetworkDigest());
    if (const std::string overlap = job_->DescribeIdOverlap(); !overlap.empty()) {
      spdlog::info("{}", overlap);
    }
    const std::vector<std::string> warnings = job_->LabelWarnings();
    for (const std::string& warning : warnings) std::printf("warning: %s\n", warning.c_str());
    const double samples_per_second = static_cast<double>(result.samples) / result.seconds;
    if (result.evaluation) {
      std::printf("%s ", TestResult(*result.evaluation, LabelColumns(job_->config().data)).c_str());
    }
    if (!warnings.empty()) std::printf("train_labels=one_class ");
    std::printf("samples_per_sec=%.0f\n", samples_per_second);
  }

  const uint64_t run_;
  const std::string trace_file_;  // May be empty.
  const uint32_t rank_;
  Counter& failed_saves_;
  std::ofstream trace_;
  StepId joined_;  // The run, once all ranks have joined it.
  Timeline timeline_;
  LearningRates learning_rates_;
  std::optional<ResumePoint> resumed_;  // The model that this training continues.
  std::unique_ptr<TrainingJob> job_;
  std::atomic<bool> trains_ = false;    // A stop then ends training after a step.
  std::unique_ptr<ModelSaver> saver_;   // Null: nothing is saved, or another rank saves.
  std::unique_ptr<Ranks> ranks_;        // Null: there is one rank. Outlives listener_.
  std::unique_ptr<Listener> listener_;  // Null: there are no peers that connect.
  std::unique_ptr<FeedBuffer> fed_;     // Null: the nn-worker reads the files.
  std::unique_ptr<FeedService> feeding_;
  std::unique_ptr<LocalCluster> local_;  // Either this or remote_ is set.
  std::unique_ptr<RemoteCluster> remote_;
};

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  bool standalone = false;
  std::string resume;
  std::string trace_file;
  simurgh::DaemonDescription description{
      .role = "nn-worker",
      .usage = {.program = "nn-worker",
                .summary = "Trainer of a Simurgh cluster. Reads the data, computes the dense "
                           "network, exchanges ids, embeddings and gradients with the embedding "
                           "workers, and evaluates."},
      .section = "nn_worker",
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.nn_worker.instances;
      },
      .check =
          [](const simurgh::ClusterConfig& config) {
            const simurgh::Status tables = simurgh::ParameterServer::CheckConfig(config);
            return tables.ok() ? simurgh::TrainingJob::CheckModel(config) : tables;
          }};
  description.usage.own_options.add_options()(
      "standalone", boost::program_options::bool_switch(&standalone),
      "run the servers and the embedding worker in this process, without sockets")(
      "resume",
      boost::program_options::value(&resume)->default_value("auto", "")->value_name("WHAT"),
      "continue a model: auto (the default): the newest in checkpoint.directory, if any; never; or "
      "the path of a model or checkpoint")(
      "trace", boost::program_options::value(&trace_file)->value_name("FILE"),
      "write a Chrome trace of the first steps (open it in Perfetto)");
  return simurgh::RunDaemon(description, argc, argv, [&](simurgh::DaemonContext& context) {
    return simurgh::NnWorker::Start(context, standalone, trace_file, resume);
  });
}
