#pragma once

#include <string>

#include "tests/support/temporary_folder.h"

namespace simurgh::testing {

// Writes data and their configuration and returns its path. Samples are lists of 0 to 7 ids,
// labelled 1 from 3 ids on. Only the masks of the lists predict the label: ids are random, and rows
// start at zero and hardly change. input: the input of the only tower.
std::string WriteListLengths(const TemporaryFolder& folder, const std::string& input);

}  // namespace simurgh::testing
