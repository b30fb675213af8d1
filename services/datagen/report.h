#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/data/generator.h"

namespace simurgh {

// Labels of generated samples, with the scores of the teacher and of its parts.
struct Verdicts {
  // A label other than the first.
  struct Other {
    std::vector<float> labels;
    std::vector<float> teacher;
  };

  std::vector<float> labels;
  std::vector<float> teacher;
  std::vector<float> additive;
  std::vector<float> dense;
  std::vector<Other> others;

  void Add(const GeneratedSample& sample);
  void Append(const Verdicts& other);
};

// Counts and AUCs: lines of a name and a number, or one line of JSON. A number that does not exist,
// such as the AUC of one class, is "nan", in JSON null.
std::string Report(const Verdicts& verdicts, uint64_t samples, uint64_t positives,
                   uint64_t distinct_ids, bool json);

}  // namespace simurgh
