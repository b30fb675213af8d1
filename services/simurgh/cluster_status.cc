#include "services/simurgh/cluster_status.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "services/simurgh/output.h"

namespace simurgh {
namespace {

using Number = std::optional<double>;
using Labels = MetricsText::Labels;

// Returns the growth of a counter between the scrapes. Nothing if there is no earlier scrape, or
// the daemon has restarted.
Number Growth(const DaemonAnswers& answers, const std::string& name, const Labels& labels = {}) {
  const Number now = answers.now.Sum(name, labels);
  if (!now || answers.seconds <= 0) return std::nullopt;
  const double growth = *now - answers.before.Sum(name, labels).value_or(0);
  if (growth < 0) return std::nullopt;
  return growth;
}

// Returns the mean of a histogram's values between the scrapes.
Number MeanOf(const DaemonAnswers& answers, const std::string& name, const Labels& labels = {}) {
  const Number sum = Growth(answers, name + "_sum", labels);
  const Number count = Growth(answers, name + "_count", labels);
  if (!sum || !count || *count == 0) return std::nullopt;
  return *sum / *count;
}

Number PerSecond(const DaemonAnswers& answers, const std::string& name) {
  const Number growth = Growth(answers, name);
  if (!growth) return std::nullopt;
  return *growth / answers.seconds;
}

DaemonLine LineOf(const DaemonAnswers& answers, double unix_time) {
  DaemonLine line{.name = answers.daemon.name(),
                  .state = answers.is_ready       ? "ready"
                           : answers.is_reachable ? "not ready"
                                                  : "unreachable",
                  .reason = answers.reason};
  if (!answers.is_reachable) return line;
  const std::string& kind = answers.daemon.kind;
  line.memory_bytes = answers.now.Sum("simurgh_process_resident_bytes");
  if (kind == "embedding-ps") {
    line.rows = answers.now.Sum("simurgh_ps_table_rows").value_or(0);
    line.cold_rows = answers.now.Sum("simurgh_ps_table_cold_rows");
    line.queue = answers.now.Sum("simurgh_rpc_calls_in_flight", {{"side", "server"}});
  } else if (kind == "embedding-worker") {
    line.queue = answers.now.Sum("simurgh_worker_forward_buffer_batches");
  } else if (kind == "nn-worker") {
    line.samples_per_second = PerSecond(answers, "simurgh_nn_samples_total");
    line.staleness = MeanOf(answers, "simurgh_nn_staleness_steps");
    line.queue = answers.now.Sum("simurgh_nn_queued_batches");
    line.checkpoint_step = answers.now.Sum("simurgh_nn_checkpoint_step");
    if (const Number time = answers.now.Sum("simurgh_nn_checkpoint_time_seconds")) {
      line.checkpoint_age_seconds = unix_time - *time;
    }
  } else {
    line.samples_per_second = PerSecond(answers, "simurgh_loader_samples_total");
  }
  return line;
}

// Returns the seconds per batch that a stage takes on the slowest embedding worker.
double WorkerStage(const std::vector<DaemonAnswers>& answers, const char* stage) {
  double slowest = 0;
  for (const DaemonAnswers& one : answers) {
    if (one.daemon.kind != "embedding-worker") continue;
    const Number mean = MeanOf(one, "simurgh_worker_stage_seconds", {{"stage", stage}});
    slowest = std::max(slowest, mean.value_or(0));
  }
  return slowest;
}

using ServerTime = std::pair<std::string, double>;  // Name and seconds per call.

// The servers with the slowest and the fastest handler of a method. Empty names: no server has
// times.
struct ServerTimes {
  ServerTime slowest;
  ServerTime fastest;

  // Applies the rule of ServerSlow in config/monitoring/alerts.yml.
  bool are_uneven() const {
    return slowest.second > 0.01 && slowest.second > 4 * fastest.second &&
           slowest.first != fastest.first;
  }
};

ServerTimes TimesOfServers(const std::vector<DaemonAnswers>& answers, const char* method) {
  ServerTimes times;
  for (const DaemonAnswers& one : answers) {
    if (one.daemon.kind != "embedding-ps") continue;
    const Number mean =
        MeanOf(one, "simurgh_rpc_call_seconds", {{"side", "server"}, {"method", method}});
    if (!mean) continue;
    const ServerTime time{one.daemon.name(), *mean};
    if (times.slowest.first.empty() || time.second > times.slowest.second) times.slowest = time;
    if (times.fastest.first.empty() || time.second < times.fastest.second) times.fastest = time;
  }
  return times;
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.3g ms", seconds * 1e3); }

// Returns the slowest stage of the embedding workers and the servers behind them.
std::string BoundOfEmbeddings(const std::vector<DaemonAnswers>& answers) {
  constexpr std::array kStages{"plan", "pull", "pool", "unpool", "push"};
  // With staleness 1, servers hold a pull until the step before it is pushed: not a time of work.
  const bool awaits = !TimesOfServers(answers, "await_rows").slowest.first.empty();
  std::pair<const char*, double> slowest{"", 0};
  for (const char* stage : kStages) {
    if (awaits && std::string_view(stage) == "pull") continue;
    const double seconds = WorkerStage(answers, stage);
    if (seconds > slowest.second) slowest = {stage, seconds};
  }
  const std::string stage = slowest.first;
  if (stage.empty()) return "the embedding workers, which give no times";
  const std::string per_batch = Milliseconds(slowest.second) + " per batch";
  if (stage != "pull" && stage != "push") {
    return absl::StrCat("embedding workers: ", stage, " takes ", per_batch,
                        "; raise embedding_worker.threads or add embedding workers");
  }
  const ServerTimes times = TimesOfServers(answers, stage == "pull" ? "pull_rows" : "push_rows");
  const ServerTime& server = times.slowest;
  const std::string of_call = absl::StrCat(stage, " of rows takes ", per_batch);
  if (times.are_uneven()) {
    return absl::StrCat("the slow server ", server.first, ": ", of_call, ", ",
                        Milliseconds(server.second), " of it in ", server.first, ", and ",
                        Milliseconds(times.fastest.second), " in ", times.fastest.first,
                        "; remove other load from its machine, or move it");
  }
  if (server.second >= slowest.second / 2) {
    return absl::StrCat("servers: ", of_call, ", ", Milliseconds(server.second), " of it in ",
                        server.first, "; raise embedding_ps.partitions or add servers");
  }
  return absl::StrCat("network between embedding workers and servers: ", of_call, ", ",
                      Milliseconds(server.second), " of it in ",
                      server.first.empty() ? "servers" : server.first);
}

std::string BoundOf(const std::vector<DaemonAnswers>& answers) {
  double waited = 0;
  double computed = 0;
  double queued = 0;
  size_t trainers = 0;
  bool at_limit = false;
  for (const DaemonAnswers& one : answers) {
    if (one.daemon.kind != "nn-worker") continue;
    const std::string stages = "simurgh_nn_stage_seconds_sum";
    waited += Growth(one, stages, {{"stage", "wait"}}).value_or(0);
    computed += Growth(one, stages, {{"stage", "compute"}}).value_or(0);
    queued += one.now.Sum("simurgh_nn_queued_batches").value_or(0);
    const Number staleness = MeanOf(one, "simurgh_nn_staleness_steps");
    const Number limit = one.now.Sum("simurgh_nn_staleness_limit_steps");
    at_limit |= staleness && limit && *limit > 0 && *staleness > 0.9 * *limit;
    ++trainers;
  }
  if (trainers == 0 || waited + computed == 0) return "nothing: no nn-worker trains now";
  const double share = 100 * computed / (waited + computed);
  if (computed >= waited) {
    return absl::StrFormat(
        "nn-workers: the dense network takes %.0f %% of their time; raise nn_worker.threads, use a "
        "device or add nn-workers",
        share);
  }
  const std::string idle = absl::StrFormat("; nn-workers wait %.0f %% of their time", 100 - share);
  if (queued < static_cast<double>(trainers)) {
    return absl::StrCat("reading: no batches are read ahead; add loaders", idle);
  }
  return absl::StrCat(BoundOfEmbeddings(answers), idle,
                      at_limit ? ", and staleness is at its limit; a larger training.staleness "
                                 "hides latency and can cost AUC"
                               : "");
}

std::string Text(const Number& number, const char* format) {
  return number ? absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), *number) : "-";
}

std::string MemoryText(const Number& bytes) { return bytes ? BytesText(*bytes) : "-"; }

std::string CheckpointText(const DaemonLine& line) {
  if (!line.checkpoint_step) return "-";
  const Number& age = line.checkpoint_age_seconds;
  return absl::StrFormat("step %.0f", *line.checkpoint_step) +
         (age ? absl::StrFormat(", %.0f s ago", *age) : "");
}

}  // namespace

std::vector<ListedDaemon> DaemonsOf(const ClusterConfig& config) {
  std::vector<ListedDaemon> daemons;
  const auto add = [&](const char* kind, const std::vector<InstanceConfig>& instances) {
    for (size_t i = 0; i < instances.size(); ++i) {
      daemons.push_back({.kind = kind, .index = i, .instance = instances[i]});
    }
  };
  add("embedding-ps", config.embedding_ps.instances);
  add("embedding-worker", config.embedding_worker.instances);
  add("nn-worker", config.nn_worker.instances);
  add("loader", config.loaders.instances);
  return daemons;
}

StaleReads StaleReadsOf(const MetricsText& metrics, uint32_t staleness) {
  if (staleness <= 1) return {};
  // Buckets of ages end at 2^n - 1 steps.
  const uint32_t age = std::bit_ceil(staleness) - 1;
  const std::string ages = "simurgh_ps_table_row_age_steps";
  const auto all = metrics.Sum(ages + "_count");
  const auto young = metrics.Sum(ages + "_bucket", {{"le", absl::StrCat(age)}});
  if (!all || !young) return {};
  // Reads by other ranks in the same step lack nothing.
  const double now = metrics.Sum(ages + "_bucket", {{"le", "0"}}).value_or(0);
  return {.stale = *young - now, .all = *all, .age = age};
}

bool ClusterStatus::is_ready() const {
  return std::ranges::all_of(daemons, [](const auto& line) { return line.state == "ready"; });
}

ClusterStatus StatusOf(const std::vector<DaemonAnswers>& answers, double unix_time) {
  ClusterStatus status;
  double limit = 0;  // Steps that a read can lack: one less than training.staleness.
  for (const DaemonAnswers& one : answers) {
    status.daemons.push_back(LineOf(one, unix_time));
    limit = std::max(limit, one.now.Sum("simurgh_nn_staleness_limit_steps").value_or(0));
  }
  for (const DaemonAnswers& one : answers) {
    const StaleReads reads = StaleReadsOf(one.now, static_cast<uint32_t>(limit) + 1);
    status.reads.stale += reads.stale;
    status.reads.all += reads.all;
    status.reads.age = std::max(status.reads.age, reads.age);
  }
  status.bound = BoundOf(answers);
  return status;
}

std::string ToTable(const ClusterStatus& status) {
  std::vector<std::array<std::string, 8>> rows{
      {"DAEMON", "STATE", "ROWS", "MEMORY", "SAMPLES/S", "STALENESS", "QUEUE", "CHECKPOINT"}};
  for (const DaemonLine& line : status.daemons) {
    std::string held = Text(line.rows, "%.0f");
    if (line.cold_rows && *line.cold_rows > 0) {
      absl::StrAppendFormat(&held, " (%.0f %% on disk)", 100 * *line.cold_rows / *line.rows);
    }
    rows.push_back({line.name, line.state, held, MemoryText(line.memory_bytes),
                    Text(line.samples_per_second, "%.0f"), Text(line.staleness, "%.1f"),
                    Text(line.queue, "%.0f"), CheckpointText(line)});
  }
  std::array<size_t, 8> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool is_last = i + 1 == widths.size();
      absl::StrAppend(&table, rows[r][i],
                      is_last ? "\n" : std::string(widths[i] - rows[r][i].size() + 2, ' '));
    }
    if (r > 0 && !status.daemons[r - 1].reason.empty()) {
      absl::StrAppend(&table, "  ", status.daemons[r - 1].reason, "\n");
    }
  }
  absl::StrAppend(&table, "bound by ", status.bound, "\n");
  if (status.reads.are_many()) {
    absl::StrAppendFormat(
        &table,
        "staleness: %.0f %% of the reads of rows can lack gradients of batches in "
        "flight. In short runs this costs accuracy; use training.staleness: 1\n",
        100 * status.reads.share());
  }
  return table;
}

std::string ToJson(const ClusterStatus& status) {
  using Json = nlohmann::ordered_json;
  const auto number = [](const Number& value) { return value ? Json(*value) : Json(nullptr); };
  Json daemons = Json::array();
  for (const DaemonLine& line : status.daemons) {
    daemons.push_back({{"daemon", line.name},
                       {"state", line.state},
                       {"reason", line.reason},
                       {"rows", number(line.rows)},
                       {"cold_rows", number(line.cold_rows)},
                       {"memory_bytes", number(line.memory_bytes)},
                       {"samples_per_second", number(line.samples_per_second)},
                       {"staleness", number(line.staleness)},
                       {"queue", number(line.queue)},
                       {"checkpoint_step", number(line.checkpoint_step)},
                       {"checkpoint_age_seconds", number(line.checkpoint_age_seconds)}});
  }
  const Json root{{"ready", status.is_ready()},
                  {"bound", status.bound},
                  {"stale_reads", status.reads.share()},
                  {"daemons", daemons}};
  return root.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace simurgh
