#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/embedding_form.h"
#include "config/service_config.h"

namespace simurgh {

// YAML section `serving`: the online server. Paths are absolute or relative to the YAML file.
struct ServingConfig {
  enum class Rows { kMemory, kMapped, kRemote };
  enum class BadRows { kFail, kEmpty };
  enum class UnknownColumns { kFail, kIgnore };

  struct Tls {
    std::string certificate;
    std::string key;
    std::string client_authority;  // Empty: clients need no certificate.
    std::string where;             // "file:line: serving.tls", for errors when files are used.
  };

  std::string model;             // Folder of the model; empty: not given.
  std::string name;              // The model's name in URLs; empty: that of the folder.
  std::string version = "best";  // "best", "latest" or a step.
  std::string listen = "127.0.0.1:8000";
  std::string listen_key;  // "file:line: key", for errors when the server starts to listen.
  std::string metrics;     // host:port for metrics; empty: not served.
  std::string metrics_key;
  uint32_t threads = 0;  // Predicting threads; 0: one for each processor.
  Rows rows = Rows::kMemory;
  VectorPrecision row_precision = VectorPrecision::kF32;  // f32, bf16 or int8.
  std::vector<std::string> servers;      // host:port of the servers of rows, in their order.
  std::string servers_key;               // "file:line: serving.servers".
  uint64_t hot_row_bytes = 64ULL << 20;  // Bytes of cached rows of servers.
  uint64_t memory_budget = 0;            // Resident bytes; 0: no limit.
  std::vector<std::string> items;  // Files of items to recommend; none: those of the model's data.
  std::string item_id;  // Column that names items; empty: data.items.id, or the only one.
  VectorPrecision item_precision = VectorPrecision::kF32;  // f32 or int8.
  uint64_t item_graph_from = 0;                            // See ItemIndex::Options::graph_from.
  std::string rank_model;  // Folder of the model that ranks recommended items; empty: none.
  uint32_t max_batch_rows = 1'024;
  std::chrono::microseconds batch_delay{0};
  uint32_t max_rows = 4'096;  // Most rows of a request.
  uint64_t max_body_bytes = uint64_t{8} << 20;
  uint32_t max_connections = 1'024;
  std::chrono::milliseconds request_timeout{10'000};
  std::chrono::milliseconds queue_timeout{100};
  BadRows bad_rows = BadRows::kFail;
  UnknownColumns unknown_columns = UnknownColumns::kFail;
  // Age of the newest version from which the server is not ready; 0: any.
  std::chrono::milliseconds max_age{0};
  std::chrono::milliseconds poll{200};
  Security security = Security::kLoopback;
  Tls tls;                 // Applies with Security::kTls.
  std::string token_file;  // Empty: no token.
  std::string token_key;   // "file:line: serving.token_file".
  bool allow_plugins = false;
  RpcConfig rpc;  // Settings of connections between the server and the servers of rows.
  // Overrides of the model's configuration, such as the path of a vocabulary.
  std::vector<std::string> model_overrides;
};

// Returns the number of threads that predict or search rows.
uint32_t ThreadsOf(const ServingConfig& config);

// Reads the section of a file, and, with serving.servers, the section `rpc` and
// cluster.token_file; others are not read. path: empty for defaults. Each override is
// "section.key=value". An override of a key that is not read is added to model_overrides. Errors:
// those of LoadClusterConfig.
StatusOr<ServingConfig> LoadServingConfig(const std::string& path,
                                          const std::vector<std::string>& overrides);

}  // namespace simurgh
