#pragma once

#include <string>

#include "tests/support/temporary_folder.h"

namespace simurgh::testing {

// Writes data and a configuration of them, and answers its path. Samples are lists of 0 to 7 ids;
// the label is whether there are 3 or more, which nothing tells but the masks of the lists: their
// ids are random, and rows begin as zeros and next to never change.
// input: of the only tower.
std::string WriteListLengths(const TemporaryFolder& folder, const std::string& input);

}  // namespace simurgh::testing
