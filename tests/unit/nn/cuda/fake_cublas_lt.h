#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/cuda/gemm_library.h"

namespace simurgh::testing {

// cuBLASLt on host memory: column-major loops behind the same functions. It accepts only what
// NVIDIA's header promises to work, and remembers why it rejected a call.
//
// Threads: one owner.
class FakeCublasLt {
 public:
  // A product that was enqueued.
  struct Product {
    cublasLtEpilogue_t epilogue;
    uint64_t algorithm;  // Index into the answers.
    uint64_t asked;      // Columns of D for which the algorithm was an answer.
    uint64_t rows;       // Of D.
  };

  struct Options {
    bool fuse = true;        // Offer algorithms for products with an epilogue.
    bool fuse_masks = true;  // Also for those that write a relu mask.
    bool takes = true;       // Offer algorithms at all.
    int algorithms = 3;      // Offered for a product.
    // AlgoCheck accepts an algorithm only for the size for which it was an answer.
    bool strict_batches = false;
    // Runs a product's work. Empty: at once.
    std::function<void(std::function<void()> work)> enqueue;
  };

  explicit FakeCublasLt(Options options) : options_(std::move(options)) {}
  FakeCublasLt(const FakeCublasLt&) = delete;
  FakeCublasLt& operator=(const FakeCublasLt&) = delete;

  // The calling thread's next handle belongs to this.
  const cuda::CublasLt& functions();

  // Why calls with a handle were rejected; not those for which no algorithm is offered.
  const std::vector<std::string>& rejections() const { return rejections_; }
  const std::vector<Product>& products() const { return products_; }
  // Handles, descriptors, layouts and preferences of all threads.
  static int LiveObjects();

 private:
  friend struct FakeCalls;

  const Options options_;
  std::vector<std::string> rejections_;
  std::vector<Product> products_;
};

}  // namespace simurgh::testing
