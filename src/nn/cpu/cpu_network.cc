#include "nn/cpu/cpu_network.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/cpu/activation.h"
#include "nn/cpu/attention.h"
#include "nn/cpu/batch_norm.h"
#include "nn/cpu/bilinear.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/cross.h"
#include "nn/cpu/dice.h"
#include "nn/cpu/dropout.h"
#include "nn/cpu/interaction.h"
#include "nn/cpu/l2_norm.h"
#include "nn/cpu/layer_norm.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/loss.h"
#include "nn/cpu/matmul.h"
#include "nn/cpu/optimizer.h"
#include "nn/cpu/pieces.h"
#include "nn/cpu/prelu.h"
#include "nn/cpu/self_attention.h"
#include "nn/dense_tensors.h"

namespace simurgh::cpu {
namespace {

AlignedBuffer ZeroedFloats(size_t count) {
  AlignedBuffer buffer(count * sizeof(float));
  std::ranges::fill(buffer.as<float>(count), 0.0F);
  return buffer;
}

void AddRows(MatrixView<const float> from, MatrixView<float> to) {
  ForEachPart(from.rows(), MinRows(from.columns()), [=](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) {
      const float* source = from.row(row).data();
      float* sum = to.row(row).data();
      for (size_t column = 0; column < from.columns(); ++column) sum[column] += source[column];
    }
  });
}

// Enlarges the memory if it is too small. Throws std::bad_alloc.
MatrixView<float> MatrixIn(AlignedBuffer& memory, size_t rows, size_t columns) {
  const size_t bytes = rows * columns * sizeof(float);
  if (memory.size() < bytes) memory = AlignedBuffer(bytes);
  return {reinterpret_cast<float*>(memory.data()), rows, columns};
}

// Returns the tower's block of embeddings, if the product of its first layer can write their
// gradient where it belongs; else null.
const TowerInput* DirectInput(const TowerPlan& tower) {
  const auto is_dense = [](const TowerInput& input) {
    return input.source == TowerInput::Source::kDense;
  };
  const auto block = std::ranges::find_if_not(tower.inputs, is_dense);
  const bool is_direct = tower.needs_input_gradient && !tower.last_cross &&
                         tower.layers.front().config.kind == LayerConfig::Kind::kLinear &&
                         block->source == TowerInput::Source::kEmbeddings &&
                         std::all_of(std::next(block), tower.inputs.end(), is_dense);
  return is_direct ? &*block : nullptr;
}

CrossProducts CrossProductsOf(Workspace& workspace, const LayerPlan& layer) {
  return {workspace.InnerProduct(layer), workspace.OuterProduct(layer)};
}

Status OutOfMemory(size_t rows) {
  return absl::ResourceExhaustedError(
      absl::StrCat("dense network: no memory for a batch of ", rows,
                   " samples; use a smaller batch or narrower layers"));
}

}  // namespace

CpuNetwork::CpuNetwork(ModelPlan plan, std::vector<TaskConfig> tasks,
                       const DenseNetworkOptions& options)
    : plan_(std::move(plan)),
      tasks_(std::move(tasks)),
      options_(options),
      blocks_(NewBlockPool(plan_.embedding_width, options.wire)),
      rows_(options.wire.embeddings, options.wire.rows),
      embedding_codec_(options.wire.embeddings, options.wire.dims),
      gradient_codec_(options.wire.gradients, options.wire.dims),
      parameters_(ZeroedFloats(plan_.parameter_count)),
      gradients_(ZeroedFloats(plan_.parameter_count)),
      state_(ZeroedFloats(
          plan_.statistics_count + OptimizerStateSize(options.optimizer, plan_.parameter_count) +
          WeightAverageSize(options.optimizer.average_decay, plan_.parameter_count) +
          (plan_.counts_items ? ItemFrequency::kStateSize : 0))),
      batch_statistics_(ZeroedFloats(plan_.statistics_count)),
      interaction_scratch_(ZeroedFloats(InteractionScratchSize(plan_))),
      activations_(plan_.activation_width),
      activation_gradients_(plan_.activation_width),
      checks_gradients_(std::ranges::all_of(plan_.towers, [](const TowerPlan& tower) {
        return !tower.needs_input_gradient || DirectInput(tower) != nullptr;
      })) {
  if (tasks_.front().loss.kind == LossConfig::Kind::kInBatchSoftmax) {
    in_batch_.emplace(tasks_.front());
  }
  InitializeParameters(plan_, options.seed, parameters());
  InitializeStatistics(plan_, running_statistics());
  InitializeOptimizerState(options_.optimizer, optimizer_state());
  InitializeWeightAverage(parameters(), weight_average());
}

StatusOr<BatchResult> CpuNetwork::ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                                  std::span<const float> labels,
                                                  std::span<float> probabilities,
                                                  const RankStep& step,
                                                  const std::function<void()>& /*meanwhile*/) {
  const size_t rows = probabilities.size() / tasks_.size();
  SIMURGH_CHECK_EQ(labels.size(), plan_.LabelCount(rows));
  SIMURGH_CHECK_EQ(probabilities.size(), rows * tasks_.size());
  const bool encodes = block.encoded_gradients.precision != VectorPrecision::kF32;
  if (!encodes) SIMURGH_CHECK_EQ(block.gradients.rows(), rows);
  step_ = Step::kNone;
  gradients_finite_ = true;
  NetworkInputs inputs;
  MatrixView<float> gradients = block.gradients;
  try {
    inputs = Prepare(block, dense, rows);
    if (encodes) gradients = MatrixIn(block_gradients_, rows, plan_.embedding_width);
    if (rows > 0) activations_.Prepare(rows);
    if (rows > 0) activation_gradients_.Prepare(rows);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(rows);
  }
  if (rows == 0) {
    try {
      SIMURGH_RETURN_IF_ERROR(EmptyStep(step));
    } catch (const std::bad_alloc&) {
      return OutOfMemory(rows);
    }
    step_rows_ = step.sum ? step.global_samples : 0;
    step_ = Step::kReady;
    return BatchResult();
  }
  SIMURGH_RETURN_IF_ERROR(Forward(inputs, step));
  const LayerPlan& logit = plan_.top().last();
  BatchResult result;
  const uint64_t samples = step.global_samples > 0 ? step.global_samples : rows;
  const uint64_t divisor = step.divisor > 0 ? step.divisor : samples;
  if (in_batch_) {
    try {
      SIMURGH_ASSIGN_OR_RETURN(
          result.loss,
          in_batch_->Loss(activations_.Input(plan_.top()), labels, step, item_frequency(),
                          probabilities, divisor, activation_gradients_.Input(plan_.top())));
    } catch (const std::bad_alloc&) {
      return OutOfMemory(rows);
    }
  } else {
    result.loss = Loss(tasks_, activations_.Output(logit).flat(), labels, probabilities, divisor,
                       activation_gradients_.Output(logit).flat());
  }
  SIMURGH_RETURN_IF_ERROR(Backward(gradients, step));
  const bool all_finite = encodes ? EncodeGradients(block, gradients)
                                  : checks_gradients_ || AllUsable(gradients.flat());
  const bool usable = std::isfinite(result.loss) && gradients_finite_ && all_finite;
  if (block.encoded_gradients.form == EmbeddingForm::kRows) {
    const std::span<std::byte> bytes = block.encoded_gradients.bytes;
    rows_.Unpool(*block.ids, gradients,
                 {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)},
                 ForEachPart);
  }
  // The caller may release the block: what follows reads only copies.
  if (step.on_embedding_gradients) step.on_embedding_gradients(usable);
  SIMURGH_RETURN_IF_ERROR(BackwardWeights(step));
  result.finite = usable && gradients_finite_;
  step_rows_ = step.sum ? samples : rows;
  step_ = result.finite ? Step::kReady : Step::kNotFinite;
  return result;
}

Status CpuNetwork::ApplyGradients(float learning_rate) {
  const Step step = std::exchange(step_, Step::kNone);
  if (step != Step::kReady) {
    return absl::FailedPreconditionError(
        step == Step::kNone
            ? "dense network: no gradients since the last step; call ForwardBackward"
            : "dense network: the last gradients are not finite; skip the batch");
  }
  ApplyOptimizer(options_.optimizer, learning_rate, plan_.parameter_blocks, parameters(),
                 gradients(), optimizer_state());
  UpdateWeightAverage(options_.optimizer.average_decay, parameters(), weight_average());
  if (in_batch_) in_batch_->Commit(item_frequency());
  for (const TowerPlan& tower : plan_.towers) {
    for (const LayerPlan& layer : tower.layers) {
      const uint64_t rows =
          layer.inner.empty() ? step_rows_ : history_rows_[layer.parameter_offset];
      if (rows == 0) continue;
      layer.ForStatistics([&](const LayerPlan& one) {
        BatchNormUpdateRunning(rows, one.config.momentum, one.Mean(batch_statistics()),
                               one.Variance(batch_statistics()), one.Mean(running_statistics()),
                               one.Variance(running_statistics()));
      });
    }
  }
  return absl::OkStatus();
}

Status CpuNetwork::Predict(BatchBlock& block, MatrixView<const float> dense,
                           std::span<float> outputs) {
  const size_t rows = outputs.size() / tasks_.size();
  SIMURGH_CHECK_EQ(outputs.size(), rows * tasks_.size());
  if (rows == 0) return absl::OkStatus();
  NetworkInputs inputs;
  try {
    inputs = Prepare(block, dense, rows);
    activations_.Prepare(rows);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(rows);
  }
  return PredictBatch(PassOf(Mode::kPredict), inputs, outputs);
}

StatusOr<MatrixView<const float>> CpuNetwork::LastTowerInput() {
  return MatrixView<const float>(activations_.Input(plan_.top()));
}

Status CpuNetwork::Restore(std::span<const float> parameters, std::span<const float> state) {
  SIMURGH_RETURN_IF_ERROR(CheckRestored(parameters, state, this->parameters(), this->state()));
  std::ranges::copy(parameters, this->parameters().begin());
  std::ranges::copy(state, state_.as<float>(state.size()).begin());
  if (in_batch_) in_batch_->Drop();
  step_ = Step::kNone;
  return absl::OkStatus();
}

void CpuNetwork::ReportGradients(const LayerPlan& layer, const RankStep& rank_step) {
  if (layer.parameter_count == 0) return;
  const size_t offset = layer.parameter_offset;
  if (!AllUsable(gradients().subspan(offset, layer.parameter_count))) gradients_finite_ = false;
  if (rank_step.on_gradients) rank_step.on_gradients(offset, layer.parameter_count);
}

NetworkInputs CpuNetwork::Prepare(const BatchBlock& block, MatrixView<const float> dense,
                                  size_t rows) const {
  SIMURGH_CHECK_EQ(dense.columns(), plan_.dense_width);
  if (plan_.dense_width > 0) SIMURGH_CHECK_EQ(dense.rows(), rows);
  SetComputeThreads(options_.threads);
  SetProductPrecision(options_.precision == ComputePrecision::kBf16 ? ProductPrecision::kBf16
                                                                    : ProductPrecision::kF32);
  const BatchBlock::Encoded& encoded = block.encoded_embeddings;
  if (block.ids != nullptr) {
    rows_.Pool(*block.ids, encoded.bytes, block.embeddings, ForEachPart);
  } else if (encoded.precision != VectorPrecision::kF32) {
    SIMURGH_CHECK_EQ(encoded.bytes.size(), rows * embedding_codec_.row_bytes());
    return {.dense = dense, .codec = &embedding_codec_, .encoded = encoded.bytes};
  }
  SIMURGH_CHECK_EQ(block.embeddings.rows(), rows);
  SIMURGH_CHECK_EQ(block.embeddings.columns(), plan_.embedding_width);
  return {.dense = dense, .embeddings = block.embeddings};
}

bool CpuNetwork::EncodeGradients(BatchBlock& block, MatrixView<const float> gradients) const {
  const size_t bytes = gradient_codec_.row_bytes();
  std::atomic<bool> finite = true;
  ForEachPart(gradients.rows(), MinRows(gradients.columns()), [&](size_t first, size_t end) {
    RoundingKey key = block.rounding;
    key.first_row += first;
    // Works row by row: a row stays in the cache.
    for (size_t row = first; row < end; ++row, ++key.first_row) {
      if (!simurgh::AllUsable(gradients.row(row))) finite = false;
      gradient_codec_.Encode(gradients.Rows(row, 1), block.gradient_factor, key,
                             block.encoded_gradients.bytes.subspan(row * bytes, bytes));
    }
  });
  return finite;
}

std::span<float> CpuNetwork::optimizer_state() {
  return state_.as<float>(state_.size() / sizeof(float))
      .subspan(plan_.statistics_count,
               OptimizerStateSize(options_.optimizer, plan_.parameter_count));
}

std::span<float> CpuNetwork::weight_average() {
  const size_t before = plan_.statistics_count + optimizer_state().size();
  return state_.as<float>(state_.size() / sizeof(float))
      .subspan(before, WeightAverageSize(options_.optimizer.average_decay, plan_.parameter_count));
}

std::span<float> CpuNetwork::item_frequency() {
  return state_.as<float>(state_.size() / sizeof(float))
      .last(plan_.counts_items ? ItemFrequency::kStateSize : 0);
}

std::span<const float> CpuNetwork::Weights(Mode mode) {
  const std::span<const float> average = weight_average();
  return mode == Mode::kTrain || average.empty() ? parameters() : average.subspan(1);
}

PredictPass CpuNetwork::PassOf(Mode mode) {
  return {.plan = plan_,
          .weights = Weights(mode),
          .statistics = running_statistics(),
          .activations = activations_,
          .scratch = interaction_scratch()};
}

Status CpuNetwork::Forward(const NetworkInputs& inputs, const RankStep& rank_step) {
  const PredictPass pass = PassOf(Mode::kTrain);
  for (const TowerPlan& tower : plan_.towers) {
    GatherInput(pass, inputs, tower);
    MatrixView<const float> input = activations_.Input(tower);
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const LayerPlan& layer = tower.layers[i];
      if (layer.has_statistics) {
        SIMURGH_RETURN_IF_ERROR(StatisticsLayerForward(layer, input, rank_step));
      } else if (layer.config.kind == LayerConfig::Kind::kAttention) {
        RowStatistics statistics = StatisticsOfRows(layer, rank_step);
        SIMURGH_RETURN_IF_ERROR(AttentionForward(layer, parameters(), running_statistics(),
                                                 SequenceOf(layer, input), activations_,
                                                 &statistics, activations_.Output(layer)));
        history_rows_[layer.parameter_offset] = statistics.rows;
      } else if (layer.config.rate > 0.0F) {
        Drop(MaskOf(layer, rank_step), input, activations_.Output(layer));
      } else {
        SIMURGH_RETURN_IF_ERROR(PredictLayer(pass, tower, i, input));
      }
      if (HasRelu(tower, i)) ++i;
      input = activations_.Output(tower.layers[i]);
    }
  }
  return absl::OkStatus();
}

Status CpuNetwork::Backward(MatrixView<float> embedding_gradient, const RankStep& rank_step) {
  for (const ColumnRange& unread : plan_.unread_embeddings) {
    const MatrixView<float> block = embedding_gradient.Columns(unread.first, unread.count);
    for (size_t row = 0; row < block.rows(); ++row) std::ranges::fill(block.row(row), 0.0F);
  }
  for (size_t t = plan_.towers.size(); t-- > 0;) {
    const TowerPlan& tower = plan_.towers[t];
    const TowerInput* direct = DirectInput(tower);
    // The loss has computed the gradient of the vectors, the last tower's input.
    const bool is_done = in_batch_ && t + 1 == plan_.towers.size();
    for (size_t i = is_done ? 0 : tower.layers.size(); i-- > 0;) {
      const Activation before = ActivationBefore(tower, i);
      const MatrixView<const float> input =
          i == 0 ? activations_.Input(tower) : activations_.Output(tower.layers[i - 1]);
      const LayerPlan& layer = tower.layers[i];
      i -= before.layers;
      SIMURGH_RETURN_IF_ERROR(
          LayerBackward(tower, layer, input, before,
                        i == 0 ? activation_gradients_.Input(tower)
                               : activation_gradients_.Output(tower.layers[i - 1]),
                        i > 0 || (tower.needs_input_gradient && direct == nullptr), rank_step));
    }
    if (direct != nullptr) {
      SIMURGH_RETURN_IF_ERROR(DirectBackward(tower, *direct, embedding_gradient));
      continue;
    }
    if (tower.last_cross && tower.needs_input_gradient) {
      AddRows(activation_gradients_.Origin(tower), activation_gradients_.Input(tower));
    }
    ScatterInputGradient(tower, embedding_gradient);
  }
  return absl::OkStatus();
}

Status CpuNetwork::BackwardWeights(const RankStep& rank_step) {
  for (size_t t = plan_.towers.size(); t-- > 0;) {
    const TowerPlan& tower = plan_.towers[t];
    for (size_t i = tower.layers.size(); i-- > 0;) {
      const LayerPlan& layer = tower.layers[i];
      if (layer.parameter_count == 0) continue;
      const MatrixView<const float> input =
          i == 0 ? activations_.Input(tower) : activations_.Output(tower.layers[i - 1]);
      SIMURGH_RETURN_IF_ERROR(LayerBackwardWeights(layer, input));
      ReportGradients(layer, rank_step);
    }
  }
  return absl::OkStatus();
}

Status CpuNetwork::LayerBackwardWeights(const LayerPlan& layer, MatrixView<const float> input) {
  switch (layer.config.kind) {
    case LayerConfig::Kind::kLinear:
      return LinearBackwardWeight(input, activation_gradients_.Output(layer),
                                  layer.Weight(gradients()), layer.Bias(gradients()));
    case LayerConfig::Kind::kCross:
      return CrossBackwardWeights(input, CrossProductsOf(activations_, layer),
                                  CrossProductsOf(activation_gradients_, layer),
                                  CrossPartsOf(layer, gradients()));
    case LayerConfig::Kind::kAttention:
      return AttentionBackwardWeights(layer, SequenceOf(layer, input),
                                      {activations_, activation_gradients_}, gradients());
    case LayerConfig::Kind::kPrelu:
      PreluBackwardSlope(input, activation_gradients_.Output(layer), layer.Slope(gradients()));
      break;
    case LayerConfig::Kind::kDice:
      DiceBackwardSlope(input, activations_.Scratch(layer, layer.output_width),
                        activation_gradients_.Output(layer), layer.Slope(gradients()));
      break;
    case LayerConfig::Kind::kLayerNorm:
      LayerNormBackwardWeights(input, activations_.Scratch(layer, 2),
                               activation_gradients_.Output(layer), layer.Scale(gradients()),
                               layer.Shift(gradients()));
      break;
    case LayerConfig::Kind::kBilinear:
      return BilinearBackwardWeight(input,
                                    activation_gradients_.Scratch(layer, layer.input_width / 2),
                                    layer.Heads(gradients()));
    case LayerConfig::Kind::kSelfAttention:
      return SelfAttentionBackwardWeights(layer, SequenceOf(layer, input),
                                          {activations_, activation_gradients_}, gradients());
    default:  // Backward has computed those of batch norm. Other layers have no weights.
      break;
  }
  return absl::OkStatus();
}

Status CpuNetwork::EmptyStep(const RankStep& rank_step) {
  std::ranges::fill(gradients(), 0.0F);
  for (const TowerPlan& tower : plan_.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.has_statistics) {
        SIMURGH_RETURN_IF_ERROR(StatisticsLayerForward(layer, {}, rank_step));
      } else if (layer.config.kind == LayerConfig::Kind::kAttention) {
        RowStatistics statistics = StatisticsOfRows(layer, rank_step);
        SIMURGH_RETURN_IF_ERROR(AttentionTakePartForward(layer, statistics));
        history_rows_[layer.parameter_offset] = statistics.rows;
      }
    }
  }
  if (in_batch_ && rank_step.gather) {
    const MatrixView<float> none(nullptr, 0, plan_.top().input_width);
    SIMURGH_RETURN_IF_ERROR(
        in_batch_->Loss(none, {}, rank_step, item_frequency(), {}, /*gradient_divisor=*/1, none)
            .status());
  }
  for (auto tower = plan_.towers.rbegin(); tower != plan_.towers.rend(); ++tower) {
    for (auto layer = tower->layers.rbegin(); layer != tower->layers.rend(); ++layer) {
      if (layer->has_statistics && rank_step.sum) {
        std::vector<double> sums(2 * layer->output_width);
        SIMURGH_RETURN_IF_ERROR(rank_step.sum(sums));
      } else if (layer->config.kind == LayerConfig::Kind::kAttention) {
        SIMURGH_RETURN_IF_ERROR(
            AttentionTakePartBackward(*layer, StatisticsOfRows(*layer, rank_step)));
      }
      ReportGradients(*layer, rank_step);
    }
  }
  return absl::OkStatus();
}

Status CpuNetwork::DirectBackward(const TowerPlan& tower, const TowerInput& input,
                                  MatrixView<float> embedding_gradient) {
  const LayerPlan& layer = tower.layers.front();
  std::atomic<bool> finite = true;
  const auto check = [&finite](MatrixView<float> piece, size_t /*row*/, size_t /*column*/) {
    for (size_t row = 0; row < piece.rows(); ++row) {
      if (!simurgh::AllUsable(piece.row(row))) finite = false;
    }
  };
  const MatrixView<const float> weight = layer.Weight<const float>(parameters());
  SIMURGH_RETURN_IF_ERROR(
      LinearBackwardInput(activation_gradients_.Output(layer),
                          weight.Rows(input.column, input.width), input.last_reader ? 0.0F : 1.0F,
                          embedding_gradient.Columns(input.source_column, input.width), check));
  if (!finite) gradients_finite_ = false;
  return absl::OkStatus();
}

void CpuNetwork::ScatterInputGradient(const TowerPlan& tower,
                                      MatrixView<float> embedding_gradient) {
  const MatrixView<const float> gradient = activation_gradients_.Input(tower);
  for (const TowerInput& input : tower.inputs) {
    if (input.source == TowerInput::Source::kDense) continue;
    const MatrixView<float> target =
        input.source == TowerInput::Source::kEmbeddings
            ? embedding_gradient.Columns(input.source_column, input.width)
            : activation_gradients_.Output(plan_.towers[input.tower].last());
    const size_t dim = input.width / input.places;
    ForEachPart(target.rows(), MinRows(input.width), [&](size_t first, size_t end) {
      for (size_t row = first; row < end; ++row) {
        for (size_t place = 0; place < input.places; ++place) {
          const float* from = gradient.row(row).data() + input.column + place * input.stride;
          float* to = target.row(row).data() + place * dim;
          if (input.last_reader) {
            std::copy_n(from, dim, to);
          } else {
            for (size_t column = 0; column < dim; ++column) to[column] += from[column];
          }
        }
      }
    });
  }
}

// Passes of single layers that only training has.

Status CpuNetwork::StatisticsLayerForward(const LayerPlan& layer, MatrixView<const float> input,
                                          const RankStep& rank_step) {
  const std::span<const float> weights = parameters();
  const bool is_dice = layer.config.kind == LayerConfig::Kind::kDice;
  const BatchNormAffine affine =
      is_dice ? BatchNormAffine() : BatchNormAffine{layer.Scale(weights), layer.Shift(weights)};
  const std::span<float> mean = layer.Mean(batch_statistics());
  const std::span<float> variance = layer.Variance(batch_statistics());
  const float epsilon = layer.config.epsilon;
  const bool is_empty = input.rows() == 0;
  const MatrixView<float> normalised = is_empty  ? MatrixView<float>()
                                       : is_dice ? activations_.Scratch(layer, layer.output_width)
                                                 : activations_.Output(layer);
  if (rank_step.sum) {
    SIMURGH_RETURN_IF_ERROR(SyncBatchNormForward(input, affine, epsilon,
                                                 {rank_step.global_samples, rank_step.sum}, mean,
                                                 variance, normalised));
  } else if (!is_empty) {
    BatchNormForward(input, affine, epsilon, mean, variance, normalised);
  }
  if (is_dice && !is_empty) {
    DiceForward(input, normalised, layer.Slope(weights), activations_.Output(layer));
  }
  return absl::OkStatus();
}

CpuNetwork::Activation CpuNetwork::ActivationBefore(const TowerPlan& tower, size_t layer) {
  const auto is = [&](size_t i, LayerConfig::Kind kind) {
    return tower.layers[i].config.kind == kind;
  };
  if (!is(layer, LayerConfig::Kind::kLinear)) return {};
  if (layer > 0 && is(layer - 1, LayerConfig::Kind::kRelu)) return {.layers = 1};
  if (layer < 2 || !is(layer - 1, LayerConfig::Kind::kDropout) ||
      !is(layer - 2, LayerConfig::Kind::kRelu)) {
    return {};
  }
  const float rate = tower.layers[layer - 1].config.rate;
  return {.layers = 2, .scale = DropoutMask::Of(rate, /*layer=*/0).scale};
}

DropoutMask CpuNetwork::MaskOf(const LayerPlan& layer, const RankStep& rank_step) const {
  return DropoutMask::Of(layer.config.rate, DropoutLayer(options_.seed, layer.stream))
      .At(DropoutStep(rank_step.step, rank_step.rank));
}

Status CpuNetwork::LayerBackward(const TowerPlan& tower, const LayerPlan& layer,
                                 MatrixView<const float> input, const Activation& before,
                                 MatrixView<float> input_gradient, bool needs_input_gradient,
                                 const RankStep& rank_step) {
  const std::span<const float> weights = parameters();
  const MatrixView<const float> output_gradient = activation_gradients_.Output(layer);
  const BatchNormGroup group{rank_step.global_samples, rank_step.sum};
  BatchNormStatistics statistics;
  if (layer.has_statistics) {
    statistics = {layer.Mean<const float>(batch_statistics()),
                  layer.Variance<const float>(batch_statistics())};
  }
  switch (layer.config.kind) {
    case LayerConfig::Kind::kLinear:
      if (!needs_input_gradient) break;
      return before.layers > 0 ? LinearBackwardRelu(output_gradient, layer.Weight(weights), input,
                                                    input_gradient, before.scale)
                               : LinearBackwardInput(output_gradient, layer.Weight(weights), 0.0F,
                                                     input_gradient);
    case LayerConfig::Kind::kBatchNorm:
      return BatchNormBackward(input, output_gradient, layer.Scale(weights), layer.config.epsilon,
                               statistics, rank_step.sum ? &group : nullptr,
                               layer.Scale(gradients()), layer.Shift(gradients()), input_gradient);
    case LayerConfig::Kind::kRelu:
      ActivationBackward<ReluFormula>(activations_.Output(layer).flat(), output_gradient.flat(),
                                      input_gradient.flat());
      break;
    case LayerConfig::Kind::kGelu:
      ActivationBackward<GeluFormula>(input.flat(), output_gradient.flat(), input_gradient.flat());
      break;
    case LayerConfig::Kind::kSigmoid:
      ActivationBackward<SigmoidFormula>(activations_.Output(layer).flat(), output_gradient.flat(),
                                         input_gradient.flat());
      break;
    case LayerConfig::Kind::kDropout:
      if (layer.config.rate > 0.0F) {
        Drop(MaskOf(layer, rank_step), output_gradient, input_gradient);
      }
      break;
    case LayerConfig::Kind::kSilu:
      ActivationBackward<SiluFormula>(input.flat(), output_gradient.flat(), input_gradient.flat());
      break;
    case LayerConfig::Kind::kTanh:
      ActivationBackward<TanhFormula>(activations_.Output(layer).flat(), output_gradient.flat(),
                                      input_gradient.flat());
      break;
    case LayerConfig::Kind::kGate:
      ActivationBackward<GateFormula>(activations_.Output(layer).flat(), output_gradient.flat(),
                                      input_gradient.flat());
      break;
    case LayerConfig::Kind::kPrelu:
      PreluBackward(input, layer.Slope(weights), output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kDice:
      return DiceBackward(input, activations_.Scratch(layer, layer.output_width),
                          layer.Slope(weights), layer.config.epsilon, statistics,
                          rank_step.sum ? &group : nullptr, output_gradient,
                          activation_gradients_.Scratch(layer, layer.output_width), input_gradient);
    case LayerConfig::Kind::kLayerNorm:
      LayerNormBackward(input, layer.Scale(weights), activations_.Scratch(layer, 2),
                        output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kL2Norm:
      L2NormBackward(input, output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kProduct:
      ProductBackward(input, output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kBilinear: {
      const size_t half = layer.input_width / 2;
      return BilinearBackward(input, layer.Heads(weights), activations_.Scratch(layer, half),
                              output_gradient, activation_gradients_.Scratch(layer, half),
                              input_gradient);
    }
    case LayerConfig::Kind::kJoint:
      JointBackward(input, output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kDot:
      DotBackward(input, layer.config.width, output_gradient, interaction_scratch(),
                  input_gradient);
      break;
    case LayerConfig::Kind::kCross: {
      const CrossWeights cross = CrossPartsOf(layer, weights);
      const CrossProducts product_gradients = CrossProductsOf(activation_gradients_, layer);
      // The backward pass starts at the last layer.
      const bool add_to_origin = &layer != &tower.layers[*tower.last_cross];
      SIMURGH_RETURN_IF_ERROR(CrossBackwardProducts(
          activations_.Input(tower), cross, CrossProductsOf(activations_, layer), output_gradient,
          product_gradients, add_to_origin, activation_gradients_.Origin(tower)));
      if (!needs_input_gradient) break;
      return CrossBackwardInput(cross, output_gradient, product_gradients, input_gradient);
    }
    case LayerConfig::Kind::kFm:
      FmBackward(input, layer.config.width, output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kSum:
      SumBackward(output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kMean:
      MeanBackward(SequenceOf(layer, input), output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kLast:
      LastBackward(SequenceOf(layer, input), output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kAttention:
      return AttentionBackward(layer, weights, StatisticsOfRows(layer, rank_step),
                               SequenceOf(layer, input), {activations_, activation_gradients_},
                               output_gradient, input_gradient);
    case LayerConfig::Kind::kSelfAttention:
      return SelfAttentionBackward(layer, weights, SequenceOf(layer, input),
                                   {activations_, activation_gradients_}, output_gradient,
                                   input_gradient);
    case LayerConfig::Kind::kSoftmax:
      SoftmaxBackward(activations_.Output(layer), output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kMix:
      MixBackward(input, layer.config.width, output_gradient, input_gradient);
      break;
  }
  return absl::OkStatus();
}

}  // namespace simurgh::cpu

namespace simurgh {

StatusOr<std::unique_ptr<DenseNetwork>> CreateCpuNetwork(const ModelConfig& model,
                                                         const DenseNetworkOptions& options) {
  SIMURGH_CHECK_LT(0U, options.threads);
  if (options.precision == ComputePrecision::kF16) {
    return absl::InvalidArgumentError(
        "nn_worker.precision: f16 requires a CUDA device; use f32 or bf16");
  }
  SIMURGH_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(model, options.inputs));
  try {
    return std::make_unique<cpu::CpuNetwork>(std::move(plan), TasksOf(model), options);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "dense network: no memory for the weights; use narrower layers");
  }
}

}  // namespace simurgh
