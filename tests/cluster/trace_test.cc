// simurgh trace with real daemons that train.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

constexpr std::chrono::seconds kDeadline{60};
constexpr size_t kServers = 2;
constexpr size_t kRanks = 2;
// In nanoseconds. Daemons of one machine share a clock; times are rounded.
constexpr int64_t kClockError = 10;

struct Span {
  std::string process;
  std::string row;
  std::string name;
  std::string kind;
  int64_t begin = 0;  // Nanoseconds.
  int64_t end = 0;
  std::string trace;  // Empty: none.
  std::string call;   // Trace and span id; empty: none.
  int64_t step = -1;  // -1: none.

  bool Contains(const Span& other) const {
    return begin - kClockError <= other.begin && other.end <= end + kClockError;
  }
};

// An end of an arrow.
struct Arrow {
  uint64_t process = 0;
  uint64_t row = 0;
  int64_t time = 0;
};

int64_t Nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

// A trace file; anything that Chrome's format does not allow is an exception or a failed check.
struct Trace {
  explicit Trace(const std::string& path) {
    const Json root = Json::parse(std::ifstream(path));
    double last = 0;
    for (const Json& event : root.at("traceEvents")) {
      const std::pair<uint64_t, uint64_t> row(event.at("pid"), event.at("tid"));
      const std::string phase = event.at("ph");
      if (phase == "M") {
        const std::string name = event.at("args").at("name");
        (event.at("name") == "process_name" ? processes[row.first] : rows[row]) = name;
        continue;
      }
      CHECK(event.at("ts") >= last);  // Sorted, from 0.
      last = event.at("ts");
      if (phase == "X") {
        Add(row, event);
      } else {
        REQUIRE((phase == "s" || phase == "f"));
        auto& arrows = phase == "s" ? begins : ends;
        CHECK(arrows.try_emplace(event.at("id"), row.first, row.second, Nanoseconds(event.at("ts")))
                  .second);
      }
    }
  }

  void Add(const std::pair<uint64_t, uint64_t>& row, const Json& event) {
    Span span{.process = processes.at(row.first),
              .row = rows.at(row),
              .name = event.at("name"),
              .kind = event.at("cat"),
              .begin = Nanoseconds(event.at("ts"))};
    span.end = span.begin + Nanoseconds(event.at("dur"));
    CHECK(span.begin <= span.end);
    const Json& arguments = event.at("args");
    span.trace = arguments.value("trace", "");
    if (arguments.contains("span")) span.call = span.trace + arguments.value("span", "");
    span.step = arguments.value("step", int64_t{-1});
    if (span.kind == "handling") {
      const int64_t waited = Nanoseconds(arguments.at("waited_us"));
      CHECK(waited >= 0);
      CHECK(waited <= span.end - span.begin);
    }
    by_row[row].push_back(spans.size());
    spans.push_back(std::move(span));
  }

  // The span at whose begin an arrow ends.
  const Span* At(const Arrow& arrow) const {
    for (const size_t i : by_row.at({arrow.process, arrow.row})) {
      if (spans[i].begin == arrow.time) return &spans[i];
    }
    return nullptr;
  }

  std::map<uint64_t, std::string> processes;
  std::map<std::pair<uint64_t, uint64_t>, std::string> rows;
  std::vector<Span> spans;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<size_t>> by_row;
  std::map<uint64_t, Arrow> begins;
  std::map<uint64_t, Arrow> ends;
};

// Daemons that train without end.
class Fixture {
 public:
  Fixture() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      trainers_.push_back(
          cluster_.StartTrainer({"training.max_steps=100000000", "training.epochs=1000000",
                                 "training.allreduce.bucket_bytes=65536"},
                                rank));
    }
    for (const auto& trainer : trainers_)
      REQUIRE(trainer->WaitForLog("training starts", kDeadline));
  }

  // Runs the command. Its exit code; output and errors are in the members.
  int Run(const std::vector<std::string>& more) {
    std::vector<std::string> overrides = cluster_.Overrides();
    const auto add = [&](const char* kind, size_t index, const DaemonProcess& daemon) {
      overrides.push_back(
          absl::StrCat(kind, ".instances.", index, ".metrics=", daemon.metrics_address()));
    };
    for (size_t i = 0; i < kServers; ++i) add("embedding_ps", i, cluster_.server(i));
    add("embedding_worker", 0, cluster_.worker(0));
    for (size_t i = 0; i < kRanks; ++i) add("nn_worker", i, *trainers_[i]);
    std::vector<std::string> words{"trace", "config/adult-persia.yaml"};
    for (const std::string& override : overrides) words.insert(words.end(), {"--set", override});
    words.insert(words.end(), more.begin(), more.end());
    DaemonProcess process("simurgh", words, folder.Path(absl::StrCat("log-", runs_++)));
    const int code = process.Wait(kDeadline).value_or(-1);
    output = process.output();
    errors = process.log();
    return code;
  }

  const TemporaryFolder folder;
  std::string output;
  std::string errors;

 private:
  TestCluster cluster_{{.servers = kServers,
                        .ranks = kRanks,
                        .overrides = {"training.reproducible=true", "training.staleness=4"}}};
  std::vector<std::unique_ptr<DaemonProcess>> trainers_;
  int runs_ = 0;
};

// The processes and names of the spans of each trace id.
std::map<std::string, std::set<std::string>> ByTrace(const Trace& trace) {
  std::map<std::string, std::set<std::string>> traces;
  for (const Span& span : trace.spans) {
    if (!span.trace.empty()) traces[span.trace].insert(span.process + " " + span.name);
  }
  return traces;
}

void CheckArrows(const Trace& trace) {
  REQUIRE(trace.begins.size() == trace.ends.size());
  std::set<std::pair<std::string, std::string>> connected;
  for (const auto& [id, begin] : trace.begins) {
    CAPTURE(id);
    REQUIRE(trace.ends.contains(id));
    const Span* const client = trace.At(begin);
    const Span* const server = trace.At(trace.ends.at(id));
    REQUIRE(client != nullptr);
    REQUIRE(server != nullptr);
    CHECK(client->kind == "call");
    CHECK(server->kind == "handling");
    CHECK(client->call == server->call);
    CHECK(client->name == server->name);
    CHECK(client->process != server->process);
    CHECK(client->Contains(*server));
    CHECK(begin.time <= trace.ends.at(id).time);
    connected.emplace(client->process, server->process);
  }
  CHECK(connected ==
        std::set<std::pair<std::string, std::string>>{{"nn-worker/0", "embedding-worker/0"},
                                                      {"nn-worker/1", "embedding-worker/0"},
                                                      {"embedding-worker/0", "embedding-ps/0"},
                                                      {"embedding-worker/0", "embedding-ps/1"}});
}

// The spans of a name of a rank, by step. The first and the last steps may lack spans.
std::map<int64_t, std::vector<Span>> StepsOf(const Trace& trace, size_t rank,
                                             const std::string& name) {
  std::map<int64_t, std::vector<Span>> steps;
  for (const Span& span : trace.spans) {
    if (span.process == absl::StrCat("nn-worker/", rank) && span.name == name && span.step >= 0) {
      steps[span.step].push_back(span);
    }
  }
  return steps;
}

// The steps of a rank from reading to their push, without the first and the last one.
std::vector<int64_t> CompleteSteps(const Trace& trace, size_t rank) {
  std::vector<int64_t> steps;
  const auto reads = StepsOf(trace, rank, "read");
  const auto pushes = StepsOf(trace, rank, "push");
  if (reads.empty() || pushes.empty()) return steps;
  for (int64_t step = reads.begin()->first + 1; step < pushes.rbegin()->first; ++step) {
    steps.push_back(step);
  }
  return steps;
}

void CheckStages(const Trace& trace, size_t rank) {
  const std::vector<int64_t> complete = CompleteSteps(trace, rank);
  REQUIRE_FALSE(complete.empty());
  for (const char* stage : {"wait for sums", "dense step"}) {
    const auto steps = StepsOf(trace, rank, stage);
    for (const int64_t step : complete) {
      CAPTURE(rank, stage, step);
      CHECK(steps.at(step).size() == 1);
    }
  }
  const std::vector<const char*> stages{"read", "submit", "pull", "forward and backward", "push"};
  for (size_t i = 1; i < stages.size(); ++i) {
    const auto earlier = StepsOf(trace, rank, stages[i - 1]);
    const auto later = StepsOf(trace, rank, stages[i]);
    for (const int64_t step : complete) {
      CAPTURE(rank, stages[i], step);
      const auto& before = earlier.at(step).back();
      // The gradients of the embeddings are complete before those of the weights.
      const bool overlaps = std::string_view(stages[i]) == "push";
      CHECK((overlaps ? before.begin : before.end) <= later.at(step).back().begin);
    }
  }
}

TEST_CASE("A trace has all daemons on one clock, and connects the calls of each batch") {
  Fixture simurgh;
  const std::string path = simurgh.folder.Path("out.json");
  // Longer on a machine that is too slow for many steps in a second.
  for (const char* seconds : {"1", "5", "30"}) {
    const int code = simurgh.Run({"--seconds", seconds, "--output", path});
    CAPTURE(simurgh.output, simurgh.errors);
    REQUIRE(code == 0);
    if (CompleteSteps(Trace(path), 0).size() > 20) break;
  }
  CHECK_THAT(simurgh.output,
             Contains("wrote " + path + ": spans=") && Contains("https://ui.perfetto.dev"));
  CHECK(std::filesystem::exists(path));

  const Trace trace(path);
  std::set<std::string> processes;
  for (const auto& [number, name] : trace.processes) {
    processes.insert(name);
    CHECK_THAT(simurgh.output, Contains(name + ": spans="));
  }
  CHECK(processes == std::set<std::string>{"embedding-ps/0", "embedding-ps/1", "embedding-worker/0",
                                           "nn-worker/0", "nn-worker/1"});
  for (const Span& span : trace.spans) {
    CHECK(span.end <= std::chrono::nanoseconds(kDeadline).count());
  }
  CheckArrows(trace);

  size_t complete = 0;
  for (const auto& [id, spans] : ByTrace(trace)) {
    const auto has = [&](const std::string& span) { return spans.contains(span); };
    const std::string rank = has("nn-worker/0 pull") ? "nn-worker/0 " : "nn-worker/1 ";
    complete += std::ranges::all_of(
        std::vector<std::string>{
            rank + "submit", rank + "pull", rank + "forward and backward", rank + "wait for sums",
            rank + "dense step", rank + "push", "embedding-worker/0 plan",
            "embedding-worker/0 pull", "embedding-worker/0 pool", "embedding-worker/0 unpool",
            "embedding-worker/0 push", "embedding-ps/0 pull rows", "embedding-ps/1 pull rows",
            "embedding-ps/0 push rows", "embedding-ps/1 push rows"},
        has);
    // A batch belongs to one rank.
    CHECK_FALSE((has("nn-worker/0 pull") && has("nn-worker/1 pull")));
  }
  CHECK(complete > 0);
  std::set<std::string> rows;
  for (const auto& [row, name] : trace.rows)
    rows.insert(trace.processes.at(row.first) + " " + name);
  for (const char* row :
       {"embedding-ps/1 partition-0", "embedding-ps/1 handled calls", "embedding-worker/0 calls",
        "nn-worker/0 main", "nn-worker/1 loader", "nn-worker/0 allreduce"}) {
    CAPTURE(row);
    CHECK(rows.contains(row));
  }

  for (size_t rank = 0; rank < kRanks; ++rank) CheckStages(trace, rank);
  // Ranks wait for one another in each sum.
  const auto other_sums = StepsOf(trace, 1, "sum");
  size_t compared = 0;
  for (const auto& [step, sums] : StepsOf(trace, 0, "sum")) {
    const auto other = other_sums.find(step);
    if (other == other_sums.end() || other->second.size() != sums.size()) continue;
    for (size_t bucket = 0; bucket < sums.size(); ++bucket) {
      CAPTURE(step, bucket);
      CHECK(sums[bucket].begin <= other->second[bucket].end + kClockError);
      CHECK(other->second[bucket].begin <= sums[bucket].end + kClockError);
      ++compared;
    }
  }
  CHECK(compared > 0);

  // A daemon that does not answer is named; the others are written.
  const std::string partial = simurgh.folder.Path("partial.json");
  CHECK(simurgh.Run(
            {"--output", partial, "--set", "embedding_ps.instances.1.metrics=127.0.0.1:1"}) == 3);
  CHECK_THAT(simurgh.errors, Contains("embedding-ps/1 is not in the trace: 127.0.0.1:1: "));
  const Trace rest(partial);
  CHECK(rest.processes.size() == 4);
  CHECK(rest.begins.size() == rest.ends.size());

  // An output that cannot be written costs no recording.
  CHECK(simurgh.Run({"--output", simurgh.folder.Path("none/trace.json")}) == 2);
  CHECK_THAT(simurgh.errors, Contains("cannot write it: No such file or directory"));
}

TEST_CASE("Without an answer there is no trace") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"trace", "config/adult-persia.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<DaemonProcess>("simurgh", words, folder.Path("log"));
  };
  const std::string path = folder.Path("out.json");
  const auto none =
      run({"--output", path, "--set", "embedding_ps.instances=[{address: 'h:1'}]", "--set",
           "embedding_worker.instances=[{address: 'h:2', metrics: '127.0.0.1:1'}]", "--set",
           "nn_worker.instances=[{metrics: '127.0.0.1:2'}]"});
  CHECK(none->Wait(kDeadline) == 3);
  CHECK_THAT(none->log(),
             Contains("embedding-ps/0 is not in the trace: CONFIG gives it no `metrics` address") &&
                 Contains("no daemon of config/adult-persia.yaml is in the trace"));
  CHECK_FALSE(std::filesystem::exists(path));

  for (const char* seconds : {"0", "61"}) {
    const auto bad = run({"--seconds", seconds});
    CHECK(bad->Wait(kDeadline) == 2);
    CHECK_THAT(bad->log(), Contains("is out of range; use 1 to 60"));
  }
}

}  // namespace
}  // namespace simurgh::testing
