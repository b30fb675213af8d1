// simurgh up, status, logs and down with real daemons.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/support/waiting.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

constexpr std::chrono::seconds kDeadline{120};

struct Outcome {
  int code = -1;
  std::string out;
  std::string errors;
};

// Commands for one configuration, whose daemons have fixed addresses of their own.
class Commands {
 public:
  explicit Commands(const std::vector<std::string>& overrides) {
    const std::string host = OwnHost();
    const auto instance = [&](const std::string& name, int port) {
      return absl::StrCat("{address: 'unix://", folder_.path(), "/", name, "', metrics: '", host,
                          ":", port, "'}");
    };
    Set(absl::StrCat("embedding_ps.instances=[", instance("ps-0", 7501), ",",
                     instance("ps-1", 7502), "]"));
    Set("embedding_worker.instances=[" + instance("worker", 7511) + "]");
    Set("nn_worker.instances=[" + instance("nn", 7521) + "]");
    for (const std::string& override : overrides) Set(override);
  }
  // Whatever a failed check has left running.
  ~Commands() { Run({"down", "--now"}); }

  Outcome Run(const std::vector<std::string>& command) {
    std::vector<std::string> words{command[0], "config/adult-persia.yaml"};
    words.insert(words.end(), command.begin() + 1, command.end());
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    if (command[0] != "status" && command[0] != "doctor")
      words.insert(words.end(), {"--run", run()});
    DaemonProcess process("simurgh", words, folder_.Path(absl::StrCat(runs_++, ".log")));
    Outcome outcome{.code = process.Wait(kDeadline).value_or(-1)};
    outcome.out = process.output();
    outcome.errors = process.log();
    return outcome;
  }

  // Asks until the output matches.
  template <typename Matcher>
  Outcome AwaitStatus(const Matcher& wanted, bool json = false) {
    std::vector<std::string> command{"status"};
    if (json) command.emplace_back("--json");
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    Outcome outcome;
    do {
      outcome = Run(command);
    } while (!wanted.match(outcome.out) && std::chrono::steady_clock::now() < end);
    CHECK_THAT(outcome.out, wanted);
    return outcome;
  }

  std::string run() const { return folder_.Path("run"); }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(run() + "/" + name).rdbuf();
    return text.str();
  }

 private:
  void Set(const std::string& override) {
    arguments_.insert(arguments_.end(), {"--set", override});
  }

  const TemporaryFolder folder_;
  std::vector<std::string> arguments_;
  int runs_ = 0;
};

const std::vector<std::string> kLong{"training.max_steps=100000000", "training.epochs=1000000"};

// The pids of a state file.
std::vector<pid_t> PidsOf(const std::string& state) {
  std::vector<pid_t> pids;
  std::istringstream lines(state);
  for (std::string name, pid, rest; std::getline(lines, name, '\t') &&
                                    std::getline(lines, pid, '\t') && std::getline(lines, rest);) {
    pids.push_back(static_cast<pid_t>(std::stoi(pid)));
  }
  return pids;
}

// Empty if the process has ended.
std::string CommandLineOf(pid_t pid) {
  std::ostringstream text;
  text << std::ifstream(absl::StrCat("/proc/", pid, "/cmdline")).rdbuf();
  return text.str();
}

TEST_CASE("A cluster in the background: up, status, logs, down") {
  const TemporaryFolder model;
  std::vector<std::string> overrides = kLong;
  overrides.push_back("checkpoint.directory=" + model.Path("model"));
  Commands simurgh(overrides);
  CHECK(simurgh.Run({"status"}).code == 3);  // Nothing runs.
  const Outcome up = simurgh.Run({"up"});
  CAPTURE(up.errors);
  REQUIRE(up.code == 0);
  CHECK_THAT(up.out, Contains(simurgh.run()));
  const Outcome again = simurgh.Run({"up"});
  CHECK(again.code == 2);
  CHECK_THAT(again.errors, Contains("run already"));

  const Outcome status = simurgh.AwaitStatus(Contains("nn-worker/0         ready"));
  CHECK(status.code == 0);
  for (const char* name : {"embedding-ps/0", "embedding-ps/1", "embedding-worker/0"}) {
    CHECK_THAT(status.out, Contains(name));
  }
  CHECK_THAT(status.out, Contains("bound by "));
  // It is ready before its first step.
  const Outcome json = simurgh.AwaitStatus(
      Catch::Contains("\"ready\":true,") && Catch::Matches(".*\"samples_per_second\":[1-9].*\n"),
      /*json=*/true);
  CHECK(json.code == 0);
  const auto parsed = nlohmann::json::parse(json.out);
  CHECK(parsed["ready"] == true);
  CHECK(parsed["daemons"].size() == 4);
  CHECK(parsed["daemons"][3]["samples_per_second"] > 0);

  const std::vector<pid_t> pids = PidsOf(simurgh.Read("state"));
  CHECK(pids.size() == 5);
  for (const pid_t pid : pids) CHECK_THAT(CommandLineOf(pid), Contains("adult-persia.yaml"));
  CHECK_THAT(simurgh.Run({"logs"}).out, Contains("embedding-worker-0.log <==") &&
                                            Contains("nn-worker-0.log <==") &&
                                            Contains("simurgh.log <=="));
  const Outcome log = simurgh.Run({"logs", "embedding-ps/1"});
  CHECK_THAT(log.out, Contains("embedding-ps/1 main: starting: index=1"));
  CHECK_THAT(log.out, !Contains("embedding-ps/0"));
  CHECK(simurgh.Run({"logs", "embedding-ps/7"}).code == 2);

  const Outcome down = simurgh.Run({"down"});
  CAPTURE(down.errors);
  CHECK(down.code == 0);
  for (const pid_t pid : pids) CHECK(CommandLineOf(pid).empty());
  // In order: the trainer saved its model, since the servers still ran.
  CHECK_THAT(simurgh.Read("nn-worker-0.log"), Contains("exiting: code=0"));
  CHECK(!std::filesystem::is_empty(model.Path("model")));
  const Outcome gone = simurgh.Run({"status"});
  CHECK(gone.code == 3);
  CHECK_THAT(gone.out, Contains("unreachable"));
  const Outcome nothing = simurgh.Run({"down"});
  CHECK(nothing.code == 0);
  CHECK_THAT(nothing.out, Contains("no daemons run"));
}

TEST_CASE("A process that has got the pid of an ended run is left alone") {
  Commands simurgh(kLong);
  std::filesystem::create_directories(simurgh.run());
  // This test itself.
  std::ofstream(simurgh.run() + "/state") << "simurgh\t" << ::getpid() << "\t1\t\n";
  const Outcome down = simurgh.Run({"down"});
  CHECK(down.code == 0);
  CHECK_THAT(down.out, Contains("no daemons run"));
}

TEST_CASE("A run that cannot start is reported by up, and one that fails by down") {
  Commands bad({"data.train=[nowhere.csv]"});
  const Outcome up = bad.Run({"up"});
  CHECK(up.code == 2);
  CHECK_THAT(up.errors, Contains("data.train.0: cannot read"));

  Commands good(kLong);
  REQUIRE(good.Run({"up"}).code == 0);
  good.AwaitStatus(Contains("nn-worker/0         ready"));
  const std::vector<pid_t> pids = PidsOf(good.Read("state"));
  REQUIRE(pids.size() == 5);
  REQUIRE(::kill(pids[1], SIGKILL) == 0);  // Without checkpoint.directory, the run is over.
  REQUIRE(Eventually([&] { return Contains("exit\t3").match(good.Read("state")); }));
  CHECK(good.Read("state") == "exit\t3\n");
  CHECK_THAT(good.Read("simurgh.log"), Contains("embedding-ps-0 was killed by signal 9"));
}

TEST_CASE("The status names a daemon that waits, and why") {
  Commands simurgh(kLong);
  const std::string host = OwnHost();
  const TemporaryFolder folder;
  DaemonProcess worker(
      "embedding-worker",
      {"--config", "config/adult-persia.yaml", "--set",
       absl::StrCat("embedding_ps.instances=[{address: 'unix://", folder.Path("ps"), "'}]"),
       "--set",
       absl::StrCat("embedding_worker.instances=[{address: 'unix://", folder.Path("w"),
                    "', metrics: '", host, ":7511'}]")},
      folder.Path("worker.log"));
  REQUIRE(worker.WaitForLog("listening at", kDeadline));
  const Outcome status = simurgh.AwaitStatus(Contains("waiting for embedding-ps 0"));
  CHECK(status.code == 3);
  CHECK_THAT(status.out, Contains("embedding-worker/0  not ready") &&
                             Contains("nn-worker/0         unreachable"));
}

TEST_CASE("Commands are listed, described and completed") {
  const TemporaryFolder folder;
  int runs = 0;
  const auto run = [&](const std::vector<std::string>& words) {
    DaemonProcess process("simurgh", words, folder.Path(absl::StrCat(runs++)));
    CHECK(process.Wait(kDeadline) == 0);
    return process.output();
  };
  const std::string help = run({"--help"});
  for (const std::string command :
       {"train", "tune", "up", "down", "logs", "status", "plan", "trace", "checkpoint", "predict",
        "serve", "export", "model", "completion"}) {
    CAPTURE(command);
    CHECK_THAT(help, Contains("  simurgh " + command + " "));
    CHECK_THAT(run({command, "--help"}), Contains("simurgh " + command));
  }
  const std::string script = folder.Write("completion.bash", run({"completion", "bash"}));
  const std::string command = absl::StrCat(
      "source ", script, "; PATH=", std::getenv("SIMURGH_BIN_DIR"),
      ":$PATH; complete_words() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _simurgh; echo "
      "\"${COMPREPLY[*]}\"; }; complete_words simurgh d; complete_words simurgh status --w");
  const std::string answer = folder.Path("answer");
  REQUIRE(std::system(("bash -c '" + command + "' > " + answer).c_str()) == 0);
  std::ostringstream text;
  text << std::ifstream(answer).rdbuf();
  CHECK(text.str() == "doctor down\n--watch\n");
}

TEST_CASE("doctor names what is wrong, and how to mend it") {
  const TemporaryFolder folder;
  Commands commands({"checkpoint.directory=" + folder.Path("model")});
  const Outcome healthy = commands.Run({"doctor"});
  INFO(healthy.out << healthy.errors);
  CHECK(healthy.code == 0);
  CHECK_THAT(healthy.out, Contains("config/adult-persia.yaml is valid") &&
                              Contains("GiB are free") && Contains("nn-worker/0 does not run: ") &&
                              !Contains("error "));

  const auto findings = nlohmann::json::parse(commands.Run({"doctor", "--json"}).out);
  for (const auto& one : findings) CHECK((one["level"] == "ok" || one["level"] == "warn"));

  // A daemon of another version on a machine whose clock is late, by 3,000 to 3,050 s as its answer
  // takes, and a program on a port.
  const std::string host = OwnHost();
  const std::string fake = folder.Write("fake.py", R"(
import http.server, sys, time
class Fake(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = ('# HELP simurgh_build_info x\n# TYPE simurgh_build_info gauge\n'
                'simurgh_build_info{service="embedding-ps",version="0.0.1"} 1\n'
                'simurgh_ps_table_row_age_steps_bucket{table="a",le="0"} 3\n'
                'simurgh_ps_table_row_age_steps_bucket{table="a",le="3"} 43\n'
                'simurgh_ps_table_row_age_steps_count{table="a"} 100\n'
                f'simurgh_process_time_seconds {time.time() - 3050}\n')
        answer = text.encode() if self.path == '/metrics' else b'waiting for embedding-ps 7\n'
        if self.path != '/metrics' and 'hangs' in sys.argv: time.sleep(60)
        self.send_response(200 if self.path == '/metrics' else 503)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Fake)
print('ready', flush=True)
server.serve_forever()
)");
  const auto run_fake = [&](int port, const char* how = "") {
    const std::string command =
        absl::StrCat("echo $$; exec python3 ", fake, " ", host, " ", port, " ", how);
    FILE* const pipe = ::popen(command.c_str(), "r");
    int pid = 0;
    char ready[16] = "";
    REQUIRE(std::fscanf(pipe, "%d %15s", &pid, ready) == 2);
    return std::pair(pipe, pid);
  };
  const auto [daemon, daemon_pid] = run_fake(7501);
  const auto [other, other_pid] = run_fake(7999);
  const auto [slow, slow_pid] = run_fake(7502, "hangs");
  Commands wrong({"checkpoint.directory=" + folder.Path("model"), "training.staleness=4",
                  absl::StrCat("embedding_worker.instances.0.address=", host, ":7999"),
                  "nn_worker.instances.0.metrics=nowhere.invalid:7521",
                  "data.train=[missing.csv]"});
  const Outcome sick = wrong.Run({"doctor"});
  const std::string token = folder.Write("token", "0123456789abcdef0123456789abcdef");
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  Commands open(
      {"rpc.security=insecure", "cluster.token_file=" + token,
       absl::StrCat("embedding_worker.instances=[{address: '", host,
                    ":7998', listen: '0.0.0.0:7999', metrics: '", host, ":7997'}]"),
       absl::StrCat("nn_worker.instances=[{address: '", host, ":7996', listen: '0.0.0.0:7996'}]")});
  const Outcome listens = open.Run({"doctor"});
  for (const auto& [pipe, pid] :
       {std::pair(daemon, daemon_pid), std::pair(other, other_pid), std::pair(slow, slow_pid)}) {
    ::kill(pid, SIGTERM);
    ::pclose(pipe);
  }
  INFO(sick.out << sick.errors);
  CHECK(sick.code == 3);
  CHECK_THAT(sick.out,
             Contains("warn   ") && Contains("missing.csv") &&
                 Contains("needed where nn-workers") &&
                 Contains("error  embedding-ps/0: its version is 0.0.1, and this program's is ") &&
                 Contains("error  embedding-ps/0: not ready: waiting for embedding-ps 7") &&
                 Contains("error  embedding-ps/0: its clock differs by -30") &&
                 Contains("warn   embedding-ps/0: 40 % of its reads of rows were 1 to 3 steps") &&
                 Contains("error  nn-worker/0: the name 'nowhere.invalid' does not resolve") &&
                 Contains(absl::StrCat("error  embedding-worker/0 does not run: ", host,
                                       ":7999: Address already in use; stop the program")) &&
                 Contains("error  embedding-ps/1: /readyz does not answer: "));
  CHECK_THAT(listens.out,
             Contains("error  embedding-worker/0 does not run: 0.0.0.0:7999: Address already") &&
                 Contains("warn   nn-worker/0: it has no `metrics` address; add one"));

  // Folders are relative to that of the YAML file.
  std::ofstream(folder.Path("models")) << "no folder";
  std::filesystem::copy("config/adult-persia.yaml", folder.Path("cluster.yaml"));
  DaemonProcess relative(
      "simurgh",
      {"doctor", folder.Path("cluster.yaml"), "--set", "checkpoint.directory=models/clicks"},
      folder.Path("relative.log"));
  CHECK(relative.Wait(kDeadline) == 3);
  CHECK_THAT(relative.output(), Contains("error  checkpoint.directory: " + folder.Path("models") +
                                         ": Permission denied; choose a folder"));
  CHECK(Commands({"embedding_ps.partitions=0"}).Run({"doctor"}).code == 3);
}

TEST_CASE("doctor names daemons that run with another configuration") {
  const TemporaryFolder folder;
  const std::string host = OwnHost();
  std::vector<std::unique_ptr<DaemonProcess>> servers;
  for (const std::string index : {"0", "1"}) {
    servers.push_back(std::make_unique<DaemonProcess>(
        "embedding-ps",
        std::vector<std::string>{
            "--config", "config/adult-persia.yaml", "--index", index, "--set",
            absl::StrCat("embedding_ps.instances=[{address: 'unix://", folder.path(),
                         "/0', metrics: '", host, ":7501'}, {address: 'unix://", folder.path(),
                         "/1', metrics: '", host, ":7502'}]"),
            "--set", index == "0" ? "tables.0.dim=8" : "tables.0.dim=16"},
        folder.Path("server-" + index)));
    REQUIRE(servers.back()->WaitForLog("listening at", kDeadline));
  }
  const Outcome outcome =
      Commands({"checkpoint.directory=" + folder.Path("model")}).Run({"doctor"});
  INFO(outcome.out << outcome.errors);
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.out,
             Contains("error  embedding-ps/1: it runs with another configuration: tables.0.dim = "
                      "16 (embedding-ps/1), 8 (CONFIG); give all daemons the same file") &&
                 !Contains("embedding-ps/0: it runs with another") &&
                 Contains("error  embedding-worker/0: it does not run, and other daemons do") &&
                 Contains("warn   nn-worker/0: it does not run, and other daemons do"));
}

}  // namespace
}  // namespace simurgh::testing
