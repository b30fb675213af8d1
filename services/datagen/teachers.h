#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "simurgh/data/generator.h"

namespace simurgh {

// What writes the samples.
enum class Teacher {
  kClicks,    // simurgh/data/generator.h
  kSequence,  // An item and the items seen before, whose labels need target attention.
  kExperts    // Two labels that need a mixture of experts.
};

// Lines of a file. Sample n is a function of the seed and n.
//
// Threads: any.
struct SampleWriter {
  std::string header;  // The file's first line, with its end; empty: none.
  uint64_t distinct_ids = 0;
  // Appends sample `number` as a line. additive_logit and dense_logit are NaN: these teachers have
  // no such parts.
  std::function<GeneratedSample(uint64_t number, std::string& text)> append;
};

// `item,seen,label`. Items come in 50 series of two parts; `seen` has 5 to 20 items. The log-odds
// are 2.5 for each seen first part of the item's series, less 2.5 for each second part. So the sum
// of the seen items tells nothing without the item, and most of them are of other series.
SampleWriter SequenceTeacher(uint64_t seed);

// `segment,x1,...,x8,y1,y2`. Each of 8 experts is a product of two linear functions of the numbers.
// Each of 256 segments has an expert for each label, whose value is the label's log-odds.
SampleWriter ExpertsTeacher(uint64_t seed);

}  // namespace simurgh
