#include "bench/micro/nn/products.h"

#include <bit>
#include <memory>
#include <unordered_map>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "bench/micro/nn/random_matrix.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/onednn.h"

// From libgomp; see compute_threads.cc.
extern "C" void omp_set_num_threads(int threads);

namespace simurgh::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using dnnl::memory;

struct Operands {
  explicit Operands(const Product& product)
      : input(product.samples, product.inputs),
        weight(product.inputs, product.outputs),
        bias(1, product.outputs),
        output(product.samples, product.outputs) {}

  RandomMatrix input;
  RandomMatrix weight;
  RandomMatrix bias;
  RandomMatrix output;
};

memory::desc Any(size_t rows, size_t columns, memory::data_type type) {
  return {{static_cast<memory::dim>(rows), static_cast<memory::dim>(columns)}, type, Tag::any};
}

memory::data_type TypeOf(const memory::desc& description) {
#if DNNL_VERSION_MAJOR < 3
  return description.data_type();
#else
  return description.get_data_type();
#endif
}

// Arguments of one oneDNN call.
struct Call {
  dnnl::stream stream{cpu::DnnlEngine()};
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;

  void Give(int name, const memory::desc& description) {
    memory operand(description, cpu::DnnlEngine());
    const auto value = [](size_t i) { return static_cast<float>(i % 17) * 0.125F - 1.0F; };
    if (TypeOf(description) == memory::data_type::bf16) {
      auto* values = static_cast<uint16_t*>(operand.get_data_handle());
      const size_t count = description.get_size() / sizeof(uint16_t);
      for (size_t i = 0; i < count; ++i) {
        values[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value(i)) >> 16);
      }
    } else {
      auto* values = static_cast<float*>(operand.get_data_handle());
      const size_t count = description.get_size() / sizeof(float);
      for (size_t i = 0; i < count; ++i) values[i] = value(i);
    }
    arguments.emplace(name, operand);
  }
};

using Forward = dnnl::inner_product_forward;

// The same as cpu::DescribePrimitive, for a backward primitive.
template <typename Primitive, typename... Operands>
typename Primitive::primitive_desc DescribeBackward(const Forward::primitive_desc& forward,
                                                    const Operands&... operands) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(operands...), cpu::DnnlEngine(), forward};
#else
  return {cpu::DnnlEngine(), operands..., forward};
#endif
}

}  // namespace

std::string Product::name() const {
  const char* what = kind == Kind::kForward  ? "forward"
                     : kind == Kind::kWeight ? "weight"
                                             : "input";
  return absl::StrCat(tower, tower.empty() ? "" : " ", what, " ", inputs, "x", outputs);
}

std::vector<Product> ProductsOf(const Subject& subject, size_t samples) {
  std::vector<Product> products;
  const ModelPlan plan = PlanOf(subject);
  for (const TowerPlan& tower : plan.towers) {
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const LayerPlan& layer = tower.layers[i];
      if (layer.config.kind != LayerConfig::Kind::kLinear) continue;
      const auto add = [&](Product::Kind kind) {
        products.push_back({kind, samples, layer.input_width, layer.output_width,
                            plan.towers.size() > 1 ? tower.name : std::string()});
      };
      add(Product::Kind::kForward);
      add(Product::Kind::kWeight);
      if (i > 0 || tower.needs_input_gradient) add(Product::Kind::kInput);
    }
  }
  return products;
}

std::function<void()> OurProduct(const Product& product, cpu::ProductPrecision precision) {
  const auto operands = std::make_shared<Operands>(product);
  return [operands, precision, kind = product.kind] {
    cpu::SetProductPrecision(precision);
    Operands& o = *operands;
    const Status status =
        kind == Product::Kind::kForward
            ? cpu::LinearForward(o.input.view(), o.weight.view(), o.bias.view().flat(),
                                 /*relu=*/false, o.output.view())
        : kind == Product::Kind::kWeight
            ? cpu::LinearBackwardWeight(o.input.view(), o.output.view(), o.weight.view(),
                                        o.bias.view().flat())
            : cpu::LinearBackwardInput(o.output.view(), o.weight.view(), 0.0F, o.input.view());
    SIMURGH_CHECK(status.ok()) << status.ToString();
  };
}

// Sets oneDNN's threads during its lifetime, also for the creation of primitives; then one again.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(uint32_t threads) { omp_set_num_threads(static_cast<int>(threads)); }
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;
  ~OneDnnThreads() { omp_set_num_threads(1); }
};

std::function<void()> OneDnnProduct(const Product& product, cpu::ProductPrecision precision,
                                    uint32_t threads) {
  using Type = memory::data_type;
  using Kind = Product::Kind;
  const OneDnnThreads planned(threads);
  const Type type = precision == cpu::ProductPrecision::kBf16 ? Type::bf16 : Type::f32;
  const auto type_of = [&](Kind result) { return product.kind == result ? Type::f32 : type; };
  const auto call = std::make_shared<Call>();
  const memory::desc input = Any(product.samples, product.inputs, type_of(Kind::kInput));
  const memory::desc weight = Any(product.outputs, product.inputs, type_of(Kind::kWeight));
  const memory::desc output = Any(product.samples, product.outputs, type_of(Kind::kForward));
  // Backward primitives need a forward primitive as a hint, with operands of one type.
  const auto forward = cpu::DescribePrimitive<Forward>(
      {}, dnnl::prop_kind::forward_training, Any(product.samples, product.inputs, type),
      Any(product.outputs, product.inputs, type),
      product.kind == Kind::kForward ? output : Any(product.samples, product.outputs, type));
  switch (product.kind) {
    case Kind::kForward:
      call->Give(DNNL_ARG_SRC, forward.src_desc());
      call->Give(DNNL_ARG_WEIGHTS, forward.weights_desc());
      call->Give(DNNL_ARG_DST, forward.dst_desc());
      call->primitive = Forward(forward);
      break;
    case Kind::kWeight: {
      const auto backward =
          DescribeBackward<dnnl::inner_product_backward_weights>(forward, input, weight, output);
      call->Give(DNNL_ARG_SRC, backward.src_desc());
      call->Give(DNNL_ARG_DIFF_DST, backward.diff_dst_desc());
      call->Give(DNNL_ARG_DIFF_WEIGHTS, backward.diff_weights_desc());
      call->primitive = dnnl::inner_product_backward_weights(backward);
      break;
    }
    case Kind::kInput: {
      const auto backward =
          DescribeBackward<dnnl::inner_product_backward_data>(forward, input, weight, output);
      call->Give(DNNL_ARG_DIFF_DST, backward.diff_dst_desc());
      call->Give(DNNL_ARG_WEIGHTS, backward.weights_desc());
      call->Give(DNNL_ARG_DIFF_SRC, backward.diff_src_desc());
      call->primitive = dnnl::inner_product_backward_data(backward);
      break;
    }
  }
  return [call, threads] {
    const OneDnnThreads used(threads);
    call->primitive.execute(call->stream, call->arguments);
    call->stream.wait();
  };
}

}  // namespace simurgh::bench
