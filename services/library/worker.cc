// The part of the C interface with which a program is a rank of a training.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "config/cluster_config.h"
#include "services/library/inputs.h"
#include "services/library/interface.h"
#include "services/library/memory.h"
#include "services/library/state_view.h"
#include "services/nn_worker/nn_worker.h"
#include "services/runtime/daemon.h"
#include "services/runtime/signals_blocked.h"
#include "services/runtime/train_environment.h"
#include "simurgh/simurgh.h"
#include "telemetry/logging.h"
#include "train/hosted_network.h"

namespace simurgh {
namespace {

constexpr uint64_t kMaxText = uint64_t{8} << 20;
constexpr uint32_t kMaxDimensions = 64;
constexpr uint64_t kMaxNumbers = uint64_t{1} << 40;

StatusOr<ProgramState> CopyState(const simurgh_state& given) {
  ProgramState state{.name = given.name == nullptr ? "" : given.name,
                     .text = given.text == nullptr ? "" : given.text};
  if (state.text.size() > kMaxText) {
    return absl::InvalidArgumentError(absl::StrCat("state.text: ", state.text.size(),
                                                   " bytes; at most ", kMaxText,
                                                   " are kept, so make a tensor of it"));
  }
  std::set<std::string> names;
  for (uint64_t i = 0; i < given.tensor_count; ++i) {
    const simurgh_tensor& tensor = given.tensors[i];
    const std::string place = absl::StrCat("state.tensors[", i, "]");
    const std::string name = tensor.name == nullptr ? "" : tensor.name;
    if (name.empty() || name == "sums" || name == "__metadata__") {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ".name: '", name, "' cannot be used; give another name"));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ".name: a second '", name, "'; give each tensor its own name"));
    }
    if (tensor.dtype > SIMURGH_F64 || tensor.dimensions > kMaxDimensions) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": dtype ", tensor.dtype, " with ", tensor.dimensions,
                       " dimensions is not known; use a simurgh_dtype"));
    }
    TensorSpec spec{
        name, static_cast<DType>(tensor.dtype), {tensor.shape, tensor.shape + tensor.dimensions}};
    uint64_t numbers = 1;
    for (const uint64_t length : spec.shape) {
      if (length > 0 && numbers > kMaxNumbers / length) {
        return absl::InvalidArgumentError(
            absl::StrCat(place, ".shape: more than 2^40 numbers; split the tensor"));
      }
      numbers *= length;
    }
    const size_t bytes = spec.rows() * spec.row_bytes();
    if (bytes > 0) {
      SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(tensor.data, place + ".data"));
    }
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    state.tensors.push_back({std::move(spec), std::vector<std::byte>(data, data + bytes)});
  }
  return state;
}

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (file << text && file.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
}

// The process that has a worker, or has forked this one meanwhile; 0: none.
std::atomic<pid_t> process_of_worker = 0;  // NOLINT: a process has one worker at a time.

}  // namespace
}  // namespace simurgh

struct simurgh_worker {
  simurgh_worker() = default;
  ~simurgh_worker() { simurgh::process_of_worker = 0; }
  simurgh_worker(const simurgh_worker&) = delete;
  simurgh_worker& operator=(const simurgh_worker&) = delete;

  simurgh::Status Open(const simurgh_worker_options& options);
  simurgh::Status CheckProcess() const { return simurgh::library::CheckProcess("worker", process); }
  void Run();
  // Tells simurgh train the exit code that an nn-worker would have, and the failure so far.
  void NoteCode(simurgh::ExitCode of_rank) const;
  // Returns how training has ended.
  simurgh::Status End() const;
  void Stop(const char* failure);

  const pid_t process = getpid();
  std::optional<simurgh::TrainEnvironment> environment;
  std::unique_ptr<simurgh::DaemonContext> context;
  std::shared_ptr<simurgh::HostedNetwork> network;
  std::unique_ptr<simurgh::StartedDaemon> daemon;
  std::thread thread;
  std::atomic<bool> has_ended = false;
  // Set before has_ended.
  simurgh::ExitCode code = simurgh::ExitCode::kOk;
  std::string result;

  std::optional<simurgh::InputsView> inputs;
  uint64_t rows = 0;  // Samples of the last batch.
  simurgh::StateView start_view;
  simurgh::StateView task_view;
};

using simurgh::Status;

Status simurgh_worker::Open(const simurgh_worker_options& options) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(options.size, sizeof(options), "simurgh_worker_options"));
  SIMURGH_ASSIGN_OR_RETURN(environment, simurgh::TrainEnvironment::Get());
  SIMURGH_ASSIGN_OR_RETURN(
      const simurgh::library::ConfigChoice config,
      simurgh::library::ChooseConfig(environment, options.config_path, options.overrides,
                                     options.override_count));
  const simurgh::DaemonFlags flags{
      .config_path = config.path, .index = options.rank, .overrides = config.overrides};
  std::string resume = environment ? environment->resume : "auto";
  if (options.resume != nullptr) resume = options.resume;
  SIMURGH_RETURN_IF_ERROR(
      simurgh::InitLogging(absl::StrCat("nn-worker/", options.rank),
                           options.log_level == nullptr ? "info" : options.log_level));
  const simurgh::DaemonDescription description = simurgh::DescribeNnWorker(/*is_hosted=*/true);
  SIMURGH_ASSIGN_OR_RETURN(context, simurgh::MakeContext(description, flags));
  SIMURGH_RETURN_IF_ERROR(description.check(context->config()));
  network = std::make_shared<simurgh::HostedNetwork>(context->config());
  const simurgh::SignalsBlocked blocked;
  SIMURGH_ASSIGN_OR_RETURN(
      daemon,
      simurgh::StartedDaemon::Start(description, *context, [&](simurgh::DaemonContext& of_daemon) {
        return simurgh::StartNnWorker(of_daemon,
                                      {.standalone = !environment && options.joins == 0,
                                       .resume = resume,
                                       .hosted = network,
                                       .on_result = [this](const auto& text) { result = text; }});
      }));
  inputs.emplace(context->config(), context->index(), /*has_masks=*/true);
  return absl::OkStatus();
}

void simurgh_worker::NoteCode(simurgh::ExitCode of_rank) const {
  if (!environment) return;
  simurgh::WriteFile(simurgh::TrainEnvironment::CodePath(environment->codes, context->index()),
                     absl::StrCat(static_cast<int>(of_rank), "\n", context->failure().message()))
      .IgnoreError();
}

void simurgh_worker::Run() {
  const simurgh::SignalsBlocked blocked;
  NoteCode(simurgh::ExitCode::kStartAgain);  // A rank that does not say how it ends is lost.
  thread = std::thread([this] {
    try {
      code = daemon->Run();
    } catch (const std::exception& error) {  // The system has no descriptor or thread left.
      context->Fail(absl::ResourceExhaustedError(error.what()));
      code = simurgh::ExitCode::kRuntimeFailure;
    }
    if (environment && context->index() == 0) {
      simurgh::WriteFile(environment->result, result).IgnoreError();
    }
    NoteCode(code);
    has_ended = true;
    network->End();
  });
}

Status simurgh_worker::End() const {
  const Status failure = context->failure();
  if (code == simurgh::ExitCode::kStartAgain) return simurgh::library::AsStartAgain(failure);
  // The codes of the interface tell only what the caller did.
  if (!failure.ok() && code == simurgh::ExitCode::kRuntimeFailure) {
    return absl::UnknownError(failure.message());
  }
  return failure;
}

void simurgh_worker::Stop(const char* failure) {
  constexpr std::chrono::seconds kPatience{2};  // A rank notices a lost one in milliseconds.
  // The status is not that of a lost process, from which training recovers.
  const Status reason =
      absl::UnknownError(failure == nullptr ? "the program ended before training did"
                                            : absl::StrCat("the program failed: ", failure));
  const bool has_ranks = context->config().nn_worker.instances.size() > 1;
  if (has_ranks && failure != nullptr && thread.joinable()) {
    network->FailUnlessLost(reason, kPatience);
  } else {
    network->Fail(reason);
  }
  context->stop_source().request_stop();
  if (thread.joinable()) thread.join();
}

int simurgh_worker_open(const simurgh_worker_options* options, simurgh_worker** worker) {
  return simurgh::library::Call([&]() -> Status {
    *worker = nullptr;
    pid_t other = 0;
    if (!simurgh::process_of_worker.compare_exchange_strong(other, getpid())) {
      SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckProcess("worker", other));
      return absl::InvalidArgumentError(
          "this process has a worker; close it before another one is opened");
    }
    auto opened = std::make_unique<simurgh_worker>();
    SIMURGH_RETURN_IF_ERROR(opened->Open(*options));
    *worker = opened.release();
    return absl::OkStatus();
  });
}

int simurgh_worker_inputs(simurgh_worker* worker, simurgh_inputs* inputs) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(
        simurgh::library::CheckSize(inputs->size, sizeof(*inputs), "simurgh_inputs"));
    *inputs = worker->inputs->get();
    return absl::OkStatus();
  });
}

int simurgh_worker_start(simurgh_worker* worker, simurgh_state* state) {
  return simurgh::library::Call([&]() -> Status {
    *state = {};
    if (worker->network->start()) worker->start_view.Set(*worker->network->start(), state);
    return absl::OkStatus();
  });
}

int simurgh_worker_next(simurgh_worker* worker, uint64_t timeout_ms, simurgh_task* task) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckSize(task->size, sizeof(*task), "simurgh_task"));
    if (!worker->thread.joinable()) worker->Run();
    using simurgh::HostedNetwork;
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<HostedNetwork::Task> next,
                             worker->network->Next(std::chrono::milliseconds(timeout_ms)));
    *task = {.size = sizeof(*task), .kind = SIMURGH_NONE};
    if (!next) return absl::OkStatus();
    switch (next->work) {
      case HostedNetwork::Work::kEnd:
        task->kind = SIMURGH_END;
        return worker->End();
      case HostedNetwork::Work::kSave:
        task->kind = SIMURGH_SAVE;
        return absl::OkStatus();
      case HostedNetwork::Work::kRestore:
        task->kind = SIMURGH_RESTORE;
        worker->task_view.Set(*next->state, &task->state);
        return absl::OkStatus();
      case HostedNetwork::Work::kTrain:
      case HostedNetwork::Work::kPredict:
        break;
    }
    task->kind = next->work == HostedNetwork::Work::kTrain ? SIMURGH_TRAIN : SIMURGH_PREDICT;
    task->step = next->step;
    task->rows = worker->rows = next->rows;
    task->dense = next->dense.flat().data();
    task->embeddings = next->embeddings.flat().data();
    task->labels = next->labels.data();
    task->weights = worker->inputs->get().weighs == 0 ? nullptr : next->weights.data();
    task->memory = new simurgh_memory{next->memory};
    return absl::OkStatus();
  });
}

int simurgh_worker_finish(simurgh_worker* worker, const simurgh_step* step) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckSize(step->size, sizeof(*step), "simurgh_step"));
    const simurgh_inputs& inputs = worker->inputs->get();
    if (worker->rows > 0) {
      SIMURGH_RETURN_IF_ERROR(
          simurgh::library::CheckPointer(step->gradients, "simurgh_step.gradients"));
      SIMURGH_RETURN_IF_ERROR(
          simurgh::library::CheckPointer(step->outputs, "simurgh_step.outputs"));
    }
    return worker->network->Finish({step->gradients, worker->rows * inputs.embedding_width},
                                   {step->outputs, worker->rows * inputs.label_count},
                                   step->skipped == 0);
  });
}

int simurgh_worker_predicted(simurgh_worker* worker, const float* outputs, uint64_t count) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    if (count > 0) SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(outputs, "outputs"));
    return worker->network->Predicted({outputs, count});
  });
}

int simurgh_worker_saved(simurgh_worker* worker, const simurgh_state* state) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    SIMURGH_ASSIGN_OR_RETURN(simurgh::ProgramState copy, simurgh::CopyState(*state));
    return worker->network->Saved(std::move(copy));
  });
}

int simurgh_worker_restored(simurgh_worker* worker) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    return worker->network->Restored();
  });
}

int simurgh_worker_sum(simurgh_worker* worker, float* numbers, uint64_t count) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    return worker->network->Sum({numbers, count});
  });
}

int simurgh_worker_agree(simurgh_worker* worker, int yes, int* all) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    SIMURGH_ASSIGN_OR_RETURN(const bool agreed, worker->network->Agree(yes != 0));
    *all = agreed ? 1 : 0;
    return absl::OkStatus();
  });
}

int simurgh_worker_interrupt(simurgh_worker* worker) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    worker->context->stop_source().request_stop();
    return absl::OkStatus();
  });
}

int simurgh_worker_result(simurgh_worker* worker, const char** text) {
  return simurgh::library::Call([&]() -> Status {
    *text = worker->has_ended ? worker->result.c_str() : "";
    return absl::OkStatus();
  });
}

int simurgh_worker_close(simurgh_worker* worker, const char* failure) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(worker->CheckProcess());
    const std::unique_ptr<simurgh_worker> owner(worker);
    const bool had_ended = worker->has_ended;
    worker->Stop(failure);
    return had_ended ? worker->End() : absl::OkStatus();
  });
}

void simurgh_memory_release(simurgh_memory* memory) { delete memory; }
