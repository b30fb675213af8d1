#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "config/model_config.h"
#include "nn/cuda/in_batch_loss.h"
#include "nn/cuda/layers.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/rank_reducer.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/sequence_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// The forward and backward pass of a batch on the device. Enqueues only.
//
// Threads: one owner.
template <typename Executor, typename T>
class Pass {
 public:
  Pass(const ModelPlan& plan, std::span<const TaskConfig> tasks, uint64_t seed, Executor& executor,
       Tensors<T>& tensors)
      : plan_(plan),
        loss_(FormulasOf(tasks)),
        executor_(executor),
        tensors_(tensors),
        layers_(plan, seed, executor, tensors),
        in_batch_(plan, tasks.front(), executor, tensors) {}

  // Computes the report, probabilities and all gradients.
  void Train(const RankPass& ranks) {
    if (plan_.drops) {
      executor_.ForEach(1, TakeDropoutStep{ranks.dropout_step, tensors_.dropout_step()});
    }
    Forward(tensors_.parameters(), &ranks);
    FindLoss(ranks);
    Backward(ranks);
  }

  // Train for a rank without samples.
  void TakePart(const RankPass& ranks) {
    const std::span<float> gradients = tensors_.gradients();
    executor_.Zero(gradients.data(), gradients.size_bytes());
    executor_.ForEach(1, BeginReport{tensors_.report()});
    layers_.TakeWeights(tensors_.parameters());
    for (size_t t = 0; t < plan_.towers.size(); ++t) {
      const size_t layers = plan_.towers[t].layers.size();
      for (size_t i = 0; i < layers; ++i) layers_.TakePartForward(t, i, ranks);
    }
    if (plan_.is_in_batch) in_batch_.Find(ranks);
    for (size_t t = plan_.towers.size(); t-- > 0;) {
      for (size_t i = plan_.towers[t].layers.size(); i-- > 0;) {
        layers_.TakePartBackward(t, i, ranks);
      }
    }
  }

  // Reports whether all gradients, or their sums over the ranks, are finite, and updates the loss
  // scale. The loss and the gradients of embeddings have been checked before.
  void CheckFinite(const RankPass& ranks) {
    StepReport* const report = tensors_.report();
    const std::span<const float> gradients = tensors_.gradients();
    const Matrix<const float> row = RowOf(gradients.data(), gradients.size());
    executor_.ForEachCell(1, row.columns, FindNonFinite{row, &report->not_finite});
    if constexpr (kIsScaled<T>) {
      executor_.ForEach(1, UpdateLossScale{report, tensors_.loss_scale()});
    }
    if (!ranks.sum_flag) return;
    executor_.ForEach(1, OfferStep{report, tensors_.column_sums()});
    ranks.sum_flag(tensors_.column_sums());
    executor_.ForEach(1, SettleStep{tensors_.column_sums(), report});
  }

  // Encodes the gradients of embeddings in int8; the backward pass has encoded them in 16 bits.
  void EncodeGradients() {
    const WireCodes& codes = tensors_.codes();
    const CodeLayout layout = tensors_.gradient_layout();
    if (layout.precision != VectorPrecision::kInt8) return;
    const Matrix<const float> gradient = tensors_.embedding_gradient();
    executor_.ForEachCell(gradient.rows, codes.vectors(),
                          EncodeByteVector{gradient, layout, codes.gradient_factor,
                                           tensors_.rounding(), tensors_.encoded_gradient()});
  }

  // Computes outputs, in the place of probabilities. weights: in the layout of parameters(), with
  // their copies.
  void Predict(std::span<const float> weights) {
    Forward(weights, nullptr);
    layers_.Finish(OutputRow{Logits(), plan_.output_factor, tensors_.probabilities()});
  }

 private:
  static LossFormulas FormulasOf(std::span<const TaskConfig> tasks) {
    SIMURGH_CHECK_LE(tasks.size(), size_t{kMaxTasks});
    LossFormulas formulas{};
    for (size_t task = 0; task < tasks.size(); ++task) formulas.of[task] = FormulaOf(tasks[task]);
    return formulas;
  }

  using Source = TowerInput::Source;

  Matrix<float> Logits() const {
    const size_t top = plan_.towers.size() - 1;
    return tensors_.template ViewAs<float>(tensors_.Memory(top).layers.back().output);
  }
  const MatrixRegion& LastGradient(size_t tower) const {
    return tensors_.Memory(tower).layers.back().output_gradient;
  }

  void Forward(std::span<const float> weights, const RankPass* ranks) {
    layers_.TakeWeights(weights);
    if (tensors_.pools()) {
      [[maybe_unused]] const auto range = executor_.Range("pool rows");
      executor_.ForEachCell(tensors_.rows(), plan_.embedding_width, tensors_.pooling());
    }
    for (size_t t = 0; t < plan_.towers.size(); ++t) {
      [[maybe_unused]] const auto range = executor_.Range(plan_.towers[t].name.c_str());
      GatherInput(t);
      if (ranks != nullptr && IsReplaced(t)) continue;
      for (size_t i = 0; i < plan_.towers[t].layers.size(); ++i) {
        layers_.Forward(t, i, ranks);
      }
    }
  }

  void GatherInput(size_t t) {
    const std::vector<TowerInput>& inputs = plan_.towers[t].inputs;
    if (!tensors_.pools() && inputs.size() == 2 && inputs[0].source == Source::kDense &&
        inputs[1].source == Source::kEmbeddings) {
      Matrix<T> whole = tensors_.View(tensors_.Memory(t).input);
      whole.columns = whole.stride;
      return executor_.ForEachCell(
          whole.rows, whole.columns,
          GatherCell<T>{tensors_.dense().Columns(inputs[0].source_column, inputs[0].width),
                        tensors_.embeddings(), inputs[1].source_column, inputs[1].width, whole});
    }
    for (const TowerInput& input : inputs) {
      switch (input.source) {
        case Source::kDense:
          Gather(t, input, tensors_.dense().Columns(input.source_column, input.width));
          break;
        case Source::kEmbeddings:
          GatherEmbeddings(t, input);
          break;
        case Source::kTower:
          Gather(t, input,
                 Matrix<const T>(tensors_.View(tensors_.Memory(input.tower).layers.back().output)));
          break;
      }
    }
  }

  // The last block extends to the end of the rows; padding is zero.
  Matrix<T> InputBlock(size_t t, const TowerInput& input) const {
    const Matrix<T> whole = tensors_.View(tensors_.Memory(t).input);
    const bool is_last = input.column + input.width == whole.columns;
    return whole.Columns(input.column, is_last ? whole.stride - input.column : input.width);
  }

  static PlacesOf PlacesIn(const TowerInput& input) {
    return {input.column, input.width / input.places, input.stride};
  }

  template <typename From>
  void Gather(size_t t, const TowerInput& input, const Matrix<const From>& from) {
    if (input.places > 1) {
      return executor_.ForEachCell(
          from.rows, input.width,
          InterleaveCell<From, T>{from, PlacesIn(input), tensors_.View(tensors_.Memory(t).input)});
    }
    const Matrix<T> block = InputBlock(t, input);
    executor_.ForEachCell(block.rows, block.columns, CopyCell<From, T>{from, block});
  }

  // Decodes the embeddings, or copies them if the device pooled them.
  void GatherEmbeddings(size_t t, const TowerInput& input) {
    if (tensors_.pools()) {
      const Matrix<const float> pooled = tensors_.pooled();
      return Gather(t, input, pooled.Columns(input.source_column, input.width));
    }
    if (input.places > 1) {
      const Matrix<T> whole = tensors_.View(tensors_.Memory(t).input);
      return executor_.ForEachCell(
          whole.rows, input.width,
          DecodePlacesCell<T>{tensors_.embeddings(), input.source_column, PlacesIn(input), whole});
    }
    const Matrix<T> block = InputBlock(t, input);
    executor_.ForEachCell(
        block.rows, block.columns,
        DecodeCell<T>{tensors_.embeddings(), input.source_column, input.width, block});
  }

  // Returns whether the loss computes the gradient of the tower's input, without its layer.
  bool IsReplaced(size_t t) const { return plan_.is_in_batch && t + 1 == plan_.towers.size(); }

  void FindLoss(const RankPass& ranks) {
    [[maybe_unused]] const auto range = executor_.Range("loss");
    if (plan_.is_in_batch) {
      in_batch_.Find(ranks);
      return Report(ranks.in_batch.scored());
    }
    layers_.Finish(LossRow<T>{loss_, Logits(), tensors_.labels(), tensors_.sample_weights(),
                              tensors_.losses(), tensors_.probabilities(),
                              static_cast<double>(ranks.divisor),
                              kIsScaled<T> ? &tensors_.loss_scale()->scale : nullptr,
                              tensors_.View(LastGradient(plan_.towers.size() - 1))});
    Report(tensors_.rows());
  }

  // Begins the report with the mean of the losses of the first `rows` samples.
  void Report(size_t rows) {
    if (rows == 0) return executor_.ForEach(1, BeginReport{tensors_.report()});
    double* losses = tensors_.losses();
    double* next = tensors_.losses_next();
    size_t count = rows;
    while (count > kReportedSums) {
      const size_t groups = (count + kSumFan - 1) / kSumFan;
      executor_.ForEach(groups, SumGroup{losses, count, next});
      std::swap(losses, next);
      count = groups;
    }
    executor_.ForEach(1, ReportLoss{losses, count, static_cast<double>(rows), tensors_.report()});
  }

  void Backward(const RankPass& ranks) {
    for (const ColumnRange& unread : plan_.unread_embeddings) {
      if (tensors_.encodes_halves()) {
        const auto block = tensors_.encoded_halves().Columns(unread.first, unread.count);
        executor_.ForEachCell(block.rows, block.columns, ZeroCell<uint16_t>{block});
      } else {
        const auto block = tensors_.embedding_gradient().Columns(unread.first, unread.count);
        executor_.ForEachCell(block.rows, block.columns, ZeroCell<float>{block});
      }
    }
    for (size_t t = plan_.towers.size(); t-- > 0;) {
      const TowerPlan& tower = plan_.towers[t];
      [[maybe_unused]] const auto range = executor_.Range(tower.name.c_str());
      for (size_t i = IsReplaced(t) ? 0 : tower.layers.size(); i-- > 0;) {
        layers_.Backward(t, i, ranks);
      }
      if (!tower.needs_input_gradient) continue;
      const TowerMemory& memory = tensors_.Memory(t);
      if (tower.last_cross) {
        Accumulate(Matrix<const T>(tensors_.View(memory.origin_gradient)),
                   tensors_.View(memory.input_gradient), false);
      }
      ScatterInputGradient(t);
    }
  }

  void ScatterInputGradient(size_t t) {
    for (const TowerInput& input : plan_.towers[t].inputs) {
      if (input.source == Source::kDense) continue;
      const Matrix<const T> block = GradientOf(t, input);
      if (input.source == Source::kEmbeddings) {
        if (IsFirstReader(t, input)) {
          FinishGradient(block, input);
        } else {
          Accumulate(block, tensors_.embedding_gradient().Columns(input.source_column, input.width),
                     input.last_reader);
        }
      } else {
        Accumulate(block, tensors_.View(LastGradient(input.tower)), input.last_reader);
      }
    }
  }

  // The gradient of an input, in one block.
  Matrix<const T> GradientOf(size_t t, const TowerInput& input) {
    const Matrix<T> whole = tensors_.View(tensors_.Memory(t).input_gradient);
    if (input.places == 1) return whole.Columns(input.column, input.width);
    const Matrix<T> block =
        tensors_.View(tensors_.Memory(t).sequence_gradient).Columns(0, input.width);
    executor_.ForEachCell(block.rows, block.columns,
                          SeparateCell<T>{whole, PlacesIn(input), block});
    return block;
  }

  // Returns whether no other tower adds to the block's gradient after this one.
  bool IsFirstReader(size_t t, const TowerInput& input) const {
    for (size_t before = 0; before < t; ++before) {
      if (!plan_.towers[before].needs_input_gradient) continue;
      for (const TowerInput& other : plan_.towers[before].inputs) {
        if (other.source == input.source && other.source_column == input.source_column) {
          return false;
        }
      }
    }
    return true;
  }

  void FinishGradient(const Matrix<const T>& from, const TowerInput& input) {
    const auto columns = [&](const auto& matrix) {
      return matrix.Columns(input.source_column, input.width);
    };
    FinishGradientCell<T> kernel{
        .from = from,
        .before = {},
        .inverse_scale = kIsScaled<T> ? &tensors_.loss_scale()->inverse : nullptr,
        .not_finite = &tensors_.report()->not_finite,
        .to = {},
        .encoded = {},
        .code = {}};
    if (!input.last_reader) kernel.before = columns(tensors_.embedding_gradient());
    if (tensors_.encodes_halves()) {
      kernel.encoded = columns(tensors_.encoded_halves());
      kernel.code = {tensors_.gradient_layout().half(), tensors_.codes().gradient_factor};
    } else {
      kernel.to = columns(tensors_.embedding_gradient());
    }
    executor_.ForEachCell(from.rows, from.columns, kernel);
  }

  template <typename To>
  void Accumulate(const Matrix<const T>& from, const Matrix<To>& to, bool overwrite) {
    if (overwrite) {
      executor_.ForEachCell(from.rows, from.columns, CopyCell<T, To>{from, to});
    } else {
      executor_.ForEachCell(from.rows, from.columns, AddCell<T, To>{from, to});
    }
  }

  const ModelPlan& plan_;
  const LossFormulas loss_;
  Executor& executor_;
  Tensors<T>& tensors_;
  Layers<Executor, T> layers_;
  InBatchLoss<Executor, T> in_batch_;
};

}  // namespace simurgh::cuda
