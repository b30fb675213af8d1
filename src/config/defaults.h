#pragma once

#include <cstddef>
#include <cstdint>

#include "config/table_config.h"
#include "config/training_config.h"

// Defaults that depend on other settings. What `simurgh init` writes follows the same rules.
namespace simurgh {

// Returns the learning rate of an optimizer whose rate is not given.
float DefaultRate(SparseOptimizerConfig::Kind kind);
float DefaultRate(DenseOptimizerConfig::Kind kind);

// Returns the initial rows and the optimizer of a table that names none.
TableConfig DefaultTable();

// Factor of the rates of tables: a step changes the sum over all features' rows. Their number
// multiplies it, so that many features need smaller steps.
double RateFactor(size_t features);
// Factor of the deviation of initial rows, of which the second order multiplies each pair.
double DeviationFactor(size_t features);

// Rates and sizes of one training, by the number of its rows.
struct Course {
  uint64_t below;  // The course is for fewer rows than these.
  uint32_t batch_size;
  uint32_t epochs;              // Most epochs, with evaluations of `data.validation`.
  uint32_t patience;            // Early stopping ends after these epochs.
  uint32_t epochs_unchecked;    // Epochs without validation.
  double rate;                  // Factor of all learning rates but `rare_rate`.
  double rare_rate;             // The rate of vectors of features with many values.
  bool are_all_rare;            // Vectors of all features have `rare_rate`.
  bool falls_with_rare_values;  // The rate of dense weights falls if a feature has rare values.
};
const Course& CourseFor(uint64_t rows);
// Returns the course for an unknown number of rows.
const Course& UsualCourse();

// Returns the optimizer of first-order weights: FTRL, whose penalty keeps those of rare ids near
// zero. Gradients are means over a step's samples, and so are the constants. rate: factor.
SparseOptimizerConfig FirstOrderOptimizer(uint64_t samples, double rate);

}  // namespace simurgh
