// Runs a peer's client or server in a child process.

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <sys/prctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "bench/micro/rpc/peer.h"

namespace simurgh::bench {
namespace {

constexpr char kChild[] = "@child";
constexpr size_t kChildArguments = 10;

// Ends this process when the parent closes our standard input.
void EndWithInput() {
  std::thread([] {
    char ignored = 0;
    while (::read(STDIN_FILENO, &ignored, 1) > 0) {
    }
    ::_exit(EXIT_SUCCESS);
  }).detach();
}

Status WriteAll(const void* bytes, size_t size) {
  if (::write(STDOUT_FILENO, bytes, size) != static_cast<ssize_t>(size)) {
    return absl::UnavailableError("the parent process closed the pipe");
  }
  return absl::OkStatus();
}

Status RunRole(const ChildRole& role, const Peer& peer) {
  if (role.server == 0) {
    EndWithInput();
    return peer.serve(role.point, role.address, [](const std::string& address) {
      const std::string line = address + "\n";
      if (!WriteAll(line.data(), line.size()).ok()) ::_exit(EXIT_FAILURE);
    });
  }
  Workload workload(role.point, role.server);
  SIMURGH_RETURN_IF_ERROR(peer.drive(role.point, role.address, workload));
  const Sample sample = workload.Result();
  return WriteAll(&sample, sizeof(sample));
}

}  // namespace

bool IsChild(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments[0] == kChild;
}

std::vector<std::string> ChildArguments(const ChildRole& role) {
  return {kChild,
          role.peer,
          std::to_string(static_cast<int>(role.point.work)),
          role.point.transport,
          std::to_string(role.point.bytes),
          std::to_string(role.point.in_flight),
          std::to_string(role.point.seconds),
          std::to_string(role.point.spin_us),
          role.address,
          std::to_string(role.server)};
}

int RunChild(const std::vector<std::string>& arguments, const std::vector<Peer>& peers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  if (!IsChild(arguments) || arguments.size() != kChildArguments) {
    std::cerr << "this program is started by bench_rpc\n";
    return 2;
  }
  ChildRole role;
  role.peer = arguments[1];
  role.point.work = static_cast<Work>(std::stoi(arguments[2]));
  role.point.transport = arguments[3];
  role.point.bytes = std::stoull(arguments[4]);
  role.point.in_flight = static_cast<uint32_t>(std::stoul(arguments[5]));
  role.point.seconds = std::stod(arguments[6]);
  role.point.spin_us = static_cast<uint32_t>(std::stoul(arguments[7]));
  role.address = arguments[8];
  role.server = std::stoi(arguments[9]);
  for (const Peer& peer : peers) {
    if (peer.name != role.peer) continue;
    const Status status = RunRole(role, peer);
    if (status.ok()) return EXIT_SUCCESS;
    std::cerr << absl::StrCat("bench_rpc: ", peer.name, role.server == 0 ? " server" : " client",
                              ": ", status.ToString(), "\n");
    return EXIT_FAILURE;
  }
  std::cerr << "bench_rpc: no peer '" << role.peer << "'\n";
  return EXIT_FAILURE;
}

}  // namespace simurgh::bench
