// Ranks with NCCL, one on each device of the machine. Only a machine with two devices shows sums
// between devices.

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/collective/rank_threads.h"
#include "tests/unit/nn/cuda/nccl_run.h"

namespace simurgh::testing {
namespace {

using Precision = AllReduceConfig::Precision;

// A rank's process, from its environment.
struct RankProcess {
  uint32_t rank;
  uint32_t ranks;
  AllReduceConfig allreduce;
  std::string folder;  // Of the ranks' sockets and weights.
};

constexpr char kRankVariable[] = "SIMURGH_TEST_RANK";

std::string SocketOf(const std::string& folder, uint32_t rank) {
  return absl::StrCat(folder, "/rank", rank, ".socket");
}
std::string WeightsOf(const std::string& folder, uint32_t rank) {
  return absl::StrCat(folder, "/rank", rank, ".weights");
}

// Starts this program with the case below. Returns its process id, or -1.
pid_t StartRank(const RankProcess& process) {
  const std::string program = "/proc/self/exe";
  const std::string name = "a rank of several processes";
  const std::string variable =
      absl::StrCat(kRankVariable, "=", process.rank, " ", process.ranks, " ",
                   static_cast<int>(process.allreduce.precision), " ", process.folder);
  std::vector<char*> environment;
  for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  char* const arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(name.c_str()),
                             nullptr};
  pid_t id = -1;
  const int error =
      posix_spawn(&id, program.c_str(), nullptr, nullptr, arguments, environment.data());
  return error == 0 ? id : -1;
}

TEST_CASE("a rank of several processes", "[.]") {
  const char* const variable = std::getenv(kRankVariable);
  REQUIRE(variable != nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::istringstream words(variable);
  RankProcess process{};
  int precision = 0;
  words >> process.rank >> process.ranks >> precision >> process.folder;
  process.allreduce = {static_cast<Precision>(precision), 4'096};
  std::vector<std::string> addresses;
  for (uint32_t rank = 0; rank < process.ranks; ++rank) {
    addresses.push_back(SocketOf(process.folder, rank));
  }
  RankServer server({.rank = process.rank, .ranks = process.ranks, .timeout = kNcclTimeout},
                    addresses[process.rank]);
  const auto collective = server.Join(addresses);
  REQUIRE(collective.ok());
  const RankRun run = TrainAsRank(**collective, process.allreduce);
  INFO(run.status.message());
  REQUIRE(run.status.ok());
  const TowerRankRun towers = TrainTowersAsRank(**collective, {.uniform = 6});
  INFO(towers.status.message());
  REQUIRE(towers.status.ok());
  std::ofstream file(WeightsOf(process.folder, process.rank), std::ios::binary);
  for (const std::vector<float>* weights :
       {&run.run.parameters, &towers.run.parameters, &towers.run.state}) {
    file.write(reinterpret_cast<const char*>(weights->data()),
               static_cast<std::streamsize>(weights->size() * sizeof(float)));
  }
  REQUIRE(file.good());
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A process a rank: NVIDIA's guide warns of deadlocks with several devices in a process.
TEST_CASE("ranks on all devices of the machine end with the same weights") {
  int devices = 0;
  while (cuda::FindCudaDevice(devices).ok()) ++devices;
  if (devices < 2) SIMURGH_SKIP("the machine has one CUDA device");
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const TemporaryFolder folder;
    std::vector<pid_t> processes;
    for (uint32_t rank = 0; rank < static_cast<uint32_t>(devices); ++rank) {
      processes.push_back(
          StartRank({rank, static_cast<uint32_t>(devices), {precision}, folder.path()}));
      REQUIRE(processes.back() > 0);
    }
    for (const pid_t process : processes) {
      int status = -1;
      REQUIRE(waitpid(process, &status, 0) == process);
      CHECK(status == 0);
    }
    const std::string first = ReadFile(WeightsOf(folder.path(), 0));
    CHECK_FALSE(first.empty());
    for (uint32_t rank = 1; rank < static_cast<uint32_t>(devices); ++rank) {
      CHECK(ReadFile(WeightsOf(folder.path(), rank)) == first);
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
