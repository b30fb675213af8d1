#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/table_config.h"
#include "config/training_config.h"

namespace simurgh {

// YAML section `checkpoint`.
struct CheckpointConfig {
  enum class OnError { kContinue, kStop };
  enum class OnServerLoss { kRollback, kPartial };

  // Path of the folder for the trained model, which need not exist; empty: nothing is saved.
  std::string directory;
  // Path of a model whose rows and dense weights a new training begins with; empty: none.
  std::string start_from = {};
  uint64_t every_steps = 0;            // 0: not by steps.
  std::set<uint64_t> at_steps;         // Numbers of steps trained.
  std::chrono::milliseconds every{0};  // 0: not by time.
  uint32_t keep = 2;                   // Number of checkpoints to keep, from 1.
  // Number of checkpoints with the best evaluations to keep, too. ApplyBest sets it to 0 where
  // training does not compare evaluations, and chooses the metric.
  uint32_t keep_best = 1;
  std::optional<EvaluationMetric> best_by;
  uint32_t full_every = 1;                // Number of checkpoints for one with all rows, from 1.
  uint64_t memory = uint64_t{256} << 20;  // Bytes per server for rows copied early.
  uint64_t bandwidth = 0;                 // Bytes per second that a server writes; 0: no limit.
  OnError on_error = OnError::kContinue;
  OnServerLoss on_server_loss = OnServerLoss::kRollback;
};

// Addresses of one daemon, in the form of rpc/address.h. Those of metrics: "host:port" or empty.
struct InstanceConfig {
  std::string address;         // Address at which others reach the daemon.
  std::string metrics;         // Address at which others read the metrics.
  std::string listen;          // Address at which the daemon listens; empty: `address`.
  std::string metrics_listen;  // Address at which the daemon serves metrics; empty: `metrics`.
  // "file:line: key" of the listening addresses, for errors when the daemon starts to listen.
  std::string listen_key;
  std::string metrics_listen_key;
  std::string address_key;  // "file:line: key" of `address`, for errors of callers.

  const std::string& listens_at() const { return listen.empty() ? address : listen; }
  const std::string& metrics_listens_at() const {
    return metrics_listen.empty() ? metrics : metrics_listen;
  }
  // nn_worker: index of the CUDA device. Nothing: position among the instances of the host.
  std::optional<uint32_t> cuda_device;
};

// YAML section `embedding_ps`.
struct EmbeddingPsConfig {
  std::vector<InstanceConfig> instances;
  uint32_t partitions = 2;                        // Threads that own rows, per server; 1 to 256.
  uint64_t memory_budget = 0;                     // Resident bytes of a server; 0: no limit.
  bool concurrent_runs = false;                   // Whether a second run may train.
  std::chrono::milliseconds run_timeout{30'000};  // Time without a request that ends a run.
  // Absolute path on tmpfs or hugetlbfs for files of rows; empty: private memory.
  std::string arena_directory;
  // Absolute path of a folder on an SSD for rows without room in memory; empty: none.
  std::string cold_directory;
  // Partition p uses processors and memory of node p modulo their number. Empty: any.
  std::vector<uint32_t> numa_nodes;
};

// YAML section `embedding_worker`.
struct EmbeddingWorkerConfig {
  std::vector<InstanceConfig> instances;
  uint32_t threads = 1;                               // Threads that group, pool and un-pool.
  uint32_t forward_buffer_batches = 1024;             // Buffered batches at which submits wait.
  uint64_t forward_buffer_bytes = uint64_t{4} << 30;  // Buffered bytes at which submits wait.
  RowPrecision row_precision = RowPrecision::kF32;    // Rows from servers.
  RowPrecision row_gradient_precision = RowPrecision::kF32;  // Row gradients to servers.
  uint64_t row_cache_bytes = 0;  // See training.row_age_steps; 0: no cache.
  // Time without a request after which a batch is dropped.
  std::chrono::milliseconds batch_expiry{120'000};
};

// Device of the dense network.
enum class ComputeDevice {
  kCpu,
  kCuda,  // Uses the CPU, with a warning, if there is no CUDA device.
  kAuto,  // Same as kCuda, without the warning.
};

// Precision of matrix products. Weights, their gradients and sums are always f32.
enum class ComputePrecision {
  kF32,
  kTf32,  // CUDA: f32 values; products use 10 bits of mantissa.
  kBf16,  // CUDA: also activations and their gradients.
  kF16,   // CUDA only: same as kBf16, with scaled gradients.
};

// Maximum number of ranks, the nn-workers of one run.
inline constexpr uint32_t kMaxRanks = 256;

// YAML section `nn_worker`: one instance per rank.
struct NnWorkerConfig {
  // `address`: for loaders and other ranks; rank 0's is the meeting point. Otherwise it may be
  // empty.
  std::vector<InstanceConfig> instances;
  uint32_t threads = 1;                             // CPU threads of the dense network.
  std::chrono::milliseconds rank_timeout{120'000};  // Time that ranks wait for another.
  ComputeDevice device = ComputeDevice::kCpu;
  ComputePrecision precision = ComputePrecision::kF32;
  // CUDA memory reserved for each batch of rows; 0: enough for samples with one id per feature.
  uint64_t batch_row_bytes = 0;
};

// YAML section `loaders`: processes that read the training data instead of the nn-workers.
struct LoadersConfig {
  std::vector<InstanceConfig> instances;       // Only `metrics` is used. Empty: no loaders.
  std::chrono::milliseconds timeout{120'000};  // Longest wait for the next batch of a loader.
  // Bytes of loader batches that an nn-worker buffers. The next batch is always admitted.
  uint64_t feed_buffer_bytes = uint64_t{4} << 30;
};

// YAML section `rpc.tls`: files in PEM form, the same for all daemons of one machine.
struct TlsConfig {
  std::string certificate;
  std::string key;
  std::string authority;
  std::string peer_name;  // Empty: the host of the address.
  // Role ("embedding-ps") -> DNS names, of which a peer's certificate must have one; see
  // rpc::TlsOptions.
  std::map<std::string, std::vector<std::string>> allowed_names;
  std::string where;  // "file:line: rpc.tls", for errors when the files are used.
};

enum class Security {
  kLoopback,  // TCP without protection, on one machine.
  kTls,       // TLS with certificates of both ends.
  kInsecure,  // TCP without encryption, on any network; requires a token.
};

// YAML section `rpc`.
struct RpcConfig {
  std::string token_file;  // YAML cluster.token_file; empty: no token.
  std::string token_key;   // "file:line: cluster.token_file", for errors when the file is used.
  Security security = Security::kLoopback;
  TlsConfig tls;  // Applies with Security::kTls.
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds call_timeout{30'000};
  uint64_t max_frame_bytes = uint64_t{1} << 30;
  uint32_t max_connections = 1'024;
  uint32_t max_connections_per_host = 512;
  // Most bytes of a peer's unanswered requests, and most of its unread responses.
  uint64_t peer_memory_bytes = uint64_t{256} << 20;
  std::chrono::milliseconds stall_timeout{30'000};  // Longest pause within a message.
  std::chrono::microseconds spin{0};                // Polling time of an RPC thread before sleep.
};

}  // namespace simurgh
