#pragma once

#include <string>

#include "bench/micro/nn_cuda/copies.h"
#include "bench/micro/nn_cuda/layer_products.h"
#include "bench/micro/nn_cuda/steps.h"

namespace simurgh::bench {

// Prints lines of a table, or JSON objects.
class NnCudaReport {
 public:
  NnCudaReport(bool json, const CopyRates& copies);

  // Sets the precision of the next lines. peak: TFLOP/s.
  void Begin(const std::string& precision, double peak);
  void Add(const Subject& subject, size_t batch, const PartTime& time);
  void Add(const Subject& subject, size_t batch, const StepTime& time);

 private:
  struct Line;
  void Print(const Subject& subject, size_t batch, const Line& line) const;

  const bool json_;
  const CopyRates copies_;
  std::string precision_;
  double peak_ = 0;
};

}  // namespace simurgh::bench
