#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/data/generator.h"

namespace simurgh {

// Labels of generated samples, with the scores of the teacher and of its parts.
struct Verdicts {
  std::vector<std::vector<float>> labels;   // Per label, by sample.
  std::vector<std::vector<float>> teacher;  // Likewise.
  std::vector<float> additive;
  std::vector<float> dense;

  void Add(const GeneratedSample& sample);
  void Append(const Verdicts& other);
};

// Counts and AUCs, as lines of a name and a number or as one line of JSON. An undefined number,
// such as the AUC of one class, is "nan" or, in JSON, null.
std::string Report(const Verdicts& verdicts, uint64_t samples, uint64_t positives,
                   uint64_t distinct_ids, bool json);

}  // namespace simurgh
