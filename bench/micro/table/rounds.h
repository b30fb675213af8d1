#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace simurgh::bench {

// Calls `work(thread)` on `threads` threads at once, including the caller's, each on its own core.
// Returns the seconds from the common start to the last end.
double SecondsOf(size_t threads, const std::function<void(size_t)>& work);

double Median(std::vector<double> values);

// A measurement that is repeated in turns with others. A slower machine then slows all of them, and
// ratios compare neighbours in time.
struct Measurement {
  std::string name;
  size_t threads = 1;
  int limit = -1;                  // Index of the measurement that bounds this one; -1: none.
  std::function<double()> run;     // Returns rows per second.
  std::vector<double> rates = {};  // One a turn.
};

// Runs all of them in order, `turns` times.
void RunTurns(std::vector<Measurement>& measurements, size_t turns);

// The median over turns of `rates` / `other.rates`.
double MedianRatio(const Measurement& measurement, const Measurement& other);

}  // namespace simurgh::bench
