#include "services/nn_worker/resume.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/log.h"
#include "base/text.h"
#include "config/cluster_config.h"
#include "model/table_export.h"
#include "nn/dense_optimizer.h"
#include "train/dense_weights.h"

namespace simurgh {
namespace {

constexpr char kDense[] = "dense.safetensors";
constexpr char kAverage[] = "average.weights";
// File of each rank's own statistics of batch norm; written with several ranks only.
constexpr char kRanks[] = "rank-statistics.safetensors";

// server_optimizer: see RestoreDense. Its values follow those of the network's state.
std::vector<DenseTensor> TensorsOf(DenseNetwork& network,
                                   const DenseOptimizerConfig* server_optimizer) {
  std::vector<DenseTensor> tensors = network.tensors();
  if (server_optimizer == nullptr) return tensors;
  for (DenseTensor& tensor :
       DenseOptimizer::Tensors(*server_optimizer, network.parameters().size())) {
    tensor.offset += network.state().size();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Returns the tensors of kDense or kProgramFile.
std::vector<TensorSpec> SpecsOf(const DenseCopy& dense) {
  if (!dense.program) return SpecsOf(dense.tensors);
  std::vector<TensorSpec> specs;
  for (const ProgramState::Tensor& tensor : dense.program->tensors) specs.push_back(tensor.spec);
  return specs;
}

size_t CountOf(const TensorSpec& spec) { return spec.rows() * spec.row_bytes() / sizeof(float); }

std::vector<TensorSpec> RankSpecs(const DenseCopy& dense,
                                  const std::vector<float>& rank_statistics) {
  const size_t width = dense.statistics;
  return {{"statistics", DType::kF32, {rank_statistics.size() / width, width}}};
}

StatusOr<std::optional<ResumePoint>> Find(const ClusterConfig& config, const std::string& resume) {
  const std::string& directory = config.checkpoint.directory;
  const bool is_auto = resume == "auto";
  if (resume == "never" || (is_auto && directory.empty())) return std::nullopt;
  StatusOr<ModelDirectory::Newest> found = ModelDirectory::Find(is_auto ? directory : resume);
  if (is_auto && absl::IsNotFound(found.status())) return std::nullopt;
  if (!found.ok()) return is_auto ? found.status() : Annotate(found.status(), "--resume");
  for (const std::string& warning : found->warnings) spdlog::warn("{}", warning);
  const std::filesystem::path folder = found->checkpoint.folder;
  return ResumePoint{folder.parent_path().string(), std::move(found->checkpoint)};
}

}  // namespace

StatusOr<std::optional<ResumePoint>> FindResumePoint(const ClusterConfig& config,
                                                     const std::string& resume) {
  SIMURGH_ASSIGN_OR_RETURN(std::optional<ResumePoint> point, Find(config, resume));
  if (point) SIMURGH_RETURN_IF_ERROR(CheckFits(point->checkpoint, config));
  return point;
}

namespace {

// Returns settings, one per line, without those of the keys.
std::string Without(const std::string& settings, const std::vector<std::string>& keys) {
  std::vector<std::string> lines = absl::StrSplit(settings, '\n');
  std::erase_if(lines, [&](const std::string& line) {
    return std::ranges::any_of(keys, [&](const auto& key) { return line.starts_with(key); });
  });
  return absl::StrJoin(lines, "\n");
}

}  // namespace

Status CheckFits(const Checkpoint& checkpoint, const ClusterConfig& config,
                 const std::vector<std::string>& except) {
  const auto saved = checkpoint.manifest.extra.find("agreement");
  if (saved == checkpoint.manifest.extra.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder,
                     ": the model was saved by a version that could not continue training; "
                     "name another checkpoint.directory"));
  }
  const std::string difference = SettingsDifference(
      Without(saved->second, except), "the model",
      Without(ModelAgreement(config, saved->second), except), "the configuration");
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint.folder, ": the model does not fit the configuration: ", difference,
                   "; use the model's configuration, or another checkpoint.directory"));
}

void SetMeanStatistics(const TrainState& state, std::span<float> statistics) {
  const size_t width = statistics.size();
  const size_t ranks = width == 0 ? 0 : state.rank_statistics.size() / width;
  for (size_t i = 0; i < width && ranks > 0; ++i) {
    double sum = 0;
    for (size_t rank = 0; rank < ranks; ++rank) sum += state.rank_statistics[rank * width + i];
    statistics[i] = static_cast<float>(sum / static_cast<double>(ranks));
  }
}

DenseCopy::DenseCopy(DenseNetwork& network, const DenseOptimizerConfig* server_optimizer,
                     std::span<const float> server_state)
    : tensors(TensorsOf(network, server_optimizer)), statistics(network.statistics().size()) {
  const std::span<const float> weights = network.parameters();
  parameters.assign(weights.begin(), weights.end());
  const std::span<const float> others = network.state();
  state.assign(others.begin(), others.end());
  state.insert(state.end(), server_state.begin(), server_state.end());
}

uint64_t DenseFiles::BytesOf(const DenseCopy& dense, const std::vector<float>& rank_statistics) {
  const uint64_t network = TensorFileWriter::BytesOf(SpecsOf(dense), {});
  if (rank_statistics.empty()) return network;
  return network + TensorFileWriter::BytesOf(RankSpecs(dense, rank_statistics), {});
}

StatusOr<DenseFiles> DenseFiles::Create(const std::string& folder, const DenseCopy& dense,
                                        const std::vector<float>& rank_statistics,
                                        FileSystem& files) {
  const char* const name = dense.program ? kProgramFile : kDense;
  SIMURGH_ASSIGN_OR_RETURN(
      TensorFileWriter network,
      TensorFileWriter::Create(absl::StrCat(folder, "/", name), SpecsOf(dense), {}, files));
  std::optional<TensorFileWriter> ranks;
  if (!rank_statistics.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(
        ranks, TensorFileWriter::Create(absl::StrCat(folder, "/", kRanks),
                                        RankSpecs(dense, rank_statistics), {}, files));
  }
  return DenseFiles(std::move(network), std::move(ranks));
}

Status DenseFiles::Write(const DenseCopy& dense, const std::vector<float>& rank_statistics) {
  if (dense.program) {
    for (const ProgramState::Tensor& tensor : dense.program->tensors) {
      SIMURGH_RETURN_IF_ERROR(network_.Write(tensor.spec.name, tensor.bytes));
    }
    return network_.Finish().status();
  }
  const std::vector<TensorSpec> specs = SpecsOf(dense);
  for (size_t i = 0; i < specs.size(); ++i) {
    const DenseTensor& tensor = dense.tensors[i];
    const std::span<const float> values = tensor.in_state ? dense.state : dense.parameters;
    SIMURGH_RETURN_IF_ERROR(network_.Write(
        tensor.name, std::as_bytes(values.subspan(tensor.offset, CountOf(specs[i])))));
  }
  SIMURGH_RETURN_IF_ERROR(network_.Finish().status());
  if (!ranks_) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(ranks_->Write("statistics", std::as_bytes(std::span(rank_statistics))));
  return ranks_->Finish().status();
}

StatusOr<std::vector<float>> RestoreDense(const Checkpoint& checkpoint, uint32_t rank,
                                          uint32_t ranks, DenseNetwork& network,
                                          const DenseOptimizerConfig* server_optimizer) {
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, checkpoint.OpenTensors(kDense));
  const std::vector<DenseTensor> tensors = TensorsOf(network, server_optimizer);
  const std::vector<TensorSpec> specs = SpecsOf(tensors);
  const Status fits = CheckDenseTensors(
      file.tensors(), specs, "use the model's configuration or another checkpoint.directory");
  SIMURGH_RETURN_IF_ERROR(Annotate(fits, checkpoint.Path(kDense)));
  std::vector<float> parameters(network.parameters().size());
  const size_t own = network.state().size();
  const size_t on_servers =
      server_optimizer == nullptr
          ? 0
          : DenseOptimizer::StateSize(*server_optimizer, network.parameters().size());
  std::vector<float> state(own + on_servers);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::span<float> values = tensors[i].in_state ? state : parameters;
    SIMURGH_RETURN_IF_ERROR(
        file.Read(tensors[i].name, 0, specs[i].rows(),
                  std::as_writable_bytes(values.subspan(tensors[i].offset, CountOf(specs[i])))));
  }
  if (checkpoint.Has(kRanks)) {
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader of_ranks, checkpoint.OpenTensors(kRanks));
    const size_t width = network.statistics().size();
    const TensorSpec wanted{"statistics", DType::kF32, {ranks, width}};
    if (of_ranks.tensors().size() == 1 && of_ranks.tensors()[0] == wanted) {
      // Reads all rows, so that the checksums are compared.
      std::vector<float> all(ranks * width);
      SIMURGH_RETURN_IF_ERROR(
          of_ranks.Read(wanted.name, 0, ranks, std::as_writable_bytes(std::span(all))));
      std::ranges::copy(std::span(all).subspan(rank * width, width), state.begin());
    }
  }
  SIMURGH_RETURN_IF_ERROR(network.Restore(parameters, std::span(state).first(own)));
  return std::vector<float>(state.begin() + static_cast<std::ptrdiff_t>(own), state.end());
}

Status SetStartWeights(const ClusterConfig& config, DenseNetwork& network) {
  SIMURGH_ASSIGN_OR_RETURN(const ModelDirectory::Newest found, ModelDirectory::FindHeld([&config] {
                             return ModelDirectory::FindBest(config.checkpoint.start_from);
                           }));
  const Checkpoint& checkpoint = found.checkpoint;
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, checkpoint.OpenTensors(kDense));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<DenseTensor> tensors,
                           PredictionTensors(config.model, InputsOf(config)));
  std::vector<float> parameters(network.parameters().begin(), network.parameters().end());
  std::vector<float> state(network.state().begin(), network.state().end());
  std::vector<std::string> others;
  for (const DenseTensor& tensor : tensors) {
    const TensorSpec spec = SpecsOf({tensor}).front();
    const TensorSpec* const saved = FindTensor(file.tensors(), tensor.name);
    if (saved == nullptr || *saved != spec) {
      others.push_back(tensor.name);
      continue;
    }
    const std::span<float> values = tensor.in_state ? state : parameters;
    SIMURGH_RETURN_IF_ERROR(
        file.Read(tensor.name, 0, spec.rows(),
                  std::as_writable_bytes(values.subspan(tensor.offset, CountOf(spec)))));
  }
  const TensorSpec* const average = FindTensor(file.tensors(), kAverage);
  if (others.empty() && average != nullptr && average->rows() == parameters.size()) {
    SIMURGH_RETURN_IF_ERROR(
        file.Read(kAverage, 0, parameters.size(), std::as_writable_bytes(std::span(parameters))));
  }
  const size_t taken = tensors.size() - others.size();
  const std::vector<std::string> tables = TableReader::TablesOf(checkpoint.manifest);
  const bool has_table = std::ranges::any_of(config.tables, [&](const TableConfig& table) {
    return std::ranges::find(tables, table.name) != tables.end();
  });
  if (taken == 0 && !has_table) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder,
                     ": the model has no table and no dense tensor of the configuration; name "
                     "another model, or remove checkpoint.start_from"));
  }
  spdlog::info("start_from: dense_tensors={} of={} new={} model={}", taken, tensors.size(),
               others.empty() ? "none" : absl::StrJoin(others, ","), checkpoint.folder);
  // Evaluations use the average, which begins with these weights.
  for (const DenseTensor& tensor : network.tensors()) {
    if (tensor.name != kAverage) continue;
    std::ranges::copy(parameters, state.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
  }
  return network.Restore(parameters, state);
}

void WriteState(const TrainState& state, Manifest& manifest) {
  manifest.samples = state.samples;
  manifest.position = state.position.ToText();
  const size_t read = std::min<size_t>(state.position.files(), state.files.size());
  manifest.extra["train.files"] = DataFilesText({state.files.begin(), state.files.begin() + read});
  manifest.extra["train.skipped_steps"] = absl::StrCat(state.skipped_steps);
  manifest.extra["train.epochs"] = absl::StrCat(state.epochs);
  manifest.extra["train.no_better"] = absl::StrCat(state.stopping.no_better);
  manifest.extra["train.stopped_early"] = state.stopped_early ? "1" : "0";
  if (state.validation) {
    for (const auto& [metric, value] : ReportedMetrics(*state.validation)) {
      manifest.metrics["validation_" + metric] = value;
    }
  }
  WriteCalibrations(state.calibrations, manifest);
  if (state.stopping.best) manifest.metrics["early_stopping_best"] = *state.stopping.best;
}

StatusOr<TrainState> ReadState(const Manifest& manifest, size_t labels) {
  TrainState state{.steps = manifest.step, .samples = manifest.samples};
  const auto read = [&manifest](const std::string& key, auto& number) {
    const auto found = manifest.extra.find(key);
    return found != manifest.extra.end() && absl::SimpleAtoi(found->second, &number);
  };
  uint32_t stopped_early = 0;
  const bool complete =
      read("train.skipped_steps", state.skipped_steps) && read("train.epochs", state.epochs) &&
      read("train.no_better", state.stopping.no_better) &&
      read("train.stopped_early", stopped_early) && manifest.extra.contains("train.files");
  if (!complete) {
    return absl::DataLossError(
        "manifest.json has no complete state of training; use an undamaged copy of the model");
  }
  StatusOr<DataPosition> position = DataPosition::FromText(manifest.position);
  if (!position.ok()) return Annotate(position.status(), "manifest.json");
  state.position = *std::move(position);
  StatusOr<std::vector<DataFile>> files = DataFilesFromText(manifest.extra.at("train.files"));
  if (!files.ok()) return Annotate(files.status(), "manifest.json");
  state.files = *std::move(files);
  state.stopped_early = stopped_early != 0;
  SIMURGH_ASSIGN_OR_RETURN(state.calibrations, ReadCalibrations(manifest, labels));
  if (const auto best = manifest.metrics.find("early_stopping_best");
      best != manifest.metrics.end()) {
    state.stopping.best = best->second;
  }
  return state;
}

}  // namespace simurgh
