#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/config/table_config.h"

namespace simurgh {

// Where one daemon listens. An address is as in rpc/address.h; metrics is "host:port" or empty.
struct InstanceConfig {
  std::string address;
  std::string metrics;
  // Where they were said, "file:line: key": for errors that show only when a daemon listens.
  std::string address_key;
  std::string metrics_key;
  // nn_worker: which CUDA device of its machine. Nothing: the first for the first instance with
  // this host, the second for the second, and so on.
  std::optional<uint32_t> cuda_device;
};

// YAML section `embedding_ps`.
struct EmbeddingPsConfig {
  std::vector<InstanceConfig> instances;
  uint32_t partitions = 2;     // Threads that own rows, a server; 1 to 256.
  uint64_t memory_budget = 0;  // Resident bytes of a server; 0: what there is.
  // Absolute path on tmpfs or hugetlbfs for files of rows; empty: private memory.
  std::string arena_directory;
  // Partition p runs on, and has its memory from, node p modulo their number. Empty: anywhere.
  std::vector<uint32_t> numa_nodes;
};

// YAML section `embedding_worker`.
struct EmbeddingWorkerConfig {
  std::vector<InstanceConfig> instances;
  uint32_t threads = 1;                               // Compute: grouping, pooling, un-pooling.
  uint32_t forward_buffer_batches = 1024;             // Beyond it a submit waits.
  uint64_t forward_buffer_bytes = uint64_t{4} << 30;  // Likewise.
  RowPrecision row_precision = RowPrecision::kF32;    // Of rows on their way from servers.
  RowPrecision row_gradient_precision = RowPrecision::kF32;  // Of their gradients on the way there.
  // Memory for rows that pulls may get once more (training.row_age_steps); 0: none are kept.
  uint64_t row_cache_bytes = 0;
  // A batch that nobody asked about for so long is dropped.
  std::chrono::milliseconds batch_expiry{120'000};
};

// Where the dense network is computed.
enum class ComputeDevice {
  kCpu,
  kCuda,  // A CUDA device; where there is none, the CPU, with a warning.
  kAuto,  // The same without the warning.
};

// What matrix products work with. Weights, gradients of weights and sums are f32 in any case.
enum class ComputePrecision {
  kF32,
  kTf32,  // CUDA: f32 values of which the products read 10 bits of mantissa.
  kBf16,  // CUDA: activations and their gradients, too.
  kF16,   // CUDA alone: likewise, with gradients scaled so that they fit.
};

// Largest number of ranks: nn-workers of one run.
inline constexpr uint32_t kMaxRanks = 256;

// YAML section `nn_worker`: one instance a rank.
struct NnWorkerConfig {
  // `address` is where loaders submit. With several ranks: its host is where the others reach this
  // one, and rank 0's address is where they meet. Else it is empty.
  std::vector<InstanceConfig> instances;
  uint32_t threads = 1;  // Of the dense network.
  // How long the others wait for a rank.
  std::chrono::milliseconds rank_timeout{120'000};
  ComputeDevice device = ComputeDevice::kCpu;
  ComputePrecision precision = ComputePrecision::kF32;
  // Memory of the network's CUDA device that is made for each batch of rows at the start; 0: what
  // samples with one id of each feature need.
  uint64_t batch_row_bytes = 0;
};

// YAML section `loaders`: processes that read the training data and submit it to the nn-workers,
// which then read none themselves.
struct LoadersConfig {
  std::vector<InstanceConfig> instances;       // Only `metrics` is used. None: the nn-worker reads.
  std::chrono::milliseconds timeout{120'000};  // How long the trainer waits for one's next batch.
  // Memory of an nn-worker for batches of all loaders that it has not taken; the next one to take
  // may always come.
  uint64_t feed_buffer_bytes = uint64_t{4} << 30;
};

// YAML section `rpc.tls`: files in PEM form, the same for all daemons of one machine.
struct TlsConfig {
  std::string certificate;
  std::string key;
  std::string authority;
  std::string peer_name;  // Empty: the host of the address.
  std::string where;      // "file:line: rpc.tls", for errors that show when they are used.
};

enum class Security {
  kLoopback,  // TCP without protection, among daemons of one machine.
  kTls,       // TCP is TLS, and every end proves itself.
  kInsecure,  // TCP without protection, anywhere.
};

// YAML section `rpc`.
struct RpcConfig {
  Security security = Security::kLoopback;
  TlsConfig tls;  // Of Security::kTls.
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds call_timeout{30'000};
  uint64_t max_frame_bytes = uint64_t{1} << 30;
  uint32_t max_connections = 1'024;
  uint32_t max_connections_per_host = 512;
  uint64_t peer_memory_bytes = uint64_t{256} << 20;  // Unanswered requests; as much unread answers.
  std::chrono::milliseconds stall_timeout{30'000};   // In the middle of a message.
  // How long a thread of RPC polls for events before it sleeps.
  std::chrono::microseconds spin{0};
};

}  // namespace simurgh
