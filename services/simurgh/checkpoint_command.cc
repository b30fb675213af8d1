#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "rpc/client.h"
#include "services/api/checkpoint_methods.h"
#include "services/api/patience.h"
#include "services/nn_worker/token_link.h"
#include "services/runtime/command_line.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_options.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/progress_line.h"
#include "simurgh/config/agreement.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "The first nn-worker of CONFIG saves the model before the next batch that it reads. Training\n"
    "continues meanwhile. The command waits, and prints the path of the checkpoint on stdout. A\n"
    "training whose last save has failed saves again, and ends; with --directory, to another "
    "folder\n"
    "that all daemons see at this path, and that has no model.\n\n"
    "CONFIG and --set: as of the training. It needs checkpoint.directory and\n"
    "nn_worker.instances.0.address.\n\n"
    "Exit codes:\n"
    "  0  saved\n"
    "  2  bad arguments or configuration\n"
    "  3  not saved; stderr has the reason\n";

// The first nn-worker of a training that runs.
class Trainer {
 public:
  static StatusOr<std::unique_ptr<Trainer>> Connect(const ClusterConfig& config) {
    const std::vector<InstanceConfig>& ranks = config.nn_worker.instances;
    if (ranks[0].address.empty()) {
      return absl::InvalidArgumentError(
          "nn_worker.instances.0.address: it is missing, and this command calls it; add one, and "
          "start the training again");
    }
    RpcConfig rpc = config.rpc;
    if (rpc.token_file.empty()) {
      if (auto token = FindTokenLink(config.checkpoint.directory)) rpc.token_file = *token;
    }
    SIMURGH_ASSIGN_OR_RETURN(const RpcOptions options, MakeRpcOptions(rpc));
    return std::unique_ptr<Trainer>(
        new Trainer(ranks[0].address, OptionsFor(options.client, "nn-worker", ranks, 0),
                    {.cluster = config.name,
                     .role = "nn-worker",
                     .incarnation = std::random_device()() | uint64_t{1},
                     .configuration = ClusterAgreement(config)}));
  }

  ~Trainer() {
    thread_.RunAndWait([this] { client_.reset(); });
  }

  // request, directory: as in SaveCheckpointRequest.
  StatusOr<rpc::Received<api::SaveCheckpoint::Response>> Call(uint64_t request,
                                                              const std::string& directory) {
    const auto call =
        [&]() -> rpc::awaitable<StatusOr<rpc::Received<api::SaveCheckpoint::Response>>> {
      flatbuffers::FlatBufferBuilder builder;
      const auto folder = builder.CreateString(directory);
      const auto root = api::wire::CreateSaveCheckpointRequest(builder, request, folder);
      co_return co_await rpc::Call(*client_, api::kSaveCheckpoint, {builder, root},
                                   api::Patient({rpc::Clock::now() + kTimeout}));
    };
    auto answer = rpc::asio::co_spawn(thread_.executor(), call, rpc::asio::use_future).get();
    if (answer.ok() || !absl::IsUnavailable(answer.status())) return answer;
    if (request > 0) {
      return absl::UnavailableError(absl::StrCat(
          "the nn-worker at ", address_, " ended before it had saved; its log has the reason"));
    }
    return absl::UnavailableError(absl::StrCat(
        answer.status().message(),
        "; no training listens there. Start one with "
        "nn_worker.instances.0.address and checkpoint.directory, and without --standalone"));
  }

 private:
  static constexpr std::chrono::seconds kTimeout{10};

  Trainer(std::string address, const rpc::ClientOptions& options, const rpc::Hello& hello)
      : address_(std::move(address)) {
    thread_.RunAndWait([&] {
      client_ = std::make_unique<rpc::Client>(thread_.executor(), address_, hello, options,
                                              /*observer=*/nullptr);
    });
  }

  const std::string address_;
  std::unique_ptr<rpc::Client> client_;
  IoThread thread_{"rpc"};
};

// directory: of --directory; may be empty.
Status Save(const std::string& path, const std::vector<std::string>& overrides,
            const std::string& directory) {
  const StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides, InputFiles::kIgnore);
  if (!config.ok()) return absl::InvalidArgumentError(config.status().message());
  SIMURGH_ASSIGN_OR_RETURN(const auto trainer, Trainer::Connect(*config));
  ProgressLine line;
  for (uint64_t request = 0;;) {
    SIMURGH_ASSIGN_OR_RETURN(const auto answer, trainer->Call(request, directory));
    const api::wire::SaveCheckpointResponse& table = answer.table();
    request = table.request();
    if (!table.done()) {
      if (table.all_rows() > 0) {
        line.Show("saving", table.rows(), absl::StrCat(" of=", table.all_rows()));
      }
      continue;
    }
    const double seconds = line.seconds();
    line.End();
    std::fprintf(stderr, "simurgh: saved: rows=%llu bytes=%llu seconds=%.2f\n",
                 static_cast<unsigned long long>(table.rows()),
                 static_cast<unsigned long long>(table.bytes()), seconds);
    if (table.folder() != nullptr) std::cout << table.folder()->string_view() << "\n";
    return absl::OkStatus();
  }
}

}  // namespace

ExitCode RunCheckpointCommand(int argc, const char* const* argv) {
  const std::string usage =
      absl::StrCat("simurgh checkpoint: saves the model of a running training\n\nUsage:\n",
                   kCheckpointUsage, "\n");
  namespace po = boost::program_options;
  po::options_description options("Options");
  std::vector<std::string> overrides;
  std::string directory;
  options.add_options()("help", "print this help and exit")(
      "directory", po::value(&directory)->value_name("FOLDER"),
      "save to FOLDER, once the save of the end to checkpoint.directory has failed")(
      "set", po::value(&overrides)->value_name("KEY=VALUE")->composing(),
      "override a key of CONFIG; may be repeated");
  std::vector<std::string> words;
  const StatusOr<bool> runs =
      ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kNotes}, options, std::cout, &words);
  if (!runs.ok()) return Fail(runs.status());
  if (!*runs) return ExitCode::kOk;
  if (words.empty()) return Fail(OptionProblem("checkpoint: CONFIG is missing"));
  if (words.size() > 1) {
    return Fail(OptionProblem(absl::StrCat("unexpected argument '", words[1], "'")));
  }
  if (const Status ready = InitLogging("simurgh", "warn"); !ready.ok()) return Fail(ready);
  if (!directory.empty()) directory = std::filesystem::absolute(directory).lexically_normal();
  const Status saved = Save(words[0], overrides, directory);
  return saved.ok() ? ExitCode::kOk : Fail(saved);
}

}  // namespace simurgh
