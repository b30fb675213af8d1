#pragma once

#include <dnnl.hpp>

namespace simurgh::cpu {

// The CPU as oneDNN sees it. Threads: any.
inline const dnnl::engine& DnnlEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN 2 gathers the operands of a primitive in a descriptor of its own; oneDNN 3 does not.
#if DNNL_VERSION_MAJOR < 3

template <typename Primitive, typename... Operands>
typename Primitive::primitive_desc DescribePrimitive(const dnnl::primitive_attr& attributes,
                                                     const Operands&... operands) {
  return {typename Primitive::desc(operands...), attributes, DnnlEngine()};
}

inline void AppendRelu(dnnl::post_ops& after) {
  after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

#else

template <typename Primitive, typename... Operands>
typename Primitive::primitive_desc DescribePrimitive(const dnnl::primitive_attr& attributes,
                                                     const Operands&... operands) {
  return {DnnlEngine(), operands..., attributes};
}

inline void AppendRelu(dnnl::post_ops& after) {
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

#endif

}  // namespace simurgh::cpu
