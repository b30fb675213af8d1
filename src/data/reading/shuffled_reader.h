#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/status.h"
#include "config/data_config.h"
#include "data/batch/batch_builder.h"
#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"
#include "data/reading/parsed_blocks.h"

namespace simurgh {

// Opens the rows from a place on, at which a window begins.
using OpenBlocks = std::function<StatusOr<std::unique_ptr<ParsedBlocks>>(const ReadPlace& place)>;

// Reads the rows of a share in batches, those of each window shuffled. A window is parsed while the
// one before it is taken, so that at most two are in memory. Requires options.read with a window.
StatusOr<std::unique_ptr<BatchReader>> OpenShuffledReader(
    const DataConfig& config, OpenBlocks open, const std::function<BatchBuilder()>& make_builder,
    size_t batch_size, const ReadOptions& options, const ReadPlace& from);

}  // namespace simurgh
