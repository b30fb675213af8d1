#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace simurgh::testing {

struct TraceSpan {
  int64_t begin = 0;  // Nanoseconds.
  int64_t end = 0;

  bool Overlaps(const TraceSpan& other) const { return begin < other.end && other.begin < end; }
  bool Contains(const TraceSpan& other) const { return begin <= other.begin && other.end <= end; }
};

// By step.
using TraceSpans = std::map<uint64_t, std::vector<TraceSpan>>;

// The spans of a Chrome trace that have a step, by their names.
// What is no JSON of a trace is an exception.
std::map<std::string, TraceSpans> ReadTrace(std::istream& json);

}  // namespace simurgh::testing
