#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/cluster_config.h"
#include "services/simurgh/scrape.h"

namespace simurgh {

// A daemon of a configuration.
struct ListedDaemon {
  std::string kind;  // "embedding-ps"
  size_t index = 0;
  InstanceConfig instance;

  std::string name() const { return absl::StrCat(kind, "/", index); }  // "embedding-ps/0"
};

std::vector<ListedDaemon> DaemonsOf(const ClusterConfig& config);

// The answers of a daemon to two scrapes.
struct DaemonAnswers {
  ListedDaemon daemon;
  bool is_reachable = false;
  bool is_ready = false;
  std::string reason;  // Answer of /readyz, or why the daemon is not reachable.
  MetricsText before;
  MetricsText now;
  double seconds = 0;  // Time between the scrapes; 0 without an earlier one.
};

// A line of the table. Nothing: the daemon has no such value, or not yet.
struct DaemonLine {
  std::string name;   // "embedding-ps/0"
  std::string state;  // "ready", "not ready" or "unreachable"
  std::string reason;
  std::optional<double> rows;
  std::optional<double> cold_rows;     // Part of `rows`: on disk.
  std::optional<double> memory_bytes;  // Resident memory.
  std::optional<double> samples_per_second;
  std::optional<double> staleness;  // Mean in steps.
  // An nn-worker's batches read ahead, an embedding worker's batches in the forward buffer, or a
  // server's requests.
  std::optional<double> queue;
  std::optional<double> checkpoint_step;
  std::optional<double> checkpoint_age_seconds;
};

// Reads of rows that can lack gradients of batches in flight: those a few steps after the last read
// of the row. With staleness 1 there are none.
struct StaleReads {
  double stale = 0;
  double all = 0;
  uint32_t age = 0;  // Most steps since the last read.

  double share() const { return all == 0 ? 0 : stale / all; }
  // Returns whether they can cost accuracy.
  bool are_many() const { return share() >= 0.1; }
};

// metrics: of an embedding-ps. staleness: training.staleness of the nn-workers.
StaleReads StaleReadsOf(const MetricsText& metrics, uint32_t staleness);

struct ClusterStatus {
  std::vector<DaemonLine> daemons;
  StaleReads reads;   // The sums over all servers.
  std::string bound;  // The stage that bounds the throughput, with the numbers that show it.

  bool is_ready() const;  // Returns whether all daemons are ready.
};

// unix_time: now, in seconds.
ClusterStatus StatusOf(const std::vector<DaemonAnswers>& answers, double unix_time);

// Returns a text for people: columns, reasons, and the bound.
std::string ToTable(const ClusterStatus& status);
// Returns one object on one line, for programs. Absent values are null.
std::string ToJson(const ClusterStatus& status);

}  // namespace simurgh
