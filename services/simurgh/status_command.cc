#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "config/cluster_config.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/scrape.h"

namespace simurgh {
namespace {

constexpr char kStatusNotes[] =
    R"(Reads the metrics of every daemon of CONFIG, twice at an interval of one second.
Prints a line for each: state, rows, resident memory, samples per second, mean staleness in
steps, queue and last checkpoint. The queue has an nn-worker's batches read ahead, batches of
an embedding worker's forward buffer, or requests of a server. The line after them names the
stage that bounds the throughput. A last line tells if many reads of rows can lack gradients.

Exit codes:
  0  all daemons are ready
  2  bad arguments or configuration
  3  a daemon is not ready or cannot be reached
)";

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{3};
constexpr std::chrono::seconds kInterval{1};

// The metrics of all daemons at one time, indexed by daemon.
struct Scrape {
  std::vector<StatusOr<MetricsText>> metrics;
  Clock::time_point time;
};

std::vector<StatusOr<HttpAnswer>> Ask(const std::vector<ListedDaemon>& daemons, const char* path) {
  std::vector<HttpTarget> targets;
  for (const ListedDaemon& daemon : daemons) targets.push_back({daemon.instance.metrics, path});
  return HttpGetAll(targets, kTimeout);
}

Scrape ScrapeAll(const std::vector<ListedDaemon>& daemons) {
  Scrape scrape{.metrics = {}, .time = Clock::now()};
  for (const StatusOr<HttpAnswer>& answer : Ask(daemons, "/metrics")) {
    if (!answer.ok()) {
      scrape.metrics.emplace_back(answer.status());
    } else if (answer->code != 200) {
      scrape.metrics.emplace_back(
          absl::UnavailableError(absl::StrCat("/metrics answers with ", answer->code)));
    } else {
      scrape.metrics.push_back(MetricsText::Parse(answer->body));
    }
  }
  return scrape;
}

ClusterStatus Look(const std::vector<ListedDaemon>& daemons, const Scrape& before,
                   const Scrape& now) {
  const std::vector<StatusOr<HttpAnswer>> readiness = Ask(daemons, "/readyz");
  std::vector<DaemonAnswers> answers;
  for (size_t i = 0; i < daemons.size(); ++i) {
    DaemonAnswers& one = answers.emplace_back(DaemonAnswers{.daemon = daemons[i]});
    const std::string& address = daemons[i].instance.metrics;
    if (address.empty() || address.ends_with(":0")) {
      one.reason = "CONFIG has no `metrics` address with a port of it; add one";
      continue;
    }
    const Status failure = readiness[i].ok() ? now.metrics[i].status() : readiness[i].status();
    if (!failure.ok()) {
      one.reason = absl::StrCat(address, ": ", failure.message());
      continue;
    }
    one.is_reachable = true;
    one.is_ready = readiness[i]->code == 200;
    if (!one.is_ready) one.reason = std::string(absl::StripAsciiWhitespace(readiness[i]->body));
    one.now = *now.metrics[i];
    if (!before.metrics[i].ok()) continue;
    one.before = *before.metrics[i];
    one.seconds = std::chrono::duration<double>(now.time - before.time).count();
  }
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return StatusOf(answers, std::chrono::duration<double>(time).count());
}

StatusOr<ExitCode> Show(const ConfigArguments& arguments, bool watch, bool json) {
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, arguments.Load());
  const std::vector<ListedDaemon> daemons = DaemonsOf(config);
  const bool clears = watch && !json && ::isatty(STDOUT_FILENO) == 1;
  for (Scrape before = ScrapeAll(daemons);;) {
    std::this_thread::sleep_for(kInterval);
    Scrape now = ScrapeAll(daemons);
    const ClusterStatus status = Look(daemons, before, now);
    if (clears) std::cout << "\033[H\033[2J";
    std::cout << (json ? ToJson(status) : ToTable(status)) << std::flush;
    if (!std::cout) return absl::UnavailableError("cannot write to stdout");
    if (!watch) return status.is_ready() ? ExitCode::kOk : ExitCode::kRuntimeFailure;
    before = std::move(now);
  }
}

}  // namespace

ExitCode RunStatusCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  bool watch = false;
  bool json = false;
  po::options_description options("Options");
  options.add_options()("watch", po::bool_switch(&watch),
                        "print again and again, until it is interrupted");
  AddJsonOption(options, &json);
  return RunConfigCommand(
      argc, argv, {"status: shows the daemons of a configuration", kStatusUsage, kStatusNotes},
      options, [&](const ConfigArguments& config) { return Show(config, watch, json); });
}

}  // namespace simurgh
