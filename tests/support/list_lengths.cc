#include "tests/support/list_lengths.h"

#include "absl/strings/str_cat.h"

#include "base/random.h"

namespace simurgh::testing {
namespace {

std::string Rows(size_t count, uint64_t seed) {
  Random random(seed);
  std::string rows;
  for (size_t r = 0; r < count; ++r) {
    const uint64_t ids = random.Below(8);
    absl::StrAppend(&rows, ids >= 3 ? 1 : 0, ",");
    for (uint64_t i = 0; i < ids; ++i) absl::StrAppend(&rows, i > 0 ? " " : "", random.Below(50));
    absl::StrAppend(&rows, "\n");
  }
  return rows;
}

}  // namespace

std::string WriteListLengths(const TemporaryFolder& folder, const std::string& input) {
  folder.Write("train.csv", Rows(4'000, 1));
  folder.Write("test.csv", Rows(1'000, 2));
  return folder.Write("lists.yaml", absl::StrCat(R"(

cluster: {name: lists, seed: 1}
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:8"}]}
nn_worker: {instances: [{address: "127.0.0.1:9"}]}
tables:
  - name: words
    dim: 2
    capacity_rows: 1000
    initializer: {kind: zero}
    optimizer: {kind: sgd, learning_rate: 1e-9}
features: [{name: words, pooling: raw, max_length: 5, mask: true}]
data:
  train: [train.csv]
  test: [test.csv]
  csv: {columns: [{name: label, kind: label}, {name: words, kind: id, separator: " "}]}
model: {towers: [{name: top, input: [)",
                                                 input, R"(], layers: [{linear: 1}]}]}
training: {batch_size: 100, epochs: 5}
)"));
}

}  // namespace simurgh::testing
