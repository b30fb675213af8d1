#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/table/growth.h"
#include "bench/micro/table/rounds.h"

namespace simurgh::bench {

// Prints what was measured: a table for people, or one JSON object a line.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  // The table of the next lines.
  struct Subject {
    uint32_t dim = 0;
    std::string precision;
    std::string optimizer;
    uint64_t rows = 0;
  };
  void Begin(const Subject& subject);

  // Adds a line for each. bytes_per_row: memory of the table per row; 0 if not applicable.
  void Add(const std::vector<Measurement>& measurements, std::string_view distribution,
           double bytes_per_row);

  // A line for the times of requests that make a table grow.
  void AddGrowth(const Growth& growth);

  // Left out of JSON.
  void Note(const std::string& text);

 private:
  bool json_;
  Subject subject_;
};

}  // namespace simurgh::bench
