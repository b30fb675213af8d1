#include "tests/unit/predict/versioned_model.h"

#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "model/row_files.h"
#include "model/tensor_file.h"
#include "table/table.h"

namespace simurgh::testing {
namespace {

constexpr char kConfig[] = R"(cluster: {name: versioned}
embedding_ps: {instances: [{address: "unix:///ps"}]}
embedding_worker: {instances: [{address: "unix:///worker"}]}
nn_worker: {instances: [{}]}
tables: [{names: [a, b], dim: 2}]
features: [{name: a, hash: none}, {name: b, hash: none}]
data:
  format: csv
  train: [train.csv]
  columns:
    - {name: torn, kind: label}
    - {name: a, kind: id}
    - {name: b, kind: id}
    - {name: version, kind: label}
model: {towers: [{name: top, input: embeddings, layers: [{linear: 2}]}]}
training: {batch_size: 8, dense_optimizer: {kind: sgd, learning_rate: 0.1}}
)";

constexpr uint64_t kServer = 0;

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// The configuration with its training file, which has to exist.
ClusterConfig ConfigBeside(const std::string& folder) {
  SIMURGH_CHECK(FileSystem::Real().WriteFile(folder + ".csv", "").ok());
  return ParseClusterConfig(kConfig, folder + ".yaml", {"data.train=[" + folder + ".csv]"}).value();
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

VersionedModel::VersionedModel(const std::string& folder, uint64_t run)
    : directory_(folder),
      config_(ConfigBeside(folder)),
      generation_(directory_.NewGeneration().value()),
      run_(run) {}

Checkpoint VersionedModel::WriteFull(uint64_t version, const std::set<uint64_t>& missing,
                                     const std::string& probe) {
  return Write(version, missing, nullptr, probe, "");
}

Checkpoint VersionedModel::WriteDelta(uint64_t version, const Checkpoint& parent,
                                      const std::set<uint64_t>& removed, const std::string& whole) {
  return Write(version, removed, &parent, "", whole);
}

Checkpoint VersionedModel::Write(uint64_t version, const std::set<uint64_t>& missing,
                                 const Checkpoint* parent, const std::string& probe,
                                 const std::string& whole) {
  auto attempt = directory_.Begin(version, generation_);
  SIMURGH_CHECK(attempt.ok()) << attempt.status();
  for (const TableConfig& table : config_.tables) {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < kIds; ++id) {
      if (table.name != "b" || !missing.contains(id)) ids.push_back(id);
    }
    TensorMetadata metadata = Table::FileMetadata(table);
    const bool is_delta = parent != nullptr && table.name != whole;
    if (is_delta) metadata[kRowsAfterDelta] = absl::StrCat(ids.size());
    const std::vector<TensorSpec> tensors = Table::FileTensors(table, ids.size());
    const std::string path =
        attempt->Path(absl::StrCat("rows/", table.name, "/", kServer, ".safetensors")).value();
    TensorFileWriter file = TensorFileWriter::Create(path, tensors, metadata).value();
    const std::vector<float> weights(ids.size() * table.dim, static_cast<float>(version));
    for (const TensorSpec& tensor : tensors) {
      const std::vector<std::byte> zeros(tensor.rows() * tensor.row_bytes());
      const std::span<const std::byte> bytes = tensor.name == "id"        ? BytesOf(ids)
                                               : tensor.name == "weights" ? BytesOf(weights)
                                                                          : std::span(zeros);
      SIMURGH_CHECK(file.Write(tensor.name, bytes).ok());
    }
    SIMURGH_CHECK(file.Finish().ok());
    if (!is_delta) continue;
    std::vector<uint64_t> removed;
    if (table.name == "b") removed.assign(missing.begin(), missing.end());
    TensorFileWriter gone =
        TensorFileWriter::Create(
            attempt->Path(absl::StrCat("removed/", table.name, "/", kServer, ".safetensors"))
                .value(),
            {{"id", DType::kU64, {removed.size()}}}, {})
            .value();
    SIMURGH_CHECK(gone.Write("id", BytesOf(removed)).ok());
    SIMURGH_CHECK(gone.Finish().ok());
  }
  // (4, 2): the first element of `a` and of `b` counts for `torn`, that of `a` for `version`.
  const std::vector<float> weight = {1, 0.001F, 0, 0, 1, 0, 0, 0};
  const std::vector<float> bias = {-2 * static_cast<float>(version), 0};
  TensorFileWriter dense =
      TensorFileWriter::Create(
          attempt->Path("dense.safetensors").value(),
          {{"top.1.weight", DType::kF32, {4, 2}}, {"top.1.bias", DType::kF32, {2}}}, {})
          .value();
  SIMURGH_CHECK(dense.Write("top.1.weight", BytesOf(weight)).ok());
  SIMURGH_CHECK(dense.Write("top.1.bias", BytesOf(bias)).ok());
  SIMURGH_CHECK(dense.Finish().ok());
  const std::string p = absl::StrCat("0.5,", Sigmoid(static_cast<double>(version) / 1'000));
  SIMURGH_CHECK(FileSystem::Real()
                    .WriteFile(attempt->Path("probe.csv").value(),
                               absl::StrCat("p_torn,p_version,row\n", probe.empty() ? p : probe,
                                            ",\"0,0,0,0\"\n"))
                    .ok());
  Manifest manifest;
  manifest.run = run_;
  manifest.step_time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (parent != nullptr) manifest.parent = {parent->manifest.step, parent->checksum};
  manifest.extra = {{"yaml", config_.source.text},
                    {"yaml.path", config_.source.path},
                    {"yaml.overrides", config_.source.overrides[0]}};
  auto published = attempt->Publish(std::move(manifest));
  SIMURGH_CHECK(published.ok()) << published.status();
  return *std::move(published);
}

ScoreRequest VersionedModel::Request(uint64_t a, uint64_t b) {
  auto texts = std::make_shared<std::array<std::string, 2>>(
      std::array<std::string, 2>{absl::StrCat(a), absl::StrCat(b)});
  ScoreRequest request{.rows = 1};
  for (const std::string& text : *texts) {
    request.columns.push_back({{.kind = Cell::Kind::kText, .text = text}});
  }
  request.memory = texts;
  return request;
}

uint64_t VersionedModel::VersionOf(const ScoredRows& scored) {
  const double torn = scored.probabilities.at(0);
  const double p = scored.probabilities.at(1);
  if (std::abs(torn - 0.5) > 1e-6) return 0;
  return static_cast<uint64_t>(std::lround(1'000 * std::log(p / (1 - p))));
}

}  // namespace simurgh::testing
