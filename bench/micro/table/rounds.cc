#include "bench/micro/table/rounds.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include <pthread.h>
#include <sched.h>

namespace simurgh::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Does nothing where the process may not run on that core.
void PinTo(size_t core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core % std::max(1U, std::thread::hardware_concurrency()), &cores);
  pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

}  // namespace

double SecondsOf(size_t threads, const std::function<void(size_t)>& work) {
  std::vector<Clock::time_point> ends(threads);
  Clock::time_point begin;
  if (threads == 1) {
    begin = Clock::now();
    work(0);
    ends[0] = Clock::now();
  } else {
    std::barrier start(static_cast<ptrdiff_t>(threads), [&]() noexcept { begin = Clock::now(); });
    std::vector<std::jthread> running;
    for (size_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        PinTo(thread);
        start.arrive_and_wait();
        work(thread);
        ends[thread] = Clock::now();
      });
    }
  }
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) - begin).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void RunTurns(std::vector<Measurement>& measurements, size_t turns) {
  for (size_t turn = 0; turn < turns; ++turn) {
    for (Measurement& measurement : measurements) measurement.rates.push_back(measurement.run());
  }
}

double MedianRatio(const Measurement& measurement, const Measurement& other) {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < measurement.rates.size(); ++turn) {
    ratios.push_back(measurement.rates[turn] / other.rates[turn]);
  }
  return Median(std::move(ratios));
}

}  // namespace simurgh::bench
