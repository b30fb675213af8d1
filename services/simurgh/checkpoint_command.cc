#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "config/cluster_config.h"
#include "config/uri.h"
#include "services/api/methods.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/training_watch.h"
#include "telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kCheckpointNotes[] =
    R"(The first nn-worker of CONFIG saves the model before the next batch that it reads. Training
continues meanwhile. The command waits, and prints the path of the checkpoint on stdout. A
training whose last save has failed saves again, and ends. With --directory it saves to another
folder, which has no model, and which all daemons see at this path.

CONFIG and --set: as of the training. It needs checkpoint.directory
and nn_worker.instances.0.address.

Exit codes:
  0  saved
  2  bad arguments or configuration
  3  not saved; stderr has the reason
)";

// Calls rank 0. request, directory: see SaveCheckpointRequest.
StatusOr<rpc::Received<api::SaveCheckpoint::Response>> Ask(FirstTrainer& trainer, uint64_t request,
                                                           const std::string& directory) {
  constexpr std::chrono::seconds kTimeout{10};
  flatbuffers::FlatBufferBuilder builder;
  const auto folder = builder.CreateString(directory);
  const auto root = api::wire::CreateSaveCheckpointRequest(builder, request, folder);
  auto answer = trainer.Call(api::kSaveCheckpoint, {builder, root}, kTimeout).get();
  if (answer.ok() || !absl::IsUnavailable(answer.status())) return answer;
  if (request > 0) {
    return absl::UnavailableError(absl::StrCat("the nn-worker at ", trainer.address(),
                                               " ended before it had saved; its log has the "
                                               "reason"));
  }
  return absl::UnavailableError(
      absl::StrCat(answer.status().message(),
                   "; no training listens there. Start one with nn_worker.instances.0.address and "
                   "checkpoint.directory, and without --standalone"));
}

// Saves the model, and prints the progress. directory: value of --directory; may be empty.
StatusOr<ExitCode> Save(const ConfigArguments& arguments, const std::string& directory, bool json) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "warn"));
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, arguments.Load());
  SIMURGH_ASSIGN_OR_RETURN(const auto trainer, FirstTrainer::Connect(config, "nn-worker"));
  ProgressLine line;
  for (uint64_t request = 0;;) {
    SIMURGH_ASSIGN_OR_RETURN(const auto answer, Ask(*trainer, request, directory));
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
    const std::string folder = table.folder() == nullptr ? "" : table.folder()->str();
    if (json) {
      PrintJson({{"folder", folder},
                 {"rows", table.rows()},
                 {"bytes", table.bytes()},
                 {"seconds", seconds}});
    } else if (!folder.empty()) {
      std::cout << folder << "\n";
    }
    return ExitCode::kOk;
  }
}

}  // namespace

ExitCode RunCheckpointCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  po::options_description options("Options");
  std::string directory;
  bool json = false;
  AddJsonOption(options, &json);
  options.add_options()(
      "directory", po::value(&directory)->value_name("FOLDER"),
      "save to FOLDER, once the save of the end to checkpoint.directory has failed");
  return RunConfigCommand(
      argc, argv,
      {"checkpoint: saves the model of a running training", kCheckpointUsage, kCheckpointNotes},
      options, [&](const ConfigArguments& config) {
        if (!directory.empty()) directory = AbsoluteFolder(directory);
        return Save(config, directory, json);
      });
}

}  // namespace simurgh
