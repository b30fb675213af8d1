#include "bench/micro/nn/products.h"

#include <memory>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "bench/micro/nn/step.h"
#include <dnnl.hpp>

#include "nn/cpu/linear.h"
#include "simurgh/base/check.h"

// Of libgomp, on which Debian's oneDNN runs; see compute_threads.cc.
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

memory::desc Any(size_t rows, size_t columns) {
  return {{static_cast<memory::dim>(rows), static_cast<memory::dim>(columns)},
          memory::data_type::f32,
          Tag::any};
}

// What oneDNN needs for one call.
struct Call {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;

  void Give(int name, const memory::desc& description) {
    memory operand(description, engine);
    auto* values = static_cast<float*>(operand.get_data_handle());
    const size_t count = description.get_size() / sizeof(float);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 17) * 0.125F - 1.0F;
    arguments.emplace(name, operand);
  }
};

using Forward = dnnl::inner_product_forward;

}  // namespace

std::string Product::name() const {
  const char* what = kind == Kind::kForward  ? "forward"
                     : kind == Kind::kWeight ? "weight"
                                             : "input";
  return absl::StrCat(what, " ", inputs, "x", outputs);
}

std::vector<Product> ProductsOf(const std::vector<size_t>& widths, size_t samples) {
  std::vector<Product> products;
  size_t inputs = kInputs;
  for (const size_t outputs : widths) {
    for (const auto kind :
         {Product::Kind::kForward, Product::Kind::kWeight, Product::Kind::kInput}) {
      products.push_back({kind, samples, inputs, outputs});
    }
    inputs = outputs;
  }
  return products;
}

std::function<void()> OurProduct(const Product& product) {
  const auto operands = std::make_shared<Operands>(product);
  return [operands, kind = product.kind] {
    Operands& o = *operands;
    const Status status =
        kind == Product::Kind::kForward ? cpu::LinearForward(o.input.view(), o.weight.view(),
                                                             o.bias.view().flat(), o.output.view())
        : kind == Product::Kind::kWeight
            ? cpu::LinearBackwardWeight(o.input.view(), o.output.view(), o.weight.view(),
                                        o.bias.view().flat())
            : cpu::LinearBackwardInput(o.output.view(), o.weight.view(), o.input.view());
    SIMURGH_CHECK(status.ok()) << status.ToString();
  };
}

std::function<void()> OneDnnProduct(const Product& product, uint32_t threads) {
  const auto call = std::make_shared<Call>();
  const memory::desc input = Any(product.samples, product.inputs);
  const memory::desc weight = Any(product.outputs, product.inputs);
  const memory::desc output = Any(product.samples, product.outputs);
  const Forward::primitive_desc forward({dnnl::prop_kind::forward_training, input, weight, output},
                                        call->engine);
  switch (product.kind) {
    case Product::Kind::kForward:
      call->Give(DNNL_ARG_SRC, forward.src_desc());
      call->Give(DNNL_ARG_WEIGHTS, forward.weights_desc());
      call->Give(DNNL_ARG_DST, forward.dst_desc());
      call->primitive = Forward(forward);
      break;
    case Product::Kind::kWeight: {
      const dnnl::inner_product_backward_weights::primitive_desc backward({input, weight, output},
                                                                          call->engine, forward);
      call->Give(DNNL_ARG_SRC, backward.src_desc());
      call->Give(DNNL_ARG_DIFF_DST, backward.diff_dst_desc());
      call->Give(DNNL_ARG_DIFF_WEIGHTS, backward.diff_weights_desc());
      call->primitive = dnnl::inner_product_backward_weights(backward);
      break;
    }
    case Product::Kind::kInput: {
      const dnnl::inner_product_backward_data::primitive_desc backward({input, weight, output},
                                                                       call->engine, forward);
      call->Give(DNNL_ARG_DIFF_DST, backward.diff_dst_desc());
      call->Give(DNNL_ARG_WEIGHTS, backward.weights_desc());
      call->Give(DNNL_ARG_DIFF_SRC, backward.diff_src_desc());
      call->primitive = dnnl::inner_product_backward_data(backward);
      break;
    }
  }
  return [call, threads] {
    omp_set_num_threads(static_cast<int>(threads));
    call->primitive.execute(call->stream, call->arguments);
    call->stream.wait();
    omp_set_num_threads(1);  // As our own product wants it.
  };
}

}  // namespace simurgh::bench
