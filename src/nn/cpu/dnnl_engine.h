#pragma once

#include <dnnl.hpp>

namespace simurgh::cpu {

// The CPU as oneDNN sees it. Threads: any.
inline const dnnl::engine& DnnlEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace simurgh::cpu
