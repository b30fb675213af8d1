#include "bench/support/process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace simurgh::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr useconds_t kPollMicroseconds = 2'000;

int MillisecondsUntil(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left);
}

}  // namespace

StatusOr<Process> Process::Start(const std::string& program,
                                 const std::vector<std::string>& arguments) {
  int input[2] = {-1, -1};
  int output[2] = {-1, -1};
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t id = 0;
  const int failure = ::posix_spawn(&id, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  Process process(failure == 0 ? id : 0, input[1], output[0]);
  if (failure != 0) {
    return absl::NotFoundError(absl::StrCat(program, ": ", std::strerror(failure)));
  }
  return process;
}

Process::Process(Process&& other) noexcept
    : id_(std::exchange(other.id_, 0)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)) {}

Process::~Process() {
  if (id_ > 0) {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  if (input_ >= 0) ::close(input_);
  if (output_ >= 0) ::close(output_);
}

Status Process::Read(std::span<std::byte> place, Clock::time_point deadline) {
  while (!place.empty()) {
    pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
    const int count = ::poll(&ready, 1, MillisecondsUntil(deadline));
    if (count == 0) return absl::DeadlineExceededError("the process printed nothing");
    const ssize_t got = ::read(output_, place.data(), place.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::UnavailableError("the process has ended before its answer");
    place = place.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

StatusOr<std::string> Process::ReadLine(Clock::time_point deadline) {
  std::string line;
  while (true) {
    char next = 0;
    SIMURGH_RETURN_IF_ERROR(Read(std::as_writable_bytes(std::span(&next, 1)), deadline));
    if (next == '\n') return line;
    line.push_back(next);
  }
}

Status Process::Stop() {
  ::close(std::exchange(input_, -1));
  const Clock::time_point deadline = Clock::now() + kPatience;
  int outcome = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(id_, &outcome, WNOHANG)) == 0 && Clock::now() < deadline) {
    ::usleep(kPollMicroseconds);
  }
  if (ended == 0) return absl::InternalError("the process did not end");
  id_ = 0;
  if (ended > 0 && WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the process ended with status ", outcome));
}

}  // namespace simurgh::bench
