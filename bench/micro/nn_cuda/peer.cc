#include "bench/micro/nn_cuda/peer.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace simurgh::bench {
namespace {

constexpr char kProgram[] = "bench/peers/pytorch_nn.py";
constexpr char kInstalled[] = "build/peers/pytorch/bin/python";  // From install_pytorch.sh.
constexpr int kSkipped = 77;

std::string Python() {
  if (const char* chosen = std::getenv("PYTHON"); chosen != nullptr) return chosen;
  return std::filesystem::exists(kInstalled) ? kInstalled : "python3";
}

// Runs a command with our standard output. Returns its exit code.
StatusOr<int> Run(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0) {
    return absl::InternalError(absl::StrCat("cannot start ", command[0], ": ", strerror(error)));
  }
  int outcome = 0;
  while (waitpid(process, &outcome, 0) < 0) {
    if (errno != EINTR) return absl::InternalError("the peer was lost");
  }
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
}

}  // namespace

Status RunPeer(const NnCudaOptions& options, const std::vector<std::string>& steps) {
  if (!std::filesystem::exists(kProgram)) {
    return absl::InternalError(absl::StrCat(kProgram, " is missing; start in the repository"));
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> ours(std::tmpfile(), &std::fclose);
  if (ours == nullptr) return absl::InternalError("no temporary file for the peer");
  for (const std::string& step : steps) std::fprintf(ours.get(), "%s\n", step.c_str());
  std::fflush(ours.get());
  std::fflush(stdout);
  SIMURGH_ASSIGN_OR_RETURN(
      const int code,
      Run({Python(), kProgram, "--network", absl::StrJoin(options.networks, ","), "--batch",
           absl::StrJoin(options.batches, ","), "--precision",
           absl::StrJoin(options.precisions, ","), "--repeats", absl::StrCat(options.repeats),
           "--beside", absl::StrCat("/proc/", getpid(), "/fd/", fileno(ours.get()))}));
  if (code == 0 || code == kSkipped) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the peer ended with ", code));
}

}  // namespace simurgh::bench
