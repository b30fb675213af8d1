#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "config/cluster_config.h"
#include "services/runtime/command_line.h"
#include "services/runtime/http_endpoint.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/scrape.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

constexpr char kTraceNotes[] =
    R"(Records the daemons of CONFIG, which run, at their `metrics` addresses. Writes one
trace with a process per daemon: stages of batches, and calls, which arrows connect with their
handling in another daemon. Calls and stages of a batch have one trace id. Times are of one
clock. The daemons record nothing at other times. Open the trace at https://ui.perfetto.dev,
which keeps it in the browser.

Exit codes:
  0  all daemons are in the trace
  2  bad arguments or configuration
  3  a daemon is missing in the trace, or there is no trace
)";

constexpr std::chrono::seconds kTraceTimeout{3};
constexpr std::chrono::seconds kTransferTimeout{30};
constexpr int kClockReadings = 8;

// A daemon of the configuration, and its clock.
struct Traced {
  ListedDaemon daemon;
  Status problem;
  std::string clock;  // Daemons whose clocks have one name share the clock.
};

// Sends a GET to all daemons without a problem. Calls take(daemon, answer) for each answer with
// 200; other answers become the daemon's problem.
template <typename Take>
void AskAll(std::vector<Traced>& daemons, const std::string& path, std::chrono::seconds timeout,
            const Take& take) {
  std::vector<HttpTarget> targets;
  std::vector<Traced*> asked;
  for (Traced& one : daemons) {
    if (!one.problem.ok()) continue;
    asked.push_back(&one);
    targets.push_back({one.daemon.instance.metrics, path});
  }
  std::vector<StatusOr<HttpAnswer>> answers = HttpGetAll(targets, timeout);
  for (size_t i = 0; i < asked.size(); ++i) {
    Status& problem = asked[i]->problem;
    if (!answers[i].ok()) {
      problem = answers[i].status();
    } else if (answers[i]->code != 200) {
      problem = absl::UnavailableError(
          absl::StrCat(path, " answers with ", answers[i]->code, ": ",
                       absl::StripAsciiWhitespace(answers[i]->body.substr(0, 200))));
    } else {
      problem = take(*asked[i], *answers[i]);
    }
    problem = Annotate(problem, targets[i].address);
    answers[i] = absl::UnavailableError("taken");  // Frees the answer: traces may be large.
  }
}

std::vector<Traced> DaemonsToTrace(const ClusterConfig& config) {
  std::vector<Traced> daemons;
  for (ListedDaemon& daemon : DaemonsOf(config)) {
    const std::string& address = daemon.instance.metrics;
    const bool has_address = !address.empty() && !address.ends_with(":0");
    daemons.push_back({.daemon = std::move(daemon), .problem = {}, .clock = {}});
    if (has_address) continue;
    daemons.back().problem = absl::FailedPreconditionError(
        "CONFIG gives it no `metrics` address with a fixed port; add one");
  }
  return daemons;
}

// Returns the offset of each clock, keyed by its name.
std::map<std::string, ClockOffset> MeasureClocks(std::vector<Traced>& daemons) {
  std::map<std::string, std::vector<ClockSample>> samples;
  const auto take = [&](Traced& one, const HttpAnswer& answer) -> Status {
    const std::vector<std::string> words =
        absl::StrSplit(absl::StripAsciiWhitespace(answer.body), ' ');
    int64_t time = 0;
    if (!absl::SimpleAtoi(words[0], &time)) {
      return absl::DataLossError("another program answers; correct the `metrics` address");
    }
    one.clock = words.size() > 1 ? words[1] : one.daemon.name();
    samples[one.clock].push_back({.sent = answer.sent.time_since_epoch(),
                                  .read = std::chrono::nanoseconds(time),
                                  .received = answer.received.time_since_epoch()});
    return absl::OkStatus();
  };
  for (int i = 0; i < kClockReadings; ++i) AskAll(daemons, "/trace/clock", kTraceTimeout, take);
  std::map<std::string, ClockOffset> offsets;
  for (const auto& [clock, of_clock] : samples) offsets[clock] = EstimateClockOffset(of_clock);
  return offsets;
}

// Records and writes the trace.
StatusOr<ExitCode> Record(const ConfigArguments& arguments, uint32_t seconds,
                          const std::string& output) {
  if (seconds < 1 || seconds > kMaxTraceSeconds) {
    return OptionProblem(
        absl::StrCat("--seconds: ", seconds, " is out of range; use 1 to ", kMaxTraceSeconds));
  }
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, arguments.Load());
  // The file is opened first: after a failure, the recording would be lost.
  UnfinishedFile file(output);
  std::ofstream out(file.name(), std::ios::binary);
  if (!out) {
    return absl::InvalidArgumentError(
        ErrnoStatus(errno, absl::StrCat(output, ": cannot write it")).message());
  }
  std::vector<Traced> daemons = DaemonsToTrace(config);
  const std::map<std::string, ClockOffset> clocks = MeasureClocks(daemons);
  MergedTrace trace;
  std::string report;
  uint64_t spans = 0;
  size_t traced = 0;
  const auto merge = [&](const Traced& one, const HttpAnswer& answer) -> Status {
    const ClockOffset& clock = clocks.at(one.clock);
    SIMURGH_ASSIGN_OR_RETURN(const MergedTrace::Process process,
                             trace.Add(answer.body, clock.offset));
    absl::StrAppendFormat(&report, "%s: spans=%d left_out=%d clock_error_us=%.0f\n", process.name,
                          process.spans, process.left_out,
                          std::chrono::duration<double, std::micro>(clock.error).count());
    spans += process.spans;
    ++traced;
    return absl::OkStatus();
  };
  AskAll(daemons, absl::StrCat("/trace?seconds=", seconds),
         std::chrono::seconds(seconds) + kTransferTimeout, merge);
  for (const Traced& one : daemons) {
    if (one.problem.ok()) continue;
    std::cerr << "simurgh: " << one.daemon.name()
              << " is not in the trace: " << one.problem.message() << "\n";
  }
  if (traced == 0) {
    return absl::UnavailableError(
        absl::StrCat("no daemon of ", arguments.path,
                     " is in the trace, for the reasons above. Start those that do not answer, as "
                     "with simurgh up"));
  }
  const uint64_t connected = trace.Write(out);
  out.close();
  if (!out) return ErrnoStatus(errno, absl::StrCat(output, ": cannot write it"));
  SIMURGH_RETURN_IF_ERROR(file.Finish());
  std::cout << report << "wrote " << output << ": spans=" << spans
            << " connected_calls=" << connected << "; open it at https://ui.perfetto.dev\n";
  return traced == daemons.size() ? ExitCode::kOk : ExitCode::kRuntimeFailure;
}

}  // namespace

ExitCode RunTraceCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  uint32_t seconds = 1;
  std::string output;
  po::options_description options("Options");
  options.add_options()("seconds", po::value(&seconds)->default_value(seconds)->value_name("N"),
                        "record for N seconds, 1 to 60")(
      "output", po::value(&output)->default_value("trace.json")->value_name("FILE"),
      "write the trace to FILE");
  return RunConfigCommand(
      argc, argv, {"trace: records what all daemons do", kTraceUsage, kTraceNotes}, options,
      [&](const ConfigArguments& config) { return Record(config, seconds, output); });
}

}  // namespace simurgh
