// The part of the C interface that serves a model whose network is the program's.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/mutex.h"
#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "config/uri.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "predict/program_network.h"
#include "services/library/inputs.h"
#include "services/library/interface.h"
#include "services/library/memory.h"
#include "services/library/state_view.h"
#include "services/runtime/process.h"
#include "services/runtime/signals_blocked.h"
#include "services/serving/scoring_backend.h"
#include "services/serving/serving_daemon.h"
#include "simurgh/simurgh.h"
#include "telemetry/logging.h"
#include "train/program_state.h"

using simurgh::Status;
using simurgh::StatusOr;

struct simurgh_server {
  ~simurgh_server() { Close(); }

  Status Open(const simurgh_server_options& options);
  Status CheckProcess() const { return simurgh::library::CheckProcess("server", process); }
  StatusOr<simurgh::ServingConfig> LoadConfig() const;
  Status Ready(int* ready);
  Status Next(uint64_t timeout_ms, simurgh_task* task);
  Status Reload();
  void Close();

  const pid_t process = getpid();
  std::string config_path;
  std::vector<std::string> overrides;
  std::optional<simurgh::ClusterConfig> described;  // Its names are in the inputs.
  std::optional<simurgh::InputsView> inputs;
  simurgh::ProgramState start;
  simurgh::StateView start_view;
  simurgh::StateView task_view;
  std::shared_ptr<const simurgh::ProgramState> task_state;  // The text and tensors of task_view.
  std::string address;
  std::string url;
  const std::shared_ptr<simurgh::ProgramNetwork> network =
      std::make_shared<simurgh::ProgramNetwork>();
  std::stop_source stop;
  simurgh::Mutex mutex;  // Held while `serving` is used.
  simurgh::LibraryBackend* backend ABSL_GUARDED_BY(mutex) = nullptr;  // Null once it stops.
  std::unique_ptr<simurgh::StartedServing> serving ABSL_GUARDED_BY(mutex);
  std::thread thread;  // Waits for the stop, and drains.
};

StatusOr<simurgh::ServingConfig> simurgh_server::LoadConfig() const {
  SIMURGH_ASSIGN_OR_RETURN(simurgh::ServingConfig config,
                           simurgh::LoadServingConfig(config_path, overrides));
  if (config.model.empty()) {
    return absl::InvalidArgumentError("model: missing; name the folder, or set serving.model");
  }
  return config;
}

Status simurgh_server::Open(const simurgh_server_options& options) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(options.size, sizeof(options), "simurgh_server_options"));
  if (options.config_path != nullptr) config_path = options.config_path;
  overrides = {options.overrides, options.overrides + options.override_count};
  const auto set = [this](const char* key, const std::string& value) {
    overrides.push_back(absl::StrCat("serving.", key, "=", simurgh::YamlText(value)));
  };
  if (options.model != nullptr) set("model", simurgh::AbsoluteFolder(options.model));
  if (options.listen != nullptr) set("listen", options.listen);
  SIMURGH_RETURN_IF_ERROR(
      simurgh::InitLogging("serve", options.log_level == nullptr ? "info" : options.log_level));
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::ServingConfig config, LoadConfig());
  SIMURGH_RETURN_IF_ERROR(
      simurgh::RaiseOpenFiles("serving.max_connections", config.max_connections));
  const simurgh::SignalsBlocked blocked;
  // Errors of the folder are told at once.
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::ModelDirectory::Newest found,
                           simurgh::FindVersion(config.model, config.version));
  SIMURGH_ASSIGN_OR_RETURN(start, simurgh::ReadProgram(found.checkpoint));
  SIMURGH_ASSIGN_OR_RETURN(described,
                           simurgh::ConfigOfModel(found.checkpoint, config.model_overrides));
  inputs.emplace(*described, /*rank=*/0, /*has_masks=*/true);
  simurgh::LibraryBackend* made = nullptr;
  const auto make_backend =
      [&](const simurgh::ServingConfig& loaded,
          simurgh::MetricRegistry& registry) -> StatusOr<std::unique_ptr<simurgh::ScoringBackend>> {
    SIMURGH_ASSIGN_OR_RETURN(auto created,
                             simurgh::LibraryBackend::Create(loaded, network, registry));
    made = created.get();
    return created;
  };
  auto started = std::make_unique<simurgh::StartedServing>(config);
  if (const Status status = started->Start(make_backend); !status.ok()) {
    network->End();  // A version may wait for the program.
    return status;
  }
  address = started->address();
  url = started->url();
  const simurgh::MutexLock lock(mutex);
  backend = made;
  serving = std::move(started);
  thread = std::thread([this] {
    simurgh::AwaitStop(stop.get_token());
    std::unique_ptr<simurgh::StartedServing> ending;
    {
      const simurgh::MutexLock stopping(mutex);
      backend = nullptr;
      ending = std::move(serving);
    }
    ending->Drain();
    network->End();
  });
  return absl::OkStatus();
}

Status simurgh_server::Ready(int* ready) {
  const simurgh::MutexLock lock(mutex);
  *ready = 0;
  if (backend == nullptr) return absl::OkStatus();
  const std::string problem = backend->Problem();
  *ready = problem.empty() ? 1 : 0;
  const bool is_refused =
      backend->versions().Current() == nullptr && !backend->versions().RefusedVersions().empty();
  return is_refused ? absl::FailedPreconditionError(problem) : absl::OkStatus();
}

Status simurgh_server::Next(uint64_t timeout_ms, simurgh_task* task) {
  using simurgh::ProgramNetwork;
  SIMURGH_ASSIGN_OR_RETURN(std::optional<ProgramNetwork::Task> next,
                           network->Next(std::chrono::milliseconds(timeout_ms)));
  *task = {.size = sizeof(*task), .kind = SIMURGH_NONE};
  if (!next) return absl::OkStatus();
  const simurgh_inputs& known = inputs->get();
  if (next->work == ProgramNetwork::Work::kPredict &&
      (next->dense.size() != next->rows * known.dense_width ||
       next->embeddings.size() != next->rows * known.embedding_width)) {
    return network->Failed("this version has inputs of other widths; open the server again");
  }
  task->step = next->step;
  switch (next->work) {
    case ProgramNetwork::Work::kEnd:
      task->kind = SIMURGH_END;
      break;
    case ProgramNetwork::Work::kRestore:
      task->kind = SIMURGH_RESTORE;
      task_state = std::move(next->state);
      task_view.Set(*task_state, &task->state);
      break;
    case ProgramNetwork::Work::kPredict:
      task->kind = SIMURGH_PREDICT;
      task->rows = next->rows;
      task->dense = next->dense.data();
      task->embeddings = next->embeddings.data();
      task->memory = new simurgh_memory{std::move(next->memory)};
      break;
  }
  return absl::OkStatus();
}

Status simurgh_server::Reload() {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::ServingConfig config, LoadConfig());
  const simurgh::MutexLock lock(mutex);
  return serving == nullptr ? absl::OkStatus() : serving->Reload(config);
}

void simurgh_server::Close() {
  stop.request_stop();
  network->End();  // Requests that wait for the program fail.
  if (thread.joinable()) thread.join();
}

int simurgh_server_open(const simurgh_server_options* options, simurgh_server** server) {
  return simurgh::library::Call([&]() -> Status {
    *server = nullptr;
    auto opened = std::make_unique<simurgh_server>();
    SIMURGH_RETURN_IF_ERROR(opened->Open(*options));
    *server = opened.release();
    return absl::OkStatus();
  });
}

int simurgh_server_inputs(simurgh_server* server, simurgh_inputs* inputs) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(
        simurgh::library::CheckSize(inputs->size, sizeof(*inputs), "simurgh_inputs"));
    *inputs = server->inputs->get();
    inputs->ranks = 0;
    return absl::OkStatus();
  });
}

int simurgh_server_start(simurgh_server* server, simurgh_state* state) {
  return simurgh::library::Call([&]() -> Status {
    server->start_view.Set(server->start, state);
    return absl::OkStatus();
  });
}

int simurgh_server_address(simurgh_server* server, const char** address, const char** url) {
  return simurgh::library::Call([&]() -> Status {
    *address = server->address.c_str();
    *url = server->url.c_str();
    return absl::OkStatus();
  });
}

int simurgh_server_ready(simurgh_server* server, int* ready) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    return server->Ready(ready);
  });
}

int simurgh_server_next(simurgh_server* server, uint64_t timeout_ms, simurgh_task* task) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckSize(task->size, sizeof(*task), "simurgh_task"));
    return server->Next(timeout_ms, task);
  });
}

int simurgh_server_predicted(simurgh_server* server, const float* outputs, uint64_t count) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    if (count > 0) SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(outputs, "outputs"));
    return server->network->Predicted({outputs, count});
  });
}

int simurgh_server_restored(simurgh_server* server) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    return server->network->Restored();
  });
}

int simurgh_server_failed(simurgh_server* server, const char* reason) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    return server->network->Failed(reason == nullptr ? "no reason was given" : reason);
  });
}

int simurgh_server_reload(simurgh_server* server) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    return server->Reload();
  });
}

int simurgh_server_interrupt(simurgh_server* server) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    server->stop.request_stop();
    return absl::OkStatus();
  });
}

int simurgh_server_close(simurgh_server* server) {
  return simurgh::library::Call([&]() -> Status {
    if (server != nullptr) SIMURGH_RETURN_IF_ERROR(server->CheckProcess());
    delete server;
    return absl::OkStatus();
  });
}
