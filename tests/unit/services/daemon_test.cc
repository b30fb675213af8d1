#include "services/runtime/daemon.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <semaphore>
#include <sstream>
#include <system_error>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <catch2/catch.hpp>

#include "base/log.h"
#include "services/runtime/command_line.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/process.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

constexpr char kConfig[] = "config/adult.yaml";
constexpr char kAnyPort[] = "embedding_ps.instances.0.metrics=127.0.0.1:0";

DaemonDescription Description() {
  DaemonDescription description;
  description.role = "embedding-ps";
  description.usage.program = "simurgh-test";
  description.usage.summary = "A daemon without a purpose.";
  description.instances_key = "embedding_ps.instances";
  description.instances = [](const ClusterConfig& config) -> const std::vector<InstanceConfig>& {
    return config.embedding_ps.instances;
  };
  return description;
}

// Hooks of the test; by default they succeed without effect.
struct Script {
  std::function<Status(DaemonContext&)> start = [](DaemonContext&) { return absl::OkStatus(); };
  std::function<Status(DaemonContext&)> run;  // Without one: Daemon's own.
  std::function<Status(const ClusterConfig&)> check;
  std::function<Status(DaemonContext&)> drain = [](DaemonContext&) { return absl::OkStatus(); };
};

class ScriptedDaemon : public Daemon {
 public:
  ScriptedDaemon(const Script& script, DaemonContext& context)
      : script_(script), context_(context) {}

  Status Run(std::stop_token stop) override {
    return script_.run ? script_.run(context_) : Daemon::Run(std::move(stop));
  }
  void Drain(std::chrono::steady_clock::time_point) override {
    if (const Status status = script_.drain(context_); !status.ok()) context_.Fail(status);
  }

 private:
  const Script& script_;
  DaemonContext& context_;
};

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

Outcome RunWith(const Script& script, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "simurgh-test");
  std::ostringstream out;
  std::ostringstream err;
  std::streambuf* const real_out = std::cout.rdbuf(out.rdbuf());
  std::streambuf* const real_err = std::cerr.rdbuf(err.rdbuf());
  DaemonDescription description = Description();
  description.check = script.check;
  const int code =
      RunDaemon(description, static_cast<int>(arguments.size()), arguments.data(),
                [&script](DaemonContext& context) -> StatusOr<std::unique_ptr<Daemon>> {
                  SIMURGH_RETURN_IF_ERROR(script.start(context));
                  return std::make_unique<ScriptedDaemon>(script, context);
                });
  std::cout.rdbuf(real_out);
  std::cerr.rdbuf(real_err);
  UNSCOPED_INFO(err.str());
  return {code, out.str(), err.str()};
}

std::vector<const char*> Good() {
  return {"--config", kConfig, "--set", kAnyPort, "--log-level", "off"};
}

Script MustNotStart() {
  Script script;
  script.start = [](DaemonContext&) -> Status {
    FAIL("started");
    return absl::OkStatus();
  };
  return script;
}

TEST_CASE("--check-config reports what the daemon's own check refuses") {
  Script script = MustNotStart();
  script.check = [](const ClusterConfig& config) {
    return absl::InvalidArgumentError(config.name + " lacks a folder");
  };
  const Outcome outcome = RunWith(script, {"--config", kConfig, "--check-config"});
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "simurgh-test: error: adult lacks a folder\n");
  CHECK(outcome.out.empty());
}

TEST_CASE("--check-config prints ok and starts nothing") {
  const Outcome outcome = RunWith(MustNotStart(), {"--config", kConfig, "--check-config"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::StartsWith("ok: config/adult.yaml") && Catch::Contains("'adult'"));
  CHECK(outcome.err.empty());
}

// A full disk.
class FullBuffer : public std::streambuf {};

TEST_CASE("Output that is lost is an error") {
  FullBuffer full;
  std::ostringstream err;
  std::streambuf* const real_out = std::cout.rdbuf(&full);
  std::streambuf* const real_err = std::cerr.rdbuf(err.rdbuf());
  const char* const option =
      GENERATE("--help", "--version", "--describe-config", "--describe-metrics");
  const std::vector<const char*> arguments{"simurgh-test", option};
  const int code =
      RunDaemon(Description(), static_cast<int>(arguments.size()), arguments.data(),
                [](DaemonContext&) -> StatusOr<std::unique_ptr<Daemon>> { return nullptr; });
  std::cout.rdbuf(real_out);  // Also clears the error.
  std::cerr.rdbuf(real_err);
  CHECK(code == 3);
  CHECK_THAT(err.str(), Catch::StartsWith("simurgh-test: error: cannot write to stdout, its "
                                          "output is incomplete"));
}

TEST_CASE("bad flags and configurations exit with 2 and one message") {
  struct Wrong {
    std::vector<const char*> arguments;
    const char* message;
  };
  const Wrong wrong = GENERATE(values<Wrong>({
      {{"--confg", kConfig}, "--confg"},
      {{"--config", "config/none.yaml"}, "config/none.yaml"},
      {{"--config", kConfig, "--set", "embedding_ps.partitions=0"}, "embedding_ps.partitions"},
      {{"--config", kConfig, "--index", "9"}, "embedding_ps.instances"},
      {{"--config", kConfig, "--log-level", "loud"}, "--log-level: "},
  }));
  const bool check = GENERATE(false, true);
  std::vector<const char*> arguments = wrong.arguments;
  if (check) arguments.push_back("--check-config");
  const Outcome outcome = RunWith(MustNotStart(), arguments);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Catch::StartsWith("simurgh-test: error: "));
  CHECK_THAT(outcome.err, Catch::Contains(wrong.message));
}

TEST_CASE("an exception at the start exits with 3 and names the limit") {
  Script script;
  script.start = [](DaemonContext&) -> Status {
    throw boost::system::system_error(EMFILE, boost::system::system_category(), "epoll");
  };
  const Outcome files = RunWith(script, Good());
  CHECK(files.code == 3);
  CHECK_THAT(files.err,
             Catch::StartsWith("simurgh-test: error: epoll") && Catch::Contains("ulimit -n"));
  script.start = [](DaemonContext&) -> Status {
    throw std::system_error(EAGAIN, std::system_category(), "thread");
  };
  const Outcome threads = RunWith(script, Good());
  CHECK(threads.code == 3);
  CHECK_THAT(threads.err, Catch::Contains("ulimit -u"));
}

TEST_CASE("a write beyond the limit of file sizes is an error, not a signal") {
  Script script;
  script.run = [](DaemonContext&) {
    std::raise(SIGXFSZ);
    return absl::OkStatus();
  };
  CHECK(RunWith(script, Good()).code == 0);
}

TEST_CASE("a daemon that ends by itself drains and exits with 0") {
  Script script;
  std::vector<std::string> order;
  script.start = [&](DaemonContext& context) {
    order.push_back("start: " + context.readiness().reason);
    context.SetReady();
    CHECK(context.readiness().ready);
    return absl::OkStatus();
  };
  script.run = [&](DaemonContext&) {
    order.push_back("run");
    return absl::OkStatus();
  };
  script.drain = [&](DaemonContext& context) {
    context.SetReady();  // Too late.
    order.push_back("drain: " + context.readiness().reason);
    return absl::OkStatus();
  };
  CHECK(RunWith(script, Good()).code == 0);
  CHECK(order == std::vector<std::string>{"start: starting", "run", "drain: stopping"});
}

TEST_CASE("a signal stops a waiting daemon in order") {
  const int number = GENERATE(SIGTERM, SIGINT);
  Script script;
  std::thread sender;
  bool drained = false;
  script.start = [&](DaemonContext&) {
    sender = std::thread([number] { kill(getpid(), number); });
    return absl::OkStatus();
  };
  script.drain = [&](DaemonContext&) {
    drained = true;
    return absl::OkStatus();
  };
  CHECK(RunWith(script, Good()).code == 0);
  sender.join();
  CHECK(drained);
}

TEST_CASE("worker threads of a daemon receive no signals") {
  const auto blocked = [] {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    return sigismember(&set, SIGTERM) == 1 && sigismember(&set, SIGINT) == 1 &&
           sigismember(&set, SIGHUP) == 1;
  };
  Script script;
  bool here = false;
  bool in_its_threads = false;
  script.start = [&](DaemonContext&) {
    here = blocked();
    std::thread([&] { in_its_threads = blocked(); }).join();
    kill(getpid(), SIGTERM);
    return absl::OkStatus();
  };
  // Twice: the second run starts with signals blocked in the calling thread.
  for (int run = 0; run < 2; ++run) {
    CHECK(RunWith(script, Good()).code == 0);
    CHECK(here);
    CHECK(in_its_threads);
  }
}

TEST_CASE("the caller of a thread gets its exceptions") {
  IoThread thread("test");
  CHECK_THROWS_AS(thread.RunAndWait([] { throw std::bad_alloc(); }), std::bad_alloc);
  bool ran = false;
  thread.RunAndWait([&] { ran = true; });
  CHECK(ran);
}

TEST_CASE("a daemon raises its limit of open files to the hard limit") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 128;
  REQUIRE(low.rlim_cur < before.rlim_max);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  Script script;
  rlimit running{};
  script.run = [&](DaemonContext&) {
    getrlimit(RLIMIT_NOFILE, &running);
    return absl::OkStatus();
  };
  CHECK(RunWith(script, Good()).code == 0);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(running.rlim_cur == before.rlim_max);
  CHECK(running.rlim_max == before.rlim_max);
}

TEST_CASE("too many connections for the limit of open files: the error names the remedy") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Status few = RaiseOpenFiles("rpc.max_connections", 1);
  const Status many = RaiseOpenFiles("rpc.max_connections", UINT32_MAX);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(few == absl::OkStatus());
  CHECK(absl::IsResourceExhausted(many));
  CHECK_THAT(std::string(many.message()),
             Catch::StartsWith("rpc.max_connections: ") && Catch::Contains("ulimit -Hn"));
}

TEST_CASE("errors of each stage have their exit code") {
  const auto failing = [](const Status& status) {
    return [status](DaemonContext&) { return status; };
  };
  Script script;
  script.run = failing(absl::OkStatus());
  int expected = 3;
  SECTION("a configuration that only starting finds bad") {
    script.start = failing(absl::InvalidArgumentError("address"));
    expected = 2;
  }
  SECTION("an address in use") {
    script.start = failing(absl::AlreadyExistsError("port"));
    expected = 2;
  }
  SECTION("start") { script.start = failing(absl::ResourceExhaustedError("memory")); }
  SECTION("run") { script.run = failing(absl::UnavailableError("gone")); }
  SECTION("drain") { script.drain = failing(absl::DeadlineExceededError("slow")); }
  SECTION("a failure reported by another thread while the main thread waits") {
    std::thread reporter;
    script.run = nullptr;
    script.start = [&](DaemonContext& context) {
      reporter = std::thread([&context] { context.Fail(absl::DataLossError("disk")); });
      return absl::OkStatus();
    };
    script.drain = [&](DaemonContext&) {
      reporter.join();  // The context ends with the daemon.
      return absl::OkStatus();
    };
    CHECK(RunWith(script, Good()).code == 3);
    return;
  }
  CHECK(RunWith(script, Good()).code == expected);
}

TEST_CASE("a metrics port in use exits with 2") {
  Script script;
  script.run = [](DaemonContext& context) {
    auto taken = HttpEndpoint::Start({.address = "127.0.0.1:0", .key = "test", .process = "test/0"},
                                     context.metrics(), [] { return Readiness{true, ""}; });
    REQUIRE(taken.ok());
    const std::string clash = "embedding_ps.instances.0.metrics=" + (*taken)->address();
    CHECK(
        RunWith(MustNotStart(), {"--config", kConfig, "--set", clash.c_str(), "--log-level", "off"})
            .code == 2);
    return absl::OkStatus();
  };
  CHECK(RunWith(script, Good()).code == 0);
}

TEST_CASE("a second signal exits at once") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Script script;
    script.start = [](DaemonContext&) {
      kill(getpid(), SIGTERM);
      return absl::OkStatus();
    };
    script.drain = [](DaemonContext&) -> Status {
      kill(getpid(), SIGTERM);
      std::binary_semaphore never(0);
      never.acquire();
      return absl::OkStatus();
    };
    _exit(RunWith(script, Good()).code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::kInterrupted));
}

TEST_CASE("a signal after a stop by a call of another process is the first one") {
  int log[2];
  REQUIRE(pipe(log) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);  // Ends a wait for a line that never comes.
    dup2(log[1], STDERR_FILENO);
    Script script;
    script.run = [](DaemonContext& context) {
      context.stop_source().request_stop();
      return absl::OkStatus();
    };
    script.drain = [&](DaemonContext&) {
      kill(getpid(), SIGTERM);
      std::string text;
      while (text.find("SIGTERM: stopping") == std::string::npos) {
        char byte = 0;
        if (read(log[0], &byte, 1) == 1) text.push_back(byte);
      }
      return absl::OkStatus();
    };
    _exit(RunWith(script, {"--config", kConfig, "--set", kAnyPort, "--log-level", "info"}).code);
  }
  close(log[0]);
  close(log[1]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("SIGHUP reloads the configuration with its overrides and passes it to the daemon") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/reloaded.yaml";
  std::filesystem::create_directory_symlink(std::filesystem::absolute("config/data"),
                                            folder.path() + "/data");
  const auto write = [&path](const std::string& rate) {
    std::ifstream committed("config/adult-persia.yaml");
    std::string text((std::istreambuf_iterator<char>(committed)), std::istreambuf_iterator<char>());
    const size_t at = text.find("learning_rate: ");
    REQUIRE(at != std::string::npos);
    text.replace(at, text.find_first_of(",}\n", at) - at, "learning_rate: " + rate);
    std::ofstream(path) << text;
  };
  write("0.25");
  std::binary_semaphore read_again(0);
  float rate = 0;
  uint32_t partitions = 0;
  Script script;
  script.start = [&](DaemonContext& context) {
    context.SetReload([&](const ClusterConfig& config) {
      rate = config.tables[0].optimizer.learning_rate;
      partitions = config.embedding_ps.partitions;
      read_again.release();
      return absl::OkStatus();
    });
    return absl::OkStatus();
  };
  script.run = [&](DaemonContext& context) {
    CHECK(context.config().tables[0].optimizer.learning_rate == 0.25F);
    write("0.5");
    kill(getpid(), SIGHUP);
    read_again.acquire();
    return absl::OkStatus();
  };
  CHECK(RunWith(script, {"--config", path.c_str(), "--set", kAnyPort, "--set",
                         "embedding_ps.partitions=3", "--log-level", "off"})
            .code == 0);
  CHECK(rate == 0.5F);
  CHECK(partitions == 3);
}

TEST_CASE("a reload that changes keys shared with peers is rejected") {
  Script script;
  script.run = [](DaemonContext& context) {
    ClusterConfig config = context.config();
    CHECK(context.Reload(config).code() == absl::StatusCode::kFailedPrecondition);
    int taken = 0;
    context.SetReload([&](const ClusterConfig&) {
      ++taken;
      return absl::OkStatus();
    });
    config.tables[0].optimizer.learning_rate = 1.0F;
    CHECK(context.Reload(config).ok());
    CHECK(taken == 1);
    config.settings["tables.0.dim"] = "1000";
    CHECK(context.Reload(config).code() == absl::StatusCode::kFailedPrecondition);
    CHECK(taken == 1);
    context.BeginStop();
    CHECK(context.Reload(context.config()).code() == absl::StatusCode::kFailedPrecondition);
    return absl::OkStatus();
  };
  CHECK(RunWith(script, Good()).code == 0);
}

TEST_CASE("a process's HELLO has its incarnation") {
  Script script;
  std::vector<rpc::Hello> hellos;
  script.run = [&](DaemonContext& context) {
    hellos.push_back(context.hello());
    CHECK(context.hello().incarnation == hellos.back().incarnation);
    CHECK_THAT(context.metrics().Serialize(),
               Catch::Contains("simurgh_build_info{service=\"embedding-ps\",version=\"") &&
                   Catch::Contains("simurgh_process_resident_bytes") &&
                   Catch::Contains("simurgh_process_uptime_seconds"));
    return absl::OkStatus();
  };
  REQUIRE(RunWith(script, Good()).code == 0);
  REQUIRE(RunWith(script, Good()).code == 0);
  REQUIRE(hellos.size() == 2);
  CHECK(hellos[0].cluster == "adult");
  CHECK(hellos[0].role == "embedding-ps");
  CHECK(hellos[0].index == 0);
  CHECK(hellos[0].configuration.find("cluster.name = adult\n") != std::string::npos);
  CHECK(hellos[0].configuration == hellos[1].configuration);
  CHECK(hellos[0].incarnation != 0);
  CHECK(hellos[0].incarnation != hellos[1].incarnation);
}

}  // namespace
}  // namespace simurgh
