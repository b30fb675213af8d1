#include "nn/cpu/packed_layers.h"

#include <new>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "base/aligned_buffer.h"
#include "nn/cpu/onednn.h"

namespace simurgh::cpu {
namespace {

using dnnl::memory;

memory::desc Rows(size_t rows, size_t columns) {
  const auto dim = [](size_t n) { return static_cast<memory::dim>(n); };
  return {{dim(rows), dim(columns)}, memory::data_type::f32, memory::dims{dim(columns), 1}};
}

memory::desc AnyOrder(const LayerPlan& layer) {
  return {
      {static_cast<memory::dim>(layer.input_width), static_cast<memory::dim>(layer.output_width)},
      memory::data_type::f32,
      memory::format_tag::any};
}

dnnl::matmul::primitive_desc Describe(const LayerPlan& layer, size_t rows, bool relu,
                                      const memory::desc& weights) {
  dnnl::primitive_attr attributes;
  if (relu) {
    dnnl::post_ops after;
    AppendRelu(after);
    attributes.set_post_ops(after);
  }
  return DescribePrimitive<dnnl::matmul>(attributes, Rows(rows, layer.input_width), weights,
                                         Rows(1, layer.output_width),
                                         Rows(rows, layer.output_width));
}

// oneDNN only writes to the destination.
memory Of(const memory::desc& description, const void* data) {
  return {description, DnnlEngine(), const_cast<void*>(data)};
}

struct Packed {
  memory::desc description;
  AlignedBuffer weights;
};

}  // namespace

// Layers, indexed by the offset of their parameters.
struct PackedLayers::State {
  absl::flat_hash_map<size_t, Packed> layers;
};

PackedLayers::PackedLayers(std::unique_ptr<const State> state) : state_(std::move(state)) {}
PackedLayers::~PackedLayers() = default;

size_t PackedLayers::bytes() const {
  size_t bytes = 0;
  for (const auto& [offset, packed] : state_->layers) bytes += packed.weights.size();
  return bytes;
}

StatusOr<std::unique_ptr<const PackedLayers>> PackedLayers::Create(const ModelPlan& plan,
                                                                   std::span<const float> weights) {
  constexpr size_t kNarrow = 16;       // Columns of a block; narrower layers are not packed.
  constexpr size_t kTypicalRows = 64;  // oneDNN's order of weights is the same for all batches.
  auto state = std::make_unique<State>();
  try {
    dnnl::stream stream(DnnlEngine());
    for (const TowerPlan& tower : plan.towers) {
      for (const LayerPlan& layer : tower.layers) {
        if (layer.config.kind != LayerConfig::Kind::kLinear) continue;
        if (layer.output_width < kNarrow) continue;
        const memory::desc plain = Rows(layer.input_width, layer.output_width);
        const memory::desc packed =
            Describe(layer, kTypicalRows, /*relu=*/false, AnyOrder(layer)).weights_desc();
        if (packed == plain) continue;
        AlignedBuffer buffer(packed.get_size());
        memory from = Of(plain, layer.Weight(weights).data());
        memory to = Of(packed, buffer.data());
        dnnl::reorder(from, to).execute(stream, from, to);
        stream.wait();
        state->layers.emplace(layer.parameter_offset, Packed{packed, std::move(buffer)});
      }
    }
  } catch (const dnnl::error& error) {
    // An error can mean a processor on which oneDNN has no such product: no layer is packed.
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError("dense network: no memory for packed weights");
    }
    state->layers.clear();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("dense network: no memory for packed weights");
  }
  return std::unique_ptr<const PackedLayers>(new PackedLayers(std::move(state)));
}

// The last product of each layer. oneDNN caches others, but finding them takes microseconds.
struct PackedProducts::State {
  struct Product {
    size_t rows = 0;
    bool relu = false;
    dnnl::matmul matmul;
  };
  dnnl::stream stream{DnnlEngine()};
  absl::flat_hash_map<size_t, Product> products;
};

PackedProducts::PackedProducts() : state_(std::make_unique<State>()) {}
PackedProducts::~PackedProducts() = default;
PackedProducts::PackedProducts(PackedProducts&&) noexcept = default;

bool PackedProducts::Has(const PackedLayers& packed, const LayerPlan& layer) {
  return packed.state_->layers.contains(layer.parameter_offset);
}

Status PackedProducts::Forward(const PackedLayers& packed, const LayerPlan& layer,
                               std::span<const float> bias, bool relu,
                               MatrixView<const float> input, MatrixView<float> output) {
  const Packed& weights = packed.state_->layers.at(layer.parameter_offset);
  const size_t rows = input.rows();
  try {
    State::Product& product = state_->products[layer.parameter_offset];
    if (product.rows != rows || product.relu != relu) {
      product.matmul = dnnl::matmul(Describe(layer, rows, relu, weights.description));
      product.rows = rows;
      product.relu = relu;
    }
    product.matmul.execute(state_->stream,
                           {{DNNL_ARG_SRC, Of(Rows(rows, layer.input_width), input.data())},
                            {DNNL_ARG_WEIGHTS, Of(weights.description, weights.weights.data())},
                            {DNNL_ARG_BIAS, Of(Rows(1, layer.output_width), bias.data())},
                            {DNNL_ARG_DST, Of(Rows(rows, layer.output_width), output.data())}});
    state_->stream.wait();
  } catch (const dnnl::error& error) {
    state_->products.erase(layer.parameter_offset);
    return absl::InternalError(absl::StrCat(
        "oneDNN matmul (", rows, " x ", layer.input_width, ") times (", layer.input_width, " x ",
        layer.output_width, ") failed with status ", static_cast<int>(error.status)));
  }
  return absl::OkStatus();
}

}  // namespace simurgh::cpu
