#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/data/generator.h"

namespace simurgh {

// First labels of generated samples, what the teacher and its parts say of them, and other labels.
struct Verdicts {
  // Of one further label.
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

// What has been written, and how well it can be learned: lines of a name and a number, or one of
// JSON. A number that does not exist, such as the AUC of one class, is "nan", in JSON null.
std::string Report(const Verdicts& verdicts, uint64_t samples, uint64_t positives,
                   uint64_t distinct_ids, bool json);

}  // namespace simurgh
