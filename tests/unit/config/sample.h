#pragma once

#include <string>

namespace simurgh {

// A valid cluster that uses every section; the file it names is there when tests run in the
// repository root.
inline constexpr char kSample[] = R"(# Line 1.
cluster: {name: sample, seed: 7}
embedding_ps:
  partitions: 3
  instances:
    - {address: "127.0.0.1:7401", metrics: "127.0.0.1:7501"}
    - {address: "unix:///tmp/ps1.sock"}
embedding_worker:
  threads: 2
  batch_expiry: 90s
  instances:
    - {address: "[::1]:7411"}
nn_worker:
  threads: 4
  instances:
    - {metrics: "localhost:7521"}
rpc: {connect_timeout: 500ms, max_frame_bytes: 65536}
tables:
  - name: city
    dim: 4
    capacity_rows: 1000
    initializer: {kind: normal, stddev: 0.5}
    optimizer: {kind: adagrad, row_wise: true, epsilon: 1e-9}
  - {names: [item, shop], dim: 16, optimizer: {kind: sgd, learning_rate: 0.5}}
features:
  - {name: city, hash_stack: {rounds: 2, buckets: 500}}
  - {name: bought, column: items, table: item}
  - {name: seen, column: items, table: item}
  - {name: shop}
data:
  format: csv
  train: [CMakeLists.txt]
  csv:
    separator: ";"
  columns:
    - {name: age, kind: dense, transform: log1p, mean: 2, stddev: 0.25, missing: -1}
    - {name: city, kind: id}
    - {name: items, kind: id, separator: "|"}
    - {name: shop, kind: id}
    - {name: note, kind: skip}
    - {name: sold, kind: label, positive: ["yes", 1]}
model:
  towers:
    - {name: bottom, input: dense, layers: [{linear: 8}, {batch_norm: {momentum: 0.2}}, sigmoid]}
    - name: top
      input: [bottom, embeddings]
      layers: [{linear: 32}, batch_norm, relu, {linear: 1}]
training:
  batch_size: 64
  staleness: 4
  drop_last: false
  dense_optimizer: {kind: adam, learning_rate: 1e-3}
checkpoint: {directory: models/sample}
)";

inline constexpr char kSamplePath[] = "sample.yaml";

}  // namespace simurgh
