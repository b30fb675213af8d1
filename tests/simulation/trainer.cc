#include "tests/simulation/trainer.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/step_id.h"
#include "nn/dense_network.h"
#include "services/nn_worker/resume.h"

namespace simurgh::simulation {
namespace {

constexpr uint64_t kTraining = 77;  // The number of every new training.

// A DenseState as a network that is saved and restored.
class SmallNetwork : public DenseNetwork {
 public:
  explicit SmallNetwork(DenseState& dense) : dense_(dense) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock&, MatrixView<const float>,
                                        std::span<const float>, std::span<float>, const RankStep&,
                                        const std::function<void()>&) override {
    return absl::UnimplementedError("");
  }
  Status ApplyGradients(float) override { return absl::UnimplementedError(""); }
  Status Predict(BatchBlock&, MatrixView<const float>, std::span<float>) override {
    return absl::UnimplementedError("");
  }
  BlockPool& blocks() override { std::abort(); }
  std::span<float> parameters() override { return dense_.weights; }
  std::span<float> gradients() override { return {}; }
  std::span<float> statistics() override { return {}; }
  std::span<const float> state() const override { return dense_.state; }
  std::vector<DenseTensor> tensors() const override {
    return {{"w", {kDim}, false, 0}, {"steps", {}, true, 0}, {"sum", {kDim}, true, 1}};
  }
  Status Restore(std::span<const float> parameters, std::span<const float> state) override {
    std::ranges::copy(parameters, dense_.weights.begin());
    std::ranges::copy(state, dense_.state.begin());
    return absl::OkStatus();
  }
  Status CheckFinite() override { return absl::OkStatus(); }

 private:
  DenseState& dense_;
};

Status Dead() { return absl::CancelledError("the process is dead"); }

}  // namespace

// --- A start.

Start::Start(Cluster& owner, ClusterConfig configuration, uint64_t start_number)
    : cluster(owner),
      config(std::move(configuration)),
      number(start_number),
      next_round_(owner.plan().ranks) {
  for (uint32_t rank = 0; rank < owner.plan().ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>(*this, rank));
  }
}

Start::~Start() { Kill(); }

bool Start::is_over() const {
  return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->is_over(); });
}

bool Start::has_dead_rank() const {
  return std::ranges::any_of(ranks_, [](const auto& rank) { return !rank->process().alive; });
}

bool Start::has_failed_rank() const {
  return std::ranges::any_of(
      ranks_, [](const auto& rank) { return rank->is_done() && !rank->status().ok(); });
}

Status Start::status() const {
  for (const auto& rank : ranks_) {
    if (!rank->process().alive) return absl::UnavailableError("a rank has died");
    if (!rank->status().ok()) return rank->status();
  }
  return absl::OkStatus();
}

void Start::Kill() {
  for (const auto& rank : ranks_) {
    rank->process().alive = false;
    World::Drain(rank->process());
  }
}

void Start::PauseUntil(Microseconds time) {
  for (const auto& rank : ranks_) rank->process().paused_until = time;
}

StatusOr<std::vector<std::vector<uint64_t>>> Start::Gather(Process& process, uint32_t rank,
                                                           std::vector<uint64_t> own) {
  auto& round = rounds_[next_round_[rank]++];
  round[rank] = std::move(own);
  World& world = cluster.world();
  if (size() > 1 && !world.Pause(process, 20 + world.random.Below(200))) return Dead();
  if (!world.Await(process, [&] { return round.size() == size() || !failure_.ok(); })) {
    return Dead();
  }
  if (!failure_.ok()) return failure_;
  std::vector<std::vector<uint64_t>> all;
  for (const auto& [of, numbers] : round) all.push_back(numbers);
  return all;
}

// --- A rank.

Rank::Rank(Start& start, uint32_t index)
    : start_(start),
      cluster_(start.cluster),
      world_(start.cluster.world()),
      plan_(start.cluster.plan()),
      index_(index),
      process_(world_.AddProcess(absl::StrCat("rank ", index, " of start ", start.number))),
      files_(world_, process_, start.cluster.disk()),
      map_(static_cast<uint32_t>(start.config.embedding_ps.instances.size()),
           start.config.embedding_ps.partitions),
      best_(start.config.checkpoint),
      schedule_(start.config.checkpoint, world_.time()) {
  world_.Start(process_, [this] {
    status_ = Main();
    over_ = true;
    if (process_.alive) world_.Note(absl::StrCat(process_.name, " ends: ", status_.ToString()));
  });
}

Status Rank::Main() {
  SIMURGH_RETURN_IF_ERROR(FindModel());
  if (index_ == 0) SIMURGH_RETURN_IF_ERROR(TakeOver());
  // The ranks meet.
  SIMURGH_ASSIGN_OR_RETURN(const auto all, start_.Gather(process_, index_, {begin_.steps}));
  for (const auto& one : all) {
    if (one != all[0]) return absl::AbortedError("the ranks begin at different steps");
  }
  SIMURGH_RETURN_IF_ERROR(BeginRows());
  trains_ = true;
  SIMURGH_RETURN_IF_ERROR(Train());
  SIMURGH_ASSIGN_OR_RETURN(const TrainState state, StateAfter());
  return index_ == 0 ? SaveLast(state) : absl::OkStatus();
}

// As FindResumePoint() and TrainingJob::Create().
Status Rank::FindModel() {
  const Division& division = plan_.division;
  StatusOr<ModelDirectory::Newest> found = ModelDirectory(kModel, files_).Latest();
  if (absl::IsNotFound(found.status())) {
    begin_.position = DataPosition(division);
  } else {
    SIMURGH_RETURN_IF_ERROR(found.status());
    continued_ = std::move(found->checkpoint);
    SIMURGH_ASSIGN_OR_RETURN(begin_, ReadState(continued_->manifest, /*labels=*/1));
    begin_.position = begin_.position.ContinueWith(division);
    SmallNetwork network(dense_);
    SIMURGH_RETURN_IF_ERROR(
        RestoreDense(*continued_, index_, plan_.ranks, network, /*server_optimizer=*/nullptr)
            .status());
    schedule_.SetNewest(begin_.steps);
  }
  position_ = begin_.position;
  steps_ = fed_ = end_ = begin_.steps;
  ReadData();
  return process_.alive ? absl::OkStatus() : Dead();
}

Status Rank::TakeOver() {
  const auto sleep = [this](std::chrono::milliseconds duration, const std::stop_token& /*stop*/) {
    return world_.Pause(process_, static_cast<Microseconds>(duration.count()) * 1'000);
  };
  SIMURGH_ASSIGN_OR_RETURN(
      saver_,
      ModelSaver::Open(start_.config, continued_ ? &*continued_ : nullptr, /*takes_newest=*/true,
                       kTraining, best_,
                       {.files = files_, .now = [this] { return world_.time(); }, .sleep = sleep}));
  start_.run = saver_->run();
  cluster_.OnTakenOver(saver_->generation());
  world_.Note(absl::StrCat(process_.name, " has generation ", saver_->generation(),
                           " and begins at step ", begin_.steps));
  return absl::OkStatus();
}

// As NnWorker::Train() and NnWorker::BeginRows().
Status Rank::BeginRows() {
  if (index_ == 0) {
    const SaverEnvironment environment{
        .files = files_,
        .now = [this] { return world_.time(); },
        .sleep =
            [this](std::chrono::milliseconds duration, const std::stop_token& /*stop*/) {
              return world_.Pause(process_, static_cast<Microseconds>(duration.count()) * 1'000);
            }};
    const auto deadline = start_.config.training.retry_deadline;
    const auto probe = [this] {
      return saver_->Probe([this](const SaveRowsCall& call) { return SaveRows(call); });
    };
    SIMURGH_RETURN_IF_ERROR(
        AwaitRows("saving", deadline, probe, nullptr, {}, environment).status());
    const RestoreRowsCall call{.run = start_.run,
                               .ranks = plan_.ranks,
                               .model = continued_ ? kModel : "",
                               .step = begin_.steps};
    const auto restore = [&] { return RestoreRows(call); };
    SIMURGH_RETURN_IF_ERROR(
        AwaitRows("loading", deadline, restore, nullptr, {}, environment).status());
  }
  return start_.Gather(process_, index_, {}).status();
}

// The batches of all steps from begin_ on, by the position alone.
void Rank::ReadData() {
  const DataPosition& from = begin_.position;
  for (uint32_t epoch = from.first().epoch; epoch < plan_.epochs; ++epoch) {
    std::vector<std::vector<uint64_t>> shares(plan_.ranks);
    for (uint64_t row = 0; row < plan_.rows; ++row) {
      if (!from.IsRead({epoch, row})) shares[from.division().ShareOf(row)].push_back(row);
    }
    for (size_t at = 0;; at += plan_.division.batch_size) {
      if (std::ranges::all_of(shares, [at](const auto& share) { return share.size() <= at; })) {
        break;
      }
      Step& step = data_[end_++];
      const std::vector<uint64_t>& own = shares[index_];
      const size_t end = std::min<size_t>(own.size(), at + plan_.division.batch_size);
      for (size_t i = at; i < end; ++i) step.rows.push_back(own[i]);
      if (step.rows.empty()) {
        if (data_.size() > 1) step.progress = data_[end_ - 2].progress;
      } else {
        step.progress = {.share = index_, .files = 1, .next = {epoch, step.rows.back() + 1}};
      }
      for (uint32_t t = 0; t < plan_.config.tables.size(); ++t) {
        step.ids.push_back(DistinctIds(plan_, step.rows, t));
      }
    }
  }
}

// --- Calls: as Loader and BatchPipeline.

void Rank::Update() {
  if (!pipeline_.ok() || !process_.alive || over_) return;
  while (fed_ < end_ && queue_->waiting() < start_.config.training.loader_queue_batches) {
    if (index_ == 0 && !start_.due.contains(fed_)) {
      if (plan_.saves_at_any_step && world_.Chance(20)) schedule_.Request();
      start_.due[fed_] = fed_ > begin_.steps && schedule_.IsDue(fed_, world_.time());
    }
    const auto due = start_.due.find(fed_);
    if (due == start_.due.end()) break;  // Rank 0 has not decided.
    Batch batch;
    batch.checkpoint_before = due->second;
    batch.progress = data_[fed_].progress;
    queue_->Add(std::move(batch));
    ++fed_;
  }
  if (fed_ == end_) queue_->EndInput();
  for (const StartedCall& call : queue_->StartCalls(world_.time())) {
    switch (call.call) {
      case BatchCall::kSubmit:
        if (plan_.has_cold_rows && world_.Chance(2)) ReadAhead(call.batch->step);
        queue_->OnSubmitted(*call.batch, {});
        break;
      case BatchCall::kPull:
        Pull(call);
        break;
      case BatchCall::kPush:
        Push(*call.batch);
        break;
    }
  }
}

std::vector<RowMessage> Rank::MessagesOf(uint64_t step,
                                         const std::vector<std::vector<float>>* values) {
  std::vector<RowMessage> messages(map_.servers());
  const Step& data = data_[step];
  for (uint32_t server = 0; server < map_.servers(); ++server) {
    RowMessage& message = messages[server];
    message.map_version = map_.version();
    message.step_id = {.run = start_.run,
                       .rank = index_,
                       .step = step,
                       .ranks = plan_.ranks,
                       .order = plan_.is_sync() ? PushOrder::kSum : PushOrder::kByRank};
    for (uint32_t t = 0; t < data.ids.size(); ++t) {
      RowGroup group{.table = t, .dim = kDim, .counts = {}};
      group.counts.resize(map_.partitions());
      for (uint32_t p = 0; p < map_.partitions(); ++p) {
        for (size_t i = 0; i < data.ids[t].size(); ++i) {
          if (map_.SlotOf(data.ids[t][i]) != server * map_.partitions() + p) continue;
          ++group.counts[p];
          message.ids.push_back(data.ids[t][i]);
          if (values == nullptr) continue;
          const float* row = &(*values)[t][i * kDim];
          message.values.insert(message.values.end(), row, row + kDim);
        }
      }
      message.groups.push_back(std::move(group));
      message.rates.push_back(plan_.config.tables[t].optimizer.learning_rate);
    }
    if (values == nullptr) message.values.resize(message.ids.size() * kDim);
  }
  return messages;
}

void Rank::ReadAhead(uint64_t step) {
  std::vector<RowMessage> messages = MessagesOf(step, nullptr);
  for (uint32_t server = 0; server < messages.size(); ++server) {
    const auto message = std::make_shared<const RowMessage>(std::move(messages[server]));
    cluster_.Call<bool>(
        process_, server,
        [message](Server& target, const Server::Reply<bool>& reply) {
          target.ReadAhead(message);
          reply(true);
        },
        [](const StatusOr<bool>& /*told*/) {});
  }
}

void Rank::Pull(const StartedCall& call) {
  struct Pulled {
    size_t open;
    Status status;
    std::vector<std::vector<float>> rows;  // By server.
  };
  PendingBatch& pending = *call.batch;
  const uint64_t step = pending.step;
  std::vector<RowMessage> messages = MessagesOf(step, nullptr);
  const auto pulled = std::make_shared<Pulled>(
      Pulled{messages.size(), absl::OkStatus(), std::vector<std::vector<float>>(messages.size())});
  for (uint32_t server = 0; server < messages.size(); ++server) {
    messages[server].needed = call.needed;
    const auto message = std::make_shared<const RowMessage>(std::move(messages[server]));
    cluster_.Call<std::vector<float>>(
        process_, server,
        [message](Server& target, const Server::Reply<std::vector<float>>& reply) {
          target.Pull(*message, reply);
        },
        [this, server, step, pulled, &pending](StatusOr<std::vector<float>> rows) {
          if (rows.ok()) {
            pulled->rows[server] = *std::move(rows);
          } else if (pulled->status.ok()) {
            pulled->status = rows.status();
          }
          if (--pulled->open > 0 || over_) return;
          if (pulled->status.ok()) {
            Step& data = data_[step];
            data.values.clear();
            for (const auto& ids : data.ids) data.values.emplace_back(ids.size() * kDim);
            for (uint32_t s = 0; s < pulled->rows.size(); ++s) {
              size_t at = 0;
              for (uint32_t t = 0; t < data.ids.size(); ++t) {
                for (uint32_t p = 0; p < map_.partitions(); ++p) {
                  for (size_t i = 0; i < data.ids[t].size(); ++i) {
                    if (map_.SlotOf(data.ids[t][i]) != s * map_.partitions() + p) continue;
                    std::copy_n(&pulled->rows[s][at], kDim, &data.values[t][i * kDim]);
                    at += kDim;
                  }
                }
              }
            }
          }
          OnAnswer(pending, BatchCall::kPull, pulled->status);
        });
  }
}

void Rank::Push(PendingBatch& pending) {
  struct Pushed {
    size_t open;
    Status status;
  };
  std::vector<RowMessage> messages = MessagesOf(pending.step, &data_[pending.step].gradients);
  const auto pushed = std::make_shared<Pushed>(Pushed{messages.size(), absl::OkStatus()});
  for (uint32_t server = 0; server < messages.size(); ++server) {
    const auto message = std::make_shared<const RowMessage>(std::move(messages[server]));
    cluster_.Call<PushReport>(
        process_, server,
        [message](Server& target, const Server::Reply<PushReport>& reply) {
          target.Push(message, reply);
        },
        [this, pushed, &pending](const StatusOr<PushReport>& report) {
          if (!report.ok() && pushed->status.ok()) pushed->status = report.status();
          if (--pushed->open > 0 || over_) return;
          OnAnswer(pending, BatchCall::kPush, pushed->status);
        });
  }
}

void Rank::OnAnswer(PendingBatch& pending, BatchCall call, const Status& status) {
  if (!pipeline_.ok()) return;
  if (!status.ok()) {
    world_.Note(
        absl::StrCat(process_.name, ": step ", pending.step,
                     call == BatchCall::kPull ? ": pull: " : ": push: ", status.ToString()));
    queue_->OnFailed(pending, call, /*must_resubmit=*/false);
    pipeline_ =
        pending.retry.OnFailure(status, world_.time(), start_.config.training.retry_deadline);
  } else if (call == BatchCall::kPull) {
    queue_->OnPulled(pending, {});
  } else {
    world_.Note(absl::StrCat(process_.name, ": step ", pending.step, " is pushed"));
    queue_->ReleaseBatch(pending);
  }
  Update();
}

template <typename Ready>
Status Rank::AwaitUpdates(const Ready& ready) {
  while (true) {
    Update();
    if (!pipeline_.ok()) return pipeline_;
    if (ready()) return absl::OkStatus();
    if (!start_.Aborted().ok()) return start_.Aborted();
    if (!world_.Pause(process_, 20 + world_.random.Below(200))) return Dead();
  }
}

// --- Training: as Trainer.

Status Rank::Train() {
  queue_ = std::make_unique<BatchQueue>(
      PipelineOptions{.run = start_.run,
                      .rank = index_,
                      .ranks = plan_.ranks,
                      .order = plan_.is_sync() ? PushOrder::kSum : PushOrder::kByRank,
                      .staleness = plan_.staleness(),
                      .reproducible = true,
                      .awaits_pushes = plan_.config.training.awaits_pushes(),
                      .first_step = begin_.steps,
                      .queue_batches = start_.config.training.loader_queue_batches});
  while (true) {
    if (index_ == 0) SIMURGH_RETURN_IF_ERROR(schedule_.failure());
    SIMURGH_RETURN_IF_ERROR(AwaitUpdates([this] {
      const PendingBatch* next = queue_->NextForTrainer();
      return next != nullptr ? next->is_pulled() || queue_->at_mark() : queue_->input_ended();
    }));
    PendingBatch* const next = queue_->NextForTrainer();
    if (next == nullptr) {
      return AwaitUpdates([this] { return queue_->all_acknowledged(); });
    }
    if (queue_->at_mark()) {
      SIMURGH_RETURN_IF_ERROR(BeginCheckpoint());
    } else {
      SIMURGH_RETURN_IF_ERROR(Compute(*next));
    }
  }
}

Status Rank::Compute(PendingBatch& pending) {
  queue_->Take(pending);
  Step& data = data_[pending.step];
  position_.Advance(data.progress);
  std::array<float, kDim> own{};
  data.gradients = data.values;
  for (uint32_t t = 0; t < data.ids.size(); ++t) {
    for (size_t i = 0; i < data.ids[t].size(); ++i) {
      const float* row = &data.values[t][i * kDim];
      RowGradientOf(pending.step, t, data.ids[t][i], row, dense_, &data.gradients[t][i * kDim]);
      AddDenseGradient(row, own);
    }
  }
  std::vector<uint64_t> numbers;
  for (const float number : own) numbers.push_back(std::bit_cast<uint32_t>(number));
  SIMURGH_ASSIGN_OR_RETURN(const auto all, start_.Gather(process_, index_, numbers));
  std::vector<std::array<float, kDim>> gradients;
  for (const auto& one : all) {
    auto& gradient = gradients.emplace_back();
    for (uint32_t d = 0; d < kDim; ++d) {
      gradient[d] = std::bit_cast<float>(static_cast<uint32_t>(one[d]));
    }
  }
  UpdateDense(gradients, dense_);
  ++steps_;
  samples_ += data.rows.size();
  queue_->Finish();
  Update();
  return absl::OkStatus();
}

StatusOr<TrainState> Rank::StateAfter() {
  TrainState state{.steps = steps_, .samples = begin_.samples, .position = position_};
  std::vector<uint64_t> own = position_.Numbers();
  own.push_back(samples_);
  SIMURGH_ASSIGN_OR_RETURN(const auto all, start_.Gather(process_, index_, own));
  for (const std::vector<uint64_t>& one : all) {
    state.position.Merge(std::span(one).first(one.size() - 1));
    state.samples += one.back();
  }
  return state;
}

Status Rank::AwaitRankZero(const std::function<bool()>& ready) {
  while (true) {
    const bool is_ready = index_ > 0 || ready();
    SIMURGH_ASSIGN_OR_RETURN(const auto all, start_.Gather(process_, index_, {is_ready ? 1U : 0U}));
    if (all[0][0] == 1) return absl::OkStatus();
    if (!world_.Pause(process_, 500)) return Dead();
  }
}

Status Rank::BeginCheckpoint() {
  SIMURGH_RETURN_IF_ERROR(AwaitUpdates([this] { return queue_->all_acknowledged(); }));
  SIMURGH_ASSIGN_OR_RETURN(const TrainState state, StateAfter());
  SIMURGH_RETURN_IF_ERROR(AwaitRankZero([&] { return schedule_.is_idle(); }));
  if (index_ == 0 && schedule_.IsAnnounced(state.steps)) {
    SIMURGH_RETURN_IF_ERROR(schedule_.failure());
    BeginSave(state, state.steps);
  }
  SIMURGH_RETURN_IF_ERROR(AwaitRankZero([&] { return schedule_.rows_noted(); }));
  queue_->Lift();
  return absl::OkStatus();
}

void Rank::BeginSave(const TrainState& state, std::optional<uint64_t> mark) {
  world_.Note(absl::StrCat(process_.name, " saves step ", state.steps));
  schedule_.BeginSave(mark);
  SmallNetwork network(dense_);
  auto model = std::make_shared<const ModelCopy>(ModelCopy{.state = state,
                                                           .evaluation = {},
                                                           .dense = DenseCopy(network),
                                                           .probe = "p,row\n",
                                                           .step_time = 1});
  world_.Start(process_, [this, model] {
    const auto save_rows = [this](const SaveRowsCall& call) { return SaveRows(call); };
    const auto on_rows = [this](const SaveProgress&) { schedule_.OnRows(); };
    const StatusOr<SavedCheckpoint> saved =
        saver_->Save(*model, start_.config, save_rows, on_rows, {});
    if (!process_.alive) return;
    world_.Note(absl::StrCat(process_.name, ": save of step ", model->state.steps, ": ",
                             saved.status().ToString()));
    saved_ = saved.status();
    if (saved.ok()) {
      schedule_.OnSaved(saved->step);
      cluster_.OnSaved(saver_->generation(), saved->step);
    } else {
      schedule_.OnSaveFailed(saved.status());
    }
  });
}

// As Checkpointer::SaveLast(), with an operator who asks again.
Status Rank::SaveLast(const TrainState& state) {
  const auto await_idle = [this] {
    return world_.Await(process_, [this] { return schedule_.is_idle(); });
  };
  if (steps_ <= schedule_.newest()) return absl::OkStatus();
  while (true) {
    if (!await_idle()) return Dead();
    BeginSave(state, std::nullopt);
    if (!await_idle()) return Dead();
    if (saved_.ok()) cluster_.CheckServers(start_);
    if (!schedule_.RepeatsAfter(saved_)) return saved_;
    SIMURGH_RETURN_IF_ERROR(saver_->CheckNewest());
    if (!world_.Pause(process_, 30'000)) return Dead();
    schedule_.Request();
  }
}

// --- Calls to all servers.

template <typename Request>
StatusOr<SaveProgress> Rank::CallAll(const Request& request,
                                     void (Server::*method)(Request,
                                                            const Server::Reply<SaveProgress>&)) {
  struct All {
    size_t open;
    Status status;
    SaveProgress progress{.done = true};
  };
  if (!process_.alive) return Dead();
  const auto all = std::make_shared<All>(All{.open = map_.servers(), .status = {}});
  for (uint32_t server = 0; server < map_.servers(); ++server) {
    cluster_.Call<SaveProgress>(
        process_, server,
        [request, method](Server& target, const Server::Reply<SaveProgress>& reply) {
          (target.*method)(request, reply);
        },
        [all](StatusOr<SaveProgress> progress) {
          --all->open;
          if (!progress.ok()) {
            if (all->status.ok()) all->status = progress.status();
            return;
          }
          all->progress.done = all->progress.done && progress->done;
          all->progress.rows += progress->rows;
          all->progress.all_rows += progress->all_rows;
          std::ranges::move(progress->files, std::back_inserter(all->progress.files));
        });
  }
  if (!world_.Await(process_, [&] { return all->open == 0; })) return Dead();
  if (!all->status.ok()) return all->status;
  return all->progress;
}

StatusOr<SaveProgress> Rank::SaveRows(const SaveRowsCall& call) {
  return CallAll<SaveRowsCall>(call, &Server::Save);
}

StatusOr<SaveProgress> Rank::RestoreRows(const RestoreRowsCall& call) {
  return CallAll<RestoreRowsCall>(call, &Server::Restore);
}

}  // namespace simurgh::simulation
