#pragma once

#include <cstdint>
#include <thread>

#include "simurgh/train/batch_pipeline.h"
#include "simurgh/train/evaluator.h"

namespace simurgh {

struct LoaderOptions {
  uint32_t passes = 1;
  uint64_t max_batches = 0;  // 0: no limit.
  bool drop_last = false;    // Leave out a last batch of fewer samples than batch_size.
  size_t batch_size = 0;
};

// A thread that reads a data set, as often as told, and feeds it to a pipeline.
//
// Lifetime: the pipeline must outlive this. The destructor stops the pipeline and joins.
class Loader {
 public:
  Loader(OpenReader open, LoaderOptions options, BatchPipeline& pipeline);
  ~Loader();

 private:
  BatchPipeline& pipeline_;
  std::thread thread_;
};

}  // namespace simurgh
