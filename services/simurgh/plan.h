#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "config/cluster_config.h"

namespace simurgh {

// The numbers of distinct ids that a plan is made for.
struct PlannedIds {
  // Adds a value of --ids: "N" or "TABLE=N", where N may end in k, M or G. Errors:
  // INVALID_ARGUMENT.
  Status Add(const std::string& text);

  bool empty() const { return !all && tables.empty(); }

  std::optional<uint64_t> all;
  std::map<std::string, uint64_t> tables;  // Number per name of a table.
};

// Returns what `simurgh plan --json` prints. data_problem: why the data cannot be read; OK if it
// can. server_memory: bytes that a server may have; 0: no limit.
// Errors: INVALID_ARGUMENT for ids that do not fit the tables; those of the data.
StatusOr<nlohmann::ordered_json> PlanOf(const ClusterConfig& config, const Status& data_problem,
                                        const PlannedIds& ids, uint64_t server_memory);

}  // namespace simurgh
