#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace simurgh {

// Returns one to three sentences in plain words: how good the predictions are, and how sure that
// is.
std::string HeadlineOf(const Report& report);

// Returns in a sentence or two how validation went, and whether overfitting shows; empty without a
// history.
std::string CourseOf(const Report& report);

// Returns the next steps that follow from a report, the most important first. A rule fires only if
// its evidence is clear: beyond the interval of a sample, and large enough to matter.
//
// id              fires if
// no_better       the loss is not below that of a constant, by the interval of the gain; not for
//                 fewer than 30 rows, or rows of one class
// leak            one column makes up nearly all of a very high AUC
// overfit         the model is later than the best evaluation, and clearly worse than it
// more_epochs     the last evaluation is the best one, and clearly better than the one before
// too_high        predictions are too high on average, by 5 % and by the interval
// too_low         likewise too low
// segment         predictions of a segment are 20 % off, and by four standard errors
// unseen_ids      a tenth of a column's ids has no row in the model
// drift           a column's mean has moved by half a deviation of the training
// needless        permuting columns changes no loss, by their intervals
// few_rows        the interval of the AUC is wider than 0.04, or of the loss than a tenth of it
// skipped_steps   steps of the training were skipped
// waiting         training has waited for embeddings for 40 % of its time, of at least a minute
std::vector<Finding> FindingsOf(const Report& report);

}  // namespace simurgh
