#include "services/nn_worker/network_description.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <nlohmann/json.hpp>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "config/statistics.h"
#include "config/tower_shape.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

Json Describe(const LayerConfig& layer) {
  using Kind = LayerConfig::Kind;
  Json described = {{"kind", NameOf(layer.kind)}};
  switch (layer.kind) {
    case Kind::kBatchNorm:
    case Kind::kDice:
      described["momentum"] = layer.momentum;
      described["epsilon"] = layer.epsilon;
      break;
    case Kind::kLayerNorm:
      described["epsilon"] = layer.epsilon;
      break;
    case Kind::kDropout:
      described["rate"] = layer.rate;
      break;
    case Kind::kCross:
      described["rank"] = layer.rank;
      break;
    case Kind::kSum:
      described["width"] = std::max(layer.width, 1U);
      break;
    case Kind::kAttention:
      described["hidden"] = layer.hidden;
      described["activation"] = NameOf(layer.activation);
      described["softmax"] = layer.normalises;
      break;
    case Kind::kSelfAttention:
      described["heads"] = layer.width;
      described["hidden"] = layer.hidden[0];
      described["epsilon"] = layer.epsilon;
      described["positions"] = layer.positions;
      described["causal"] = layer.causal;
      break;
    default:
      if (layer.width > 0) described["width"] = layer.width;
  }
  return described;
}

Json Describe(const TowerConfig& tower, std::span<const InputShape> inputs) {
  Json layers = Json::array();
  for (const LayerConfig& layer : tower.layers) {
    layers.push_back(Describe(layer));
    if (!ReadsSequence(layer)) continue;
    const SequenceShape shape = SequenceShapeOf(layer, inputs);
    layers.back()["dim"] = shape.row_width;
    if (shape.first + 2 == inputs.size()) continue;
    Json dims = Json::array();
    for (const InputShape& input : inputs.subspan(shape.first, inputs.size() - shape.first - 1)) {
      dims.push_back(input.width / shape.places);
    }
    layers.back()["dims"] = std::move(dims);
  }
  return {{"name", tower.name}, {"inputs", tower.inputs}, {"layers", std::move(layers)}};
}

Json Describe(const FeatureConfig& feature, const TableConfig& table) {
  return {{"feature", feature.name},
          {"table", table.name},
          {"dim", table.dim},
          {"width", feature.width(table.dim)},
          {"pooling", NameOf(feature.pooling)},
          {"rows_per_id", std::max(feature.hash_stack.rounds, 1U)}};
}

}  // namespace

std::vector<std::string> DenseNames(const ClusterConfig& config) {
  std::vector<std::string> names = DenseColumns(config.data);
  for (const FeatureConfig& feature : config.features) {
    for (uint32_t i = 0; i < feature.mask_width(); ++i) {
      names.push_back(absl::StrCat("mask.", feature.name, ".", i));
    }
  }
  return names;
}

std::string DescribeNetwork(const ClusterConfig& config) {
  Json embeddings = Json::array();
  for (const FeatureConfig& feature : config.features) {
    embeddings.push_back(Describe(feature, config.tables[feature.table_index]));
  }
  Json towers = Json::array();
  std::vector<InputShape> known = ModelInputShapes(config);
  for (const TowerConfig& tower : config.model.towers) {
    const std::vector<InputShape> inputs = InputsOf(tower, known);
    towers.push_back(Describe(tower, inputs));
    known.push_back(TowerShapeOf(tower, inputs).output);
  }
  Json losses = Json::array();
  for (const TaskConfig& task : config.model.tasks) losses.push_back(NameOf(task.loss.kind));
  Json scales = Json::array();
  for (const LabelScale& scale : LabelScalesOf(config.data)) {
    scales.push_back({{"mean", scale.mean}, {"stddev", scale.stddev}});
  }
  Json network = {
      {"labels", LabelColumns(config.data)}, {"losses", std::move(losses)},
      {"scales", std::move(scales)},         {"keep_negatives", config.training.keep_negatives},
      {"dense", DenseNames(config)},         {"embeddings", std::move(embeddings)},
      {"towers", std::move(towers)}};
  if (IsInBatch(config.model)) {
    network["temperature"] = config.model.tasks.front().loss.temperature;
  }
  return network.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> OutputNames(std::vector<std::string> labels) {
  if (labels.size() == 1) return {"p"};
  for (std::string& label : labels) label = absl::StrCat("p_", label);
  return labels;
}

namespace {

constexpr size_t kRows = 64;

struct ProbeRow {
  std::vector<float> probabilities;  // One per label.
  std::string line;
};

StatusOr<std::vector<ProbeRow>> FirstRows(const ClusterConfig& config) {
  const std::vector<std::string>& files =
      config.data.test.empty() ? config.data.train : config.data.test;
  if (std::ranges::any_of(files, IsStream)) {
    return absl::FailedPreconditionError("rows of a stream cannot be read again; set data.test");
  }
  std::vector<ProbeRow> rows;
  if (files.empty()) return rows;  // A stream cannot be read again.
  ReadOptions reading;
  reading.on_row = [&](std::string_view line, bool in_batch) {
    // Rows of Parquet and Arrow data may be longer than lines of text can be.
    if (!in_batch || line.size() > kMaxLineBytes) return;
    rows.push_back({.probabilities = {}, .line = std::string(line)});
  };
  SIMURGH_ASSIGN_OR_RETURN(const auto reader,
                           OpenBatchReader(config.data, config.features, files, kRows, reading));
  SIMURGH_RETURN_IF_ERROR(reader->Next().status());
  return rows;
}

// Writes the lines into a file in memory. Readers open it as /proc/self/fd/N.
StatusOr<FileDescriptor> WriteLines(const DataConfig& data, const std::vector<ProbeRow>& rows) {
  const DataConfig lines = LinesOf(data);
  const bool has_header = lines.format == DataConfig::Format::kCsv && lines.csv.header;
  std::string text = has_header ? CsvHeader(lines) + "\n" : "";
  for (const ProbeRow& row : rows) absl::StrAppend(&text, row.line, "\n");
  FileDescriptor file(memfd_create("simurgh-probe", MFD_CLOEXEC));
  for (size_t written = 0; file.valid() && written < text.size();) {
    const ssize_t count = write(file.number(), text.data() + written, text.size() - written);
    if (count < 0) return ErrnoStatus(errno, "probe.csv: cannot copy its rows");
    written += static_cast<size_t>(count);
  }
  if (!file.valid()) return ErrnoStatus(errno, "probe.csv: cannot copy its rows");
  return file;
}

// Sets the rows' probabilities.
Status PredictRows(TrainingJob& job, EmbeddingPort& port, uint64_t run, const TrainState& state,
                   std::vector<ProbeRow>& rows) {
  SIMURGH_ASSIGN_OR_RETURN(const FileDescriptor file, WriteLines(job.config().data, rows));
  size_t next = 0;
  ReadOptions reading{.are_lines = true};
  std::vector<bool> is_good;
  reading.on_row = [&](std::string_view /*line*/, bool in_batch) { is_good.push_back(in_batch); };
  std::vector<float> all;
  const auto sink = [&](const Batch& /*batch*/, std::span<const float> probabilities) {
    all.insert(all.end(), probabilities.begin(), probabilities.end());
    return absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(job.Predict(port, run, state.steps, state.calibrations,
                                      {absl::StrCat("/proc/self/fd/", file.number())}, reading,
                                      sink));
  const size_t tasks = LabelColumns(job.config().data).size();
  if (is_good.size() != rows.size() || all.size() != rows.size() * tasks) {
    return absl::FailedPreconditionError(
        absl::StrCat("probe.csv: only ", all.size() / tasks, " of its ", rows.size(),
                     " rows can be parsed; use the plug-ins and vocabularies of the training"));
  }
  for (ProbeRow& row : rows) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(next);
    row.probabilities.assign(begin, begin + static_cast<ptrdiff_t>(tasks));
    next += tasks;
  }
  return absl::OkStatus();
}

StatusOr<std::string> Describe(TrainingJob& job, EmbeddingPort& port, uint64_t run,
                               const TrainState& state) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<ProbeRow> rows, FirstRows(job.config()));
  if (rows.empty()) return "";
  SIMURGH_RETURN_IF_ERROR(PredictRows(job, port, run, state, rows));
  std::string text;
  for (const std::string& name : OutputNames(LabelColumns(job.config().data))) {
    AppendCsvCell(name, text);
    text.push_back(',');
  }
  text.append("row\n");
  for (const ProbeRow& row : rows) {
    for (const float probability : row.probabilities) {
      std::array<char, 32> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), probability);
      text.append(digits.data(), end.ptr).push_back(',');
    }
    text.push_back('"');
    text.append(absl::StrJoin(absl::StrSplit(row.line, '"'), "\"\"")).append("\"\n");
  }
  return text;
}

}  // namespace

std::string MakeProbe(TrainingJob& job, EmbeddingPort& port, uint64_t run,
                      const TrainState& state) {
  StatusOr<std::string> text = Describe(job, port, run, state);
  if (text.ok()) return *std::move(text);
  spdlog::warn("the model is saved without probe.csv: {}", std::string(text.status().message()));
  return "";
}

}  // namespace simurgh
