#include "services/simurgh/checkpoint_choice.h"

#include <cstdint>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"

namespace simurgh {

void CheckpointChoice::AddTo(boost::program_options::options_description& options) {
  namespace po = boost::program_options;
  options.add_options()("model", po::value(&model)->value_name("MODEL"),
                        "read this model's folder")(
      "step", po::value(&step)->value_name("N"),
      "use the checkpoint of step N, or with `latest` the newest, not the best one");
}

StatusOr<Checkpoint> CheckpointChoice::Find() const {
  ModelDirectory directory(model);
  if (!step.empty() && step != "latest") {
    uint64_t number = 0;
    if (absl::SimpleAtoi(step, &number)) return directory.Open(number);
    return OptionProblem(
        absl::StrCat("--step: '", step, "' is not a number from 0 on, nor latest"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, directory.BestStep());
  if (best && step.empty()) {
    StatusOr<Checkpoint> checkpoint = directory.Open(*best);
    if (checkpoint.ok()) return checkpoint;
    return Annotate(checkpoint.status(), "the best checkpoint, use another --step");
  }
  SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest newest, directory.Latest());
  for (const std::string& warning : newest.warnings) {
    std::cerr << "simurgh: warning: " << warning << "\n";
  }
  return std::move(newest.checkpoint);
}

}  // namespace simurgh
