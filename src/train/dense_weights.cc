#include "train/dense_weights.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "data/reading/batch_reader.h"
#include "embedding/raw_masks.h"
#include "model/row_files.h"

namespace simurgh {

ModelInputs InputsOf(const ClusterConfig& config) {
  ModelInputs inputs{
      .dense_width = DenseColumns(config.data).size() + RawMasks(config.features).width(),
      .embedding_width = config.embedding_width(),
      .has_sample_weights = HasSampleWeights(config.data)};
  for (const FeatureConfig& feature : config.features) {
    inputs.features.push_back({feature.name, feature.width(config.tables[feature.table_index].dim),
                               feature.mask_width(), feature.places()});
  }
  return inputs;
}

std::vector<TensorSpec> SpecsOf(const std::vector<DenseTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const DenseTensor& tensor : tensors) {
    specs.push_back({tensor.name, DType::kF32, {tensor.shape.begin(), tensor.shape.end()}});
  }
  return specs;
}

Status CheckDenseTensors(const std::vector<TensorSpec>& saved,
                         const std::vector<TensorSpec>& wanted, const char* remedy) {
  const auto describe = [](const TensorSpec* spec) {
    return spec == nullptr ? "none" : DescribeTensor(*spec);
  };
  for (const std::vector<TensorSpec>* specs : {&wanted, &saved}) {
    for (const TensorSpec& one : *specs) {
      const TensorSpec* const a = FindTensor(saved, one.name);
      const TensorSpec* const b = FindTensor(wanted, one.name);
      if (a != nullptr && b != nullptr && *a == *b) continue;
      return absl::InvalidArgumentError(absl::StrCat("dense tensor '", one.name, "': the file has ",
                                                     describe(a), ", the model needs ", describe(b),
                                                     "; ", remedy));
    }
  }
  return absl::OkStatus();
}

namespace {

constexpr char kAverage[] = "average.weights";

// Returns whether a network has the tensor besides PredictionTensors(), see
// DenseNetwork::tensors().
bool IsOfTraining(std::string_view name) {
  return name.starts_with("optimizer.") || name.starts_with("average.") ||
         name.starts_with("item_frequency.") || name == "loss_scale";
}

constexpr char kRemedy[] = "use the towers that the file was made for, or another file";

Status Read(TensorFileReader& file, const TensorSpec& spec, std::span<float> values) {
  return file.Read(spec.name, 0, spec.rows(), std::as_writable_bytes(values));
}

}  // namespace

StatusOr<DenseWeights> ReadDenseWeights(TensorFileReader& file, const ClusterConfig& config) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<DenseTensor> tensors,
                           PredictionTensors(config.model, InputsOf(config)));
  const std::vector<TensorSpec> specs = SpecsOf(tensors);
  std::vector<TensorSpec> saved = file.tensors();
  std::erase_if(saved, [&specs](const TensorSpec& spec) {
    return IsOfTraining(spec.name) && FindTensor(specs, spec.name) == nullptr;
  });
  SIMURGH_RETURN_IF_ERROR(CheckDenseTensors(saved, specs, kRemedy));
  DenseWeights weights;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float>& values = tensors[i].in_state ? weights.statistics : weights.parameters;
    const size_t count = specs[i].rows() * specs[i].row_bytes() / sizeof(float);
    values.resize(tensors[i].offset + count);
    SIMURGH_RETURN_IF_ERROR(
        Read(file, specs[i], std::span(values).subspan(tensors[i].offset, count)));
  }
  if (const TensorSpec* const average = FindTensor(file.tensors(), kAverage)) {
    const TensorSpec wanted{kAverage, DType::kF32, {weights.parameters.size()}};
    SIMURGH_RETURN_IF_ERROR(CheckDenseTensors({*average}, {wanted}, kRemedy));
    SIMURGH_RETURN_IF_ERROR(Read(file, wanted, weights.parameters));
  }
  return weights;
}

namespace {

constexpr char kCalibration[] = "calibration";

}  // namespace

void WriteCalibrations(const std::vector<Calibration>& calibrations, Manifest& manifest) {
  manifest.extra.erase(kCalibration);
  if (!calibrations.empty()) manifest.extra[kCalibration] = CalibrationsText(calibrations);
}

StatusOr<std::vector<Calibration>> ReadCalibrations(const Manifest& manifest, size_t labels) {
  const auto found = manifest.extra.find(kCalibration);
  if (found == manifest.extra.end()) return std::vector<Calibration>();
  StatusOr<std::vector<Calibration>> read = CalibrationsFromText(found->second);
  if (read.ok() && read->size() == labels) return read;
  return absl::DataLossError(absl::StrCat("manifest.json: extra.calibration: '", found->second,
                                          "' does not have the numbers of ", labels,
                                          " labels; use an undamaged copy of the model"));
}

Status SetInitialWeights(const ClusterConfig& config, DenseNetwork& network) {
  const auto set = [&]() -> Status {
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file,
                             TensorFileReader::Open(config.model.initial_weights));
    SIMURGH_ASSIGN_OR_RETURN(const DenseWeights weights, ReadDenseWeights(file, config));
    std::vector<float> state(network.state().begin(), network.state().end());
    std::ranges::copy(weights.statistics, state.begin());
    for (const DenseTensor& tensor : network.tensors()) {
      if (tensor.name != kAverage) continue;
      std::ranges::copy(weights.parameters,
                        state.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
    }
    return network.Restore(weights.parameters, state);
  };
  return Annotate(set(), absl::StrCat("model.initial_weights ", config.model.initial_weights));
}

}  // namespace simurgh
