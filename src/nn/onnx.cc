// Field numbers are those of onnx.proto, IR version 8.

#include "nn/onnx.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/formulas.h"
#include "nn/model_plan.h"

namespace simurgh {

// Writes a message in protobuf's wire format. Repeated fields are added once for each element.
// Source: https://protobuf.dev/programming-guides/encoding.
class ProtobufMessage {
 public:
  void AddInteger(uint32_t field, int64_t value) {
    AddTag(field, 0);
    AddVarint(static_cast<uint64_t>(value));
  }
  void AddFloat(uint32_t field, float value) {
    AddTag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (uint32_t shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
  }
  // Text, bytes, or the bytes of a message.
  void AddBytes(uint32_t field, std::string_view value) {
    AddTag(field, 2);
    AddVarint(value.size());
    bytes_ += value;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void AddTag(uint32_t field, uint32_t type) { AddVarint(uint64_t{field} << 3 | type); }
  void AddVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;
// Protobuf's limit, less the room for everything but weights.
constexpr size_t kMaxWeightBytes = (size_t{2} << 30) - (size_t{64} << 20);

enum ElementType : int64_t { kFloat = 1, kInt64 = 7 };

struct Attribute {
  const char* name;
  std::variant<float, int64_t, std::vector<int64_t>> value;

  ProtobufMessage Message() const {
    ProtobufMessage message;
    message.AddBytes(1, name);
    int64_t type = 0;
    if (const auto* number = std::get_if<float>(&value)) {
      message.AddFloat(2, *number);
      type = 1;
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      message.AddInteger(3, *integer);
      type = 2;
    } else {
      for (const int64_t one : std::get<2>(value)) message.AddInteger(8, one);
      type = 7;
    }
    message.AddInteger(20, type);
    return message;
  }
};

// A graph of nodes, each with one output, in the order of their execution.
class OnnxGraph {
 public:
  OnnxGraph() { graph_.AddBytes(2, "simurgh"); }

  // Adds a node. Returns the name of its output.
  std::string Node(const char* type, const std::vector<std::string>& inputs, std::string output,
                   const std::vector<Attribute>& attributes = {}) {
    ProtobufMessage node;
    for (const std::string& input : inputs) node.AddBytes(1, input);
    node.AddBytes(2, output);
    node.AddBytes(3, output);
    node.AddBytes(4, type);
    for (const Attribute& attribute : attributes) node.AddBytes(5, attribute.Message().bytes());
    graph_.AddBytes(1, node.bytes());
    return output;
  }

  // Adds a constant tensor, once for each name. dims: none for a scalar. Returns the name.
  std::string Floats(std::string name, const std::vector<size_t>& dims,
                     std::span<const float> values) {
    return Constant(std::move(name), kFloat, dims, std::as_bytes(values));
  }
  std::string Integers(std::string name, const std::vector<int64_t>& values) {
    return Constant(std::move(name), kInt64, {values.size()}, std::as_bytes(std::span(values)));
  }

  std::string Integer(std::string name, int64_t value) {
    return Constant(std::move(name), kInt64, {}, std::as_bytes(std::span(&value, 1)));
  }

  // [N, width], or [N] for a width of 0.
  void Input(const char* name, size_t width) { graph_.AddBytes(11, Value(name, width)); }
  void Output(const std::string& name) { graph_.AddBytes(12, Value(name, 0)); }

  const std::string& bytes() const { return graph_.bytes(); }

 private:
  std::string Constant(std::string name, ElementType type, const std::vector<size_t>& dims,
                       std::span<const std::byte> bytes) {
    if (!constants_.insert(name).second) return name;
    ProtobufMessage tensor;
    for (const size_t dim : dims) tensor.AddInteger(1, static_cast<int64_t>(dim));
    tensor.AddInteger(2, type);
    tensor.AddBytes(8, name);
    tensor.AddBytes(9, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    graph_.AddBytes(5, tensor.bytes());
    return name;
  }

  static std::string Value(std::string_view name, size_t width) {
    ProtobufMessage rows;
    rows.AddBytes(2, "N");
    ProtobufMessage shape;
    shape.AddBytes(1, rows.bytes());
    if (width > 0) {
      ProtobufMessage columns;
      columns.AddInteger(1, static_cast<int64_t>(width));
      shape.AddBytes(1, columns.bytes());
    }
    ProtobufMessage tensor;
    tensor.AddInteger(1, kFloat);
    tensor.AddBytes(2, shape.bytes());
    ProtobufMessage type;
    type.AddBytes(1, tensor.bytes());
    ProtobufMessage value;
    value.AddBytes(1, name);
    value.AddBytes(2, type.bytes());
    return value.bytes();
  }

  ProtobufMessage graph_;
  std::set<std::string> constants_;
};

// Translates a plan into nodes. Outputs of layers are named TOWER.LAYER.
class Translator {
 public:
  Translator(const ModelPlan& plan, std::span<const TaskConfig> tasks,
             std::span<const float> parameters, std::span<const float> statistics)
      : plan_(plan), tasks_(tasks), parameters_(parameters), statistics_(statistics) {
    if (plan.dense_width > 0) graph_.Input("dense", plan.dense_width);
    if (plan.embedding_width > 0) graph_.Input("embeddings", plan.embedding_width);
    for (const TowerPlan& tower : plan.towers) AddTower(tower);
  }

  OnnxGraph AddOutputs(const OnnxOptions& options) && {
    std::string logits = outputs_.back();
    if (plan_.output_factor != 1.0F) {
      logits = graph_.Node("Mul", {logits, Number("output_factor", plan_.output_factor)},
                           "scaled_outputs");
    }
    if (options.kept_negatives != 1.0) {
      // p / (p + (1 - p) / kept) is the probability of this logit.
      logits = graph_.Node("Add",
                           {logits, Number("log_kept_negatives", std::log(options.kept_negatives))},
                           "corrected_logits");
    }
    if (!options.calibrations.empty()) logits = Calibrated(logits, options.calibrations);
    for (size_t task = 0; task < options.outputs.size(); ++task) {
      const std::string predictions = Predictions(tasks_[task].loss.kind, logits);
      const std::string index =
          graph_.Integer(absl::StrCat("label.", task), static_cast<int64_t>(task));
      const LabelScale scale = options.scales.empty() ? LabelScale() : options.scales[task];
      const std::string& output = options.outputs[task];
      const bool is_scaled = scale != LabelScale();
      const std::string name = is_scaled ? output + ".scaled" : output;
      graph_.Node("Gather", {predictions, index}, name, {{"axis", int64_t{1}}});
      if (is_scaled) {
        graph_.Node("Mul", {name, Number(output + ".stddev", scale.stddev)}, output + ".unscaled");
        graph_.Node("Add", {output + ".unscaled", Number(output + ".mean", scale.mean)}, output);
      }
      graph_.Output(options.outputs[task]);
    }
    return std::move(graph_);
  }

 private:
  std::string Calibrated(const std::string& logits, std::span<const Calibration> calibrations) {
    const auto of_labels = [&](const char* name, auto value) {
      std::vector<float> values;
      for (const Calibration& one : calibrations) values.push_back(static_cast<float>(value(one)));
      return graph_.Floats(name, {values.size()}, values);
    };
    std::string sum = graph_.Node(
        "Mul", {logits, of_labels("calibration.low", [](const auto& one) { return one.low; })},
        "scaled_logits");
    const auto bend = [](const Calibration& one) { return one.high - one.low; };
    if (!std::ranges::all_of(calibrations, [&](const auto& one) { return bend(one) == 0; })) {
      const std::string softplus = graph_.Node("Softplus", {logits}, "softplus_logits");
      const std::string bent =
          graph_.Node("Mul", {softplus, of_labels("calibration.bend", bend)}, "bend_of_logits");
      sum = graph_.Node("Add", {sum, bent}, "bent_logits");
    }
    return graph_.Node(
        "Add", {sum, of_labels("calibration.shift", [](const auto& one) { return one.shift; })},
        "calibrated_logits");
  }

  // The predictions of all labels by the loss of one.
  std::string Predictions(LossConfig::Kind kind, const std::string& outputs) {
    const bool is_output =
        kind == LossConfig::Kind::kSquaredError || kind == LossConfig::Kind::kInBatchSoftmax;
    if (is_output) return outputs;
    const bool is_exp = kind == LossConfig::Kind::kPoisson;
    std::string& name = is_exp ? exponentials_ : probabilities_;
    if (name.empty()) {
      name = graph_.Node(is_exp ? "Exp" : "Sigmoid", {outputs},
                         is_exp ? "exponentials" : "probabilities");
    }
    return name;
  }

  void AddTower(const TowerPlan& tower) {
    std::vector<std::string> blocks;
    std::vector<std::string> sequences;  // (N, places, columns)
    for (const TowerInput& input : tower.inputs) {
      const std::string block = Block(input);
      if (input.places > 1) {
        sequences.push_back(Shaped(block, input.places, input.width / input.places,
                                   absl::StrCat(tower.name, ".sequence.", sequences.size() + 1)));
      } else if (sequences.empty()) {
        blocks.push_back(block);
      } else {
        blocks.push_back(SideBySide(sequences, tower.layers[0]));
        blocks.push_back(block);
      }
    }
    const std::string origin =
        blocks.size() == 1
            ? blocks[0]
            : graph_.Node("Concat", blocks, tower.name + ".input", {{"axis", int64_t{1}}});
    std::string x = origin;
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      x = Layer(tower.layers[i], origin, x, absl::StrCat(tower.name, ".", i + 1));
    }
    outputs_.push_back(x);
  }

  // Joins the rows of several sequences. Returns (N, places * columns).
  std::string SideBySide(const std::vector<std::string>& sequences, const LayerPlan& layer) {
    const std::string rows =
        graph_.Node("Concat", sequences, sequences[0] + ".joined", {{"axis", int64_t{2}}});
    return Flat(rows, layer.places * layer.row_width, rows + ".flat");
  }

  std::string Block(const TowerInput& input) {
    if (input.source == TowerInput::Source::kTower) return outputs_[input.tower];
    const bool is_dense = input.source == TowerInput::Source::kDense;
    const char* const source = is_dense ? "dense" : "embeddings";
    if (input.width == (is_dense ? plan_.dense_width : plan_.embedding_width)) return source;
    const size_t end = input.source_column + input.width;
    const std::string name = absl::StrCat(source, ".", input.source_column, ".", end);
    if (!slices_.insert(name).second) return name;
    return Columns(source, input.source_column, input.width, name);
  }

  std::string Columns(const std::string& x, size_t first, size_t count, const std::string& name,
                      int64_t axis = 1) {
    const auto column = [&](size_t index) {
      return graph_.Integers(absl::StrCat("column.", index), {static_cast<int64_t>(index)});
    };
    return graph_.Node("Slice", {x, column(first), column(first + count), Axis(axis)}, name);
  }

  // origin: the tower's input. x: the layer's input. name: name of the output.
  std::string Layer(const LayerPlan& layer, const std::string& origin, const std::string& x,
                    const std::string& name) {
    switch (layer.config.kind) {
      case LayerConfig::Kind::kLinear:
        return graph_.Node("Gemm", {x, Weight(layer, name), Bias(layer, name)}, name);
      case LayerConfig::Kind::kBatchNorm:
        return Normalised(layer, x, layer.Scale(parameters_), layer.Shift(parameters_), name);
      case LayerConfig::Kind::kRelu:
        return graph_.Node("Relu", {x}, name);
      case LayerConfig::Kind::kGelu:
        return Gelu(x, name);
      case LayerConfig::Kind::kSigmoid:
        return graph_.Node("Sigmoid", {x}, name);
      case LayerConfig::Kind::kDropout:
        return x;  // Predictions drop nothing.
      case LayerConfig::Kind::kSilu:
        return graph_.Node("Mul", {x, graph_.Node("Sigmoid", {x}, name + ".gate")}, name);
      case LayerConfig::Kind::kTanh:
        return graph_.Node("Tanh", {x}, name);
      case LayerConfig::Kind::kGate: {
        const std::string half = graph_.Node("Sigmoid", {x}, name + ".half");
        return graph_.Node("Mul", {half, Number("two", 2.0)}, name);
      }
      case LayerConfig::Kind::kPrelu:
        return graph_.Node("PRelu", {x, Vector(name + ".slope", layer.Slope(parameters_))}, name);
      case LayerConfig::Kind::kDice:
        return Dice(layer, x, name);
      case LayerConfig::Kind::kLayerNorm:
        return graph_.Node("LayerNormalization",
                           {x, Vector(name + ".scale", layer.Scale(parameters_)),
                            Vector(name + ".shift", layer.Shift(parameters_))},
                           name, {{"epsilon", layer.config.epsilon}});
      case LayerConfig::Kind::kProduct:
        return graph_.Node("ReduceProd", {Pieces(layer, x, name, layer.config.width)}, name,
                           {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
      case LayerConfig::Kind::kBilinear:
        return Bilinear(layer, x, name);
      case LayerConfig::Kind::kJoint:
        return Joint(layer, x, name);
      case LayerConfig::Kind::kDot:
        return Dot(layer, x, name);
      case LayerConfig::Kind::kCross:
        return Cross(layer, origin, x, name);
      case LayerConfig::Kind::kFm:
        return Fm(layer, x, name);
      case LayerConfig::Kind::kSum:
        return Sum(Pieces(layer, x, name, layer.output_width), 2, name, /*keep=*/false);
      case LayerConfig::Kind::kMean:
      case LayerConfig::Kind::kLast:
      case LayerConfig::Kind::kAttention:
        return Pool(layer, x, name);
      case LayerConfig::Kind::kSelfAttention:
        return SelfAttention(layer, x, name);
      case LayerConfig::Kind::kL2Norm: {
        const std::string norm =
            graph_.Node("ReduceL2", {x}, name + ".norm",
                        {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
        const std::string least = Number("least_norm", L2NormFormula::kLeastNorm);
        return graph_.Node("Div", {x, graph_.Node("Max", {norm, least}, name + ".divisor")}, name);
      }
      case LayerConfig::Kind::kSoftmax:
        return graph_.Node("Softmax", {x}, name, {{"axis", int64_t{1}}});
      case LayerConfig::Kind::kMix: {
        const size_t terms = layer.config.width;
        const std::string gates = Columns(x, 0, terms, name + ".gates");
        const std::string vectors = Columns(x, terms, layer.input_width - terms, name + ".vectors");
        return Weighted(Shaped(gates, terms, 1), Shaped(vectors, terms, layer.output_width), name);
      }
    }
    return x;
  }

  // The weighted sum of a sample's rows. Weights are 0 at empty places.
  std::string Pool(const LayerPlan& layer, const std::string& x, const std::string& name) {
    const std::string rows = RowsOf(layer, x, name);
    std::string mask = MaskOf(layer, x, name);
    if (layer.config.kind == LayerConfig::Kind::kMean) {
      const std::string length = Sum(mask, 1, name + ".length", /*keep=*/true);
      const std::string divisor =
          graph_.Node("Max", {length, Number("one", 1.0)}, name + ".divisor");
      mask = graph_.Node("Div", {mask, divisor}, name + ".shares");
    } else if (layer.config.kind == LayerConfig::Kind::kLast) {
      // The mask less the mask from the second place on.
      std::vector<float> steps(layer.places * layer.places, 0.0F);
      for (size_t l = 0; l < layer.places; ++l) {
        steps[l * layer.places + l] = 1.0F;
        if (l > 0) steps[l * layer.places + l - 1] = -1.0F;
      }
      mask = graph_.Node(
          "MatMul", {mask, graph_.Floats(name + ".steps", {layer.places, layer.places}, steps)},
          name + ".last");
    }
    std::string weights = Shaped(mask, layer.places, 1);
    if (layer.config.kind == LayerConfig::Kind::kAttention) {
      const std::string q =
          Shaped(Columns(x, 0, layer.query_width, name + ".query"), 1, layer.query_width);
      std::string scores = Scores(layer, q, rows, name);
      if (layer.config.normalises) {
        const std::string shut = Shaped(Shut(mask, name), layer.places, 1, name + ".shut_places");
        const std::string open = graph_.Node("Add", {scores, shut}, name + ".open_scores");
        scores = graph_.Node("Softmax", {open}, name + ".normal", {{"axis", int64_t{1}}});
      }
      weights = graph_.Node("Mul", {scores, weights}, name + ".weights");
    }
    return Weighted(weights, rows, name);
  }

  // (N, places, columns of a row).
  std::string RowsOf(const LayerPlan& layer, const std::string& x, const std::string& name) {
    return Shaped(Columns(x, layer.query_width, layer.places * layer.row_width, name + ".of"),
                  layer.places, layer.row_width);
  }
  std::string MaskOf(const LayerPlan& layer, const std::string& x, const std::string& name) {
    return Columns(x, layer.query_width + layer.places * layer.row_width, layer.places,
                   name + ".mask");
  }
  // 0 for rows, and a number that a softmax makes 0 for empty places.
  std::string Shut(const std::string& mask, const std::string& name) {
    const std::string less = graph_.Node("Sub", {mask, Number("one", 1.0)}, name + ".empty");
    return graph_.Node("Mul", {less, Number("shut", 1e9)}, name + ".shut");
  }

  // The weights (N, places, 1) for a query (N, 1, its columns) and rows (N, places, columns).
  std::string Scores(const LayerPlan& layer, const std::string& q, const std::string& rows,
                     const std::string& name) {
    const std::vector<float> ones(layer.places, 1.0F);
    const std::string each = graph_.Node(
        "Mul", {q, graph_.Floats(name + ".ones", {1, layer.places, 1}, ones)}, name + ".each");
    const std::string common = layer.query_width == layer.row_width
                                   ? rows
                                   : Columns(rows, 0, layer.query_width, name + ".common", 2);
    const std::string difference = graph_.Node("Sub", {q, common}, name + ".difference");
    const std::string product = graph_.Node("Mul", {q, common}, name + ".product");
    std::string x = graph_.Node("Concat", {each, rows, difference, product}, name + ".pairs",
                                {{"axis", int64_t{2}}});
    for (size_t i = 0; i < layer.inner.size(); ++i) {
      const LayerPlan& inner = layer.inner[i];
      const std::string of = absl::StrCat(name, ".score.", i + 1);
      const bool is_linear = inner.config.kind == LayerConfig::Kind::kLinear;
      if (is_linear) {
        x = InnerLinear(inner, x, of);
      } else {
        const auto shaped = [&](const std::string& y, std::vector<int64_t> dims,
                                const std::string& end) {
          return graph_.Node("Reshape", {y, graph_.Integers(of + end, dims)}, of + end + ".shaped");
        };
        const auto width = static_cast<int64_t>(inner.output_width);
        const std::string rows_alone = shaped(x, {-1, width}, ".alone");
        x = shaped(Layer(inner, rows_alone, rows_alone, of),
                   {-1, static_cast<int64_t>(layer.places), width}, ".together");
      }
      const bool relu = is_linear && i + 1 < layer.inner.size() &&
                        layer.inner[i + 1].config.kind == LayerConfig::Kind::kLinear;
      if (relu) x = graph_.Node("Relu", {x}, of + ".relu");
    }
    return x;
  }

  // x: (N, places, columns).
  std::string InnerLinear(const LayerPlan& linear, const std::string& x, const std::string& name) {
    const std::string product = graph_.Node("MatMul", {x, Weight(linear, name)}, name + ".outer");
    return graph_.Node("Add", {product, Bias(linear, name)}, name);
  }

  std::string SelfAttention(const LayerPlan& layer, const std::string& input,
                            const std::string& name) {
    const size_t places = layer.places;
    const size_t width = layer.row_width;
    const auto& inner = layer.inner;
    std::string x = RowsOf(layer, input, name);
    const std::string mask = MaskOf(layer, input, name);
    if (layer.config.positions) {
      x = graph_.Node(
          "Add",
          {x, graph_.Floats(name + ".positions", {places, width},
                            parameters_.subspan(layer.parameter_offset, places * width))},
          name + ".placed");
    }
    const std::string all = InnerLinear(inner[kIn], x, name + ".in");
    const std::string mixed = Heads(layer, all, mask, name);
    const std::string out = InnerLinear(inner[kOut], mixed, name + ".out");
    const std::string first = graph_.Node("Add", {x, out}, name + ".sum_1");
    const std::string z = Layer(inner[kNorm1], first, first, name + ".norm_1");
    const std::string hidden =
        graph_.Node("Relu", {InnerLinear(inner[kLinear1], z, name + ".linear_1")}, name + ".relu");
    const std::string second = InnerLinear(inner[kLinear2], hidden, name + ".linear_2");
    const std::string sum = graph_.Node("Add", {z, second}, name + ".sum_2");
    const std::string y = Layer(inner[kNorm2], sum, sum, name + ".norm_2");
    const std::string rows =
        graph_.Node("Mul", {y, Shaped(mask, places, 1, name + ".mask_of_rows")}, name + ".rows");
    return Flat(rows, places * width, name);
  }

  // The mixtures of values (N, places, width), from queries, keys and values side by side.
  std::string Heads(const LayerPlan& layer, const std::string& all, const std::string& mask,
                    const std::string& name) {
    const auto places = static_cast<int64_t>(layer.places);
    const auto heads = static_cast<int64_t>(layer.config.width);
    const auto dim = static_cast<int64_t>(layer.row_width) / heads;
    const auto shape = [&](const std::string& x, const std::vector<int64_t>& dims,
                           const std::string& of) {
      return graph_.Node("Reshape", {x, graph_.Integers(of + ".shape", dims)}, of);
    };
    const auto part = [&](size_t index, const char* what, std::vector<int64_t> order) {
      const std::string of = absl::StrCat(name, ".", what);
      const std::string columns =
          Columns(all, index * layer.row_width, layer.row_width, of + ".columns", 2);
      return graph_.Node("Transpose", {shape(columns, {0, places, heads, dim}, of + ".heads")}, of,
                         {{"perm", std::move(order)}});
    };
    const std::string queries = part(0, "queries", {0, 2, 1, 3});
    const std::string keys = part(1, "keys", {0, 2, 3, 1});
    const std::string values = part(2, "values", {0, 2, 1, 3});
    std::string scores = graph_.Node("MatMul", {queries, keys}, name + ".products");
    scores = graph_.Node(
        "Mul", {scores, Number(name + ".factor", 1.0 / std::sqrt(static_cast<double>(dim)))},
        name + ".scores");
    scores = graph_.Node("Add",
                         {scores, shape(Shut(mask, name), {0, 1, 1, places}, name + ".keys_shut")},
                         name + ".open");
    if (layer.config.causal) {
      std::vector<float> later(layer.places * layer.places, 0.0F);
      for (size_t i = 0; i < layer.places; ++i) {
        for (size_t j = i + 1; j < layer.places; ++j) later[i * layer.places + j] = -1e9F;
      }
      scores = graph_.Node(
          "Add", {scores, graph_.Floats(name + ".later", {layer.places, layer.places}, later)},
          name + ".causal");
    }
    const std::string weights =
        graph_.Node("Softmax", {scores}, name + ".weights", {{"axis", int64_t{3}}});
    const std::string mixed = graph_.Node("MatMul", {weights, values}, name + ".mixed");
    const std::string rows = graph_.Node("Transpose", {mixed}, name + ".mixed_rows",
                                         {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return shape(rows, {0, places, heads * dim}, name + ".context");
  }

  // weights: (N, rows, 1). rows: (N, rows, dim). Returns (N, dim).
  std::string Weighted(const std::string& weights, const std::string& rows,
                       const std::string& name) {
    const std::string terms = graph_.Node("Mul", {weights, rows}, name + ".terms");
    return Sum(terms, 1, name, /*keep=*/false);
  }

  std::string Weight(const LayerPlan& layer, const std::string& name) {
    return graph_.Floats(name + ".weight", {layer.input_width, layer.output_width},
                         layer.Weight(parameters_).flat());
  }
  std::string Bias(const LayerPlan& layer, const std::string& name) {
    return graph_.Floats(name + ".bias", {layer.output_width}, layer.Bias(parameters_));
  }

  std::string Vector(std::string name, std::span<const float> values) {
    return graph_.Floats(std::move(name), {values.size()}, values);
  }

  // Batch norm with the running statistics.
  std::string Normalised(const LayerPlan& layer, const std::string& x, std::span<const float> scale,
                         std::span<const float> shift, const std::string& name) {
    return graph_.Node("BatchNormalization",
                       {x, Vector(name + ".scale", scale), Vector(name + ".shift", shift),
                        Vector(name + ".running_mean", layer.Mean(statistics_)),
                        Vector(name + ".running_variance", layer.Variance(statistics_))},
                       name, {{"epsilon", layer.config.epsilon}});
  }

  // DiceFormula: x * (slope + p * (1 - slope)).
  std::string Dice(const LayerPlan& layer, const std::string& x, const std::string& name) {
    const std::vector<float> ones(layer.output_width, 1.0F);
    const std::vector<float> zeros(layer.output_width, 0.0F);
    const std::string normalised = Normalised(layer, x, ones, zeros, name + ".normalised");
    const std::string p = graph_.Node("Sigmoid", {normalised}, name + ".p");
    const std::span<const float> slope = layer.Slope(parameters_);
    std::vector<float> rest(slope.begin(), slope.end());
    for (float& value : rest) value = 1.0F - value;
    const std::string above =
        graph_.Node("Mul", {p, Vector(name + ".rest", rest)}, name + ".above");
    const std::string rate =
        graph_.Node("Add", {above, Vector(name + ".slope", slope)}, name + ".rate");
    return graph_.Node("Mul", {x, rate}, name);
  }

  std::string Bilinear(const LayerPlan& layer, const std::string& x, const std::string& name) {
    const size_t half = layer.input_width / 2;
    const size_t heads = layer.config.width;
    const size_t block = half / heads;
    const auto pieces = [&](size_t first, size_t rows, size_t columns, const char* end) {
      const std::vector<int64_t> shape = {0, static_cast<int64_t>(heads),
                                          static_cast<int64_t>(rows),
                                          static_cast<int64_t>(columns)};
      return graph_.Node(
          "Reshape",
          {Columns(x, first, half, absl::StrCat(name, end)),
           graph_.Integers(absl::StrCat("shape.", heads, ".", rows, ".", columns), shape)},
          absl::StrCat(name, end, ".pieces"));
    };
    const std::string weight =
        graph_.Floats(name + ".weight", {heads, block, block}, layer.Heads(parameters_).flat());
    const std::string product =
        graph_.Node("MatMul", {pieces(0, 1, block, ".one"), weight}, name + ".product");
    const std::string terms =
        graph_.Node("MatMul", {product, pieces(half, block, 1, ".two")}, name + ".terms");
    return Sum(Shaped(terms, heads, 1), 1, name, /*keep=*/false);
  }

  // JointFormula with t = -sum: -t - log(1 - exp(-t)) = m / 2 - log(2 sinh(m / 2)) - t with m = t,
  // and about -t above kMost, where sinh would overflow. ONNX has no expm1.
  std::string Joint(const LayerPlan& layer, const std::string& x, const std::string& name) {
    constexpr double kLeast = 1e-37;
    constexpr double kMost = 80.0;
    const std::string opposite = graph_.Node("Neg", {x}, name + ".opposite");
    const std::string losses = graph_.Node("Softplus", {opposite}, name + ".losses");
    const std::string loss =
        Sum(Pieces(layer, losses, name, layer.config.width), 1, name + ".loss", /*keep=*/false);
    const std::string bounded =
        graph_.Node("Clip", {loss, Number("joint.least", kLeast), Number("joint.most", kMost)},
                    name + ".bounded");
    const std::string half = graph_.Node("Mul", {bounded, Number("half", 0.5)}, name + ".half");
    const std::string sinh = graph_.Node("Sinh", {half}, name + ".sinh");
    const std::string twice = graph_.Node("Mul", {sinh, Number("two", 2.0)}, name + ".twice");
    const std::string logarithm = graph_.Node("Log", {twice}, name + ".logarithm");
    const std::string difference = graph_.Node("Sub", {half, logarithm}, name + ".difference");
    return graph_.Node("Sub", {difference, loss}, name);
  }

  // GeluFormula: x * sigmoid(rate * (x + cubic * x^3)).
  std::string Gelu(const std::string& x, const std::string& name) {
    const std::string square = graph_.Node("Mul", {x, x}, name + ".square");
    const std::string cube = graph_.Node("Mul", {square, x}, name + ".cube");
    const std::string scaled =
        graph_.Node("Mul", {cube, Number("gelu.cubic", GeluFormula::kCubic)}, name + ".scaled");
    const std::string sum = graph_.Node("Add", {x, scaled}, name + ".sum");
    const std::string rated =
        graph_.Node("Mul", {sum, Number("gelu.rate", GeluFormula::kRate)}, name + ".rated");
    const std::string gate = graph_.Node("Sigmoid", {rated}, name + ".gate");
    return graph_.Node("Mul", {x, gate}, name);
  }

  // The products of vector v with the vectors before it, for every v.
  std::string Dot(const LayerPlan& layer, const std::string& x, const std::string& name) {
    const auto vectors = static_cast<int64_t>(layer.input_width / layer.config.width);
    const std::string rows = Pieces(layer, x, name, static_cast<size_t>(vectors));
    const std::string columns = graph_.Node("Transpose", {rows}, name + ".columns",
                                            {{"perm", std::vector<int64_t>{0, 2, 1}}});
    const std::string products = graph_.Node("MatMul", {rows, columns}, name + ".products");
    const std::string flat = graph_.Node(
        "Reshape",
        {products,
         graph_.Integers(absl::StrCat("shape.", vectors, "x", vectors), {0, vectors * vectors})},
        name + ".flat");
    std::vector<int64_t> pairs;
    for (int64_t v = 1; v < vectors; ++v) {
      for (int64_t w = 0; w < v; ++w) pairs.push_back(v * vectors + w);
    }
    return graph_.Node("Gather", {flat, graph_.Integers(absl::StrCat("pairs.", vectors), pairs)},
                       name, {{"axis", int64_t{1}}});
  }

  std::string Cross(const LayerPlan& layer, const std::string& origin, const std::string& x,
                    const std::string& name) {
    const size_t width = layer.output_width;
    const size_t rank = layer.config.rank;
    std::string product;
    if (rank == 0) {
      product = graph_.Node("Gemm", {x, Weight(layer, name), Bias(layer, name)}, name + ".outer");
    } else {
      const std::string inner = graph_.Node(
          "MatMul",
          {x, graph_.Floats(name + ".down", {width, rank}, layer.Down(parameters_).flat())},
          name + ".inner");
      product = graph_.Node(
          "Gemm",
          {inner, graph_.Floats(name + ".up", {rank, width}, layer.Up(parameters_).flat()),
           Bias(layer, name)},
          name + ".outer");
    }
    const std::string crossed = graph_.Node("Mul", {origin, product}, name + ".crossed");
    return graph_.Node("Add", {crossed, x}, name);
  }

  // Half of the square of the sum less the sum of the squares.
  std::string Fm(const LayerPlan& layer, const std::string& x, const std::string& name) {
    const std::string rows = Pieces(layer, x, name, layer.input_width / layer.config.width);
    const std::string sum = Sum(rows, 1, name + ".sum", /*keep=*/false);
    const std::string square = graph_.Node("Mul", {sum, sum}, name + ".square_of_sum");
    const std::string squares = graph_.Node("Mul", {rows, rows}, name + ".squares");
    const std::string sum_of_squares = Sum(squares, 1, name + ".sum_of_squares", /*keep=*/false);
    const std::string difference = graph_.Node("Sub", {square, sum_of_squares}, name + ".rest");
    const std::string total = Sum(difference, 1, name + ".total", /*keep=*/true);
    return graph_.Node("Mul", {total, Number("half", 0.5)}, name);
  }

  // The layer's input as (N, pieces, width of a piece).
  std::string Pieces(const LayerPlan& layer, const std::string& x, const std::string& name,
                     size_t pieces) {
    return Shaped(x, pieces, layer.input_width / pieces, name + ".pieces");
  }

  // x as (N, rows, columns). name: by default the name of x with the shape.
  std::string Shaped(const std::string& x, size_t rows, size_t columns, std::string name = "") {
    const std::string shape = absl::StrCat("shape.", rows, ".", columns);
    if (name.empty()) name = absl::StrCat(x, ".", shape);
    return graph_.Node(
        "Reshape",
        {x, graph_.Integers(shape, {0, static_cast<int64_t>(rows), static_cast<int64_t>(columns)})},
        name);
  }

  // x as (N, columns).
  std::string Flat(const std::string& x, size_t columns, const std::string& name) {
    return graph_.Node(
        "Reshape",
        {x, graph_.Integers(absl::StrCat("shape.", columns), {0, static_cast<int64_t>(columns)})},
        name);
  }

  std::string Sum(const std::string& x, int64_t axis, const std::string& name, bool keep) {
    return graph_.Node("ReduceSum", {x, Axis(axis)}, name, {{"keepdims", int64_t{keep ? 1 : 0}}});
  }

  std::string Axis(int64_t axis) { return graph_.Integers(absl::StrCat("axis.", axis), {axis}); }

  std::string Number(const std::string& name, double value) {
    const auto number = static_cast<float>(value);
    return graph_.Floats(name, {}, {&number, 1});
  }

  const ModelPlan& plan_;
  const std::span<const TaskConfig> tasks_;
  const std::span<const float> parameters_;
  const std::span<const float> statistics_;
  OnnxGraph graph_;
  std::vector<std::string> outputs_;  // Names of outputs, indexed by tower.
  std::set<std::string> slices_;
  std::string probabilities_;  // Name of a node; empty: none.
  std::string exponentials_;
};

}  // namespace

StatusOr<std::string> OnnxModel(const ModelConfig& model, const ModelInputs& inputs,
                                std::span<const float> parameters,
                                std::span<const float> statistics, const OnnxOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(model, inputs));
  SIMURGH_CHECK_EQ(parameters.size(), plan.parameter_count);
  SIMURGH_CHECK_EQ(statistics.size(), plan.statistics_count);
  SIMURGH_CHECK_EQ(options.outputs.size(), plan.top().output_width());
  if (parameters.size_bytes() > kMaxWeightBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the dense network has ",
                                                   parameters.size_bytes(),
                                                   " bytes of weights; an ONNX file has at most ",
                                                   kMaxWeightBytes, "; make its layers narrower"));
  }
  const std::vector<TaskConfig> tasks = TasksOf(model);
  const OnnxGraph graph = Translator(plan, tasks, parameters, statistics).AddOutputs(options);
  ProtobufMessage opset;
  opset.AddBytes(1, "");
  opset.AddInteger(2, kOpset);
  ProtobufMessage file;
  file.AddInteger(1, kIrVersion);
  file.AddBytes(2, "simurgh");
  file.AddInteger(5, static_cast<int64_t>(options.step));
  file.AddBytes(7, graph.bytes());
  file.AddBytes(8, opset.bytes());
  for (const auto& [key, value] : options.metadata) {
    ProtobufMessage entry;
    entry.AddBytes(1, key);
    entry.AddBytes(2, value);
    file.AddBytes(14, entry.bytes());
  }
  return file.bytes();
}

}  // namespace simurgh
