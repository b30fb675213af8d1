#pragma once

#include <string>

#include <boost/program_options/options_description.hpp>

#include "simurgh/base/status.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {

// The options --model and --step of a command.
struct CheckpointChoice {
  // Lifetime: the options must not outlive this object.
  void AddTo(boost::program_options::options_description& options);

  // Without --step, the best checkpoint; without one, the newest. Warnings go to stderr.
  // Errors: INVALID_ARGUMENT for a step that is no number; of ModelDirectory.
  StatusOr<Checkpoint> Find() const;

  std::string model;
  std::string step;
};

}  // namespace simurgh
