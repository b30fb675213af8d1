#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace simurgh::bench {

// Calls `work(thread)` on so many threads at once, one of them the caller's, each on a core of its
// own; answers the seconds from the common start to the last one's end.
double SecondsOf(size_t threads, const std::function<void(size_t)>& work);

double Median(std::vector<double> values);

// One thing that is measured again and again, in turns with others: so a machine that slows down
// slows down all of them, and ratios are those of neighbours in time.
struct Measurement {
  std::string name;
  size_t threads = 1;
  int limit = -1;                  // Index of the measurement that bounds this one; -1: none.
  std::function<double()> run;     // Answers rows a second.
  std::vector<double> rates = {};  // One a turn.
};

// Runs all of them in order, so often.
void RunTurns(std::vector<Measurement>& measurements, size_t turns);

// The median over turns of `rates` / `other.rates`.
double MedianRatio(const Measurement& measurement, const Measurement& other);

}  // namespace simurgh::bench
