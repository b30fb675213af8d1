#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/file.h"
#include "config/sections.h"

namespace simurgh {
namespace {

void ReadTimes(MapReader& in, CheckpointConfig* checkpoint) {
  in.Integer("every_steps", "number of steps between checkpoints while training; 0: not by steps",
             &checkpoint->every_steps, 0, uint64_t{1} << 40);
  std::vector<std::string> steps;
  in.Texts("at_steps", "numbers of trained steps after which a checkpoint is saved", &steps,
           {0, 1'000}, Need::kOptional, "numbers of steps", [](const std::string& text) {
             uint64_t step = 0;
             return absl::SimpleAtoi(text, &step) && step > 0 ? "" : "is no number of steps";
           });
  for (const std::string& text : steps) {
    uint64_t step = 0;
    if (absl::SimpleAtoi(text, &step)) checkpoint->at_steps.insert(step);
  }
  in.Duration("every", "time between checkpoints while training; 0ms: not by time",
              &checkpoint->every, std::chrono::milliseconds(0), std::chrono::hours(24 * 7));
}

}  // namespace

void ReadCheckpoint(MapReader& root, const std::string& folder, CheckpointConfig* checkpoint) {
  root.Map("checkpoint", [&](MapReader& in) {
    std::string& directory = checkpoint->directory;
    in.Text("directory",
            "folder in which training saves its model, and from which it continues; none: nothing "
            "is saved",
            &directory, "path of a folder");
    ReadTimes(in, checkpoint);
    in.Integer("keep", "number of checkpoints to keep; older ones are removed after a save",
               &checkpoint->keep, 1, 1'000'000);
    in.Integer("full_every",
               "every N-th checkpoint has all rows, the others those that changed since the one "
               "before; 1: all are full",
               &checkpoint->full_every, 1, 1'000'000);
    in.Integer("keep_best",
               "number of checkpoints with the best evaluations to keep, too; requires evaluations "
               "of `data.validation` while training, see Best checkpoint",
               &checkpoint->keep_best, 0, 1'000);
    ReadMetric(in, "best_by", "metric of the best checkpoints; with `early_stopping`, its `metric`",
               &checkpoint->best_by);
    in.Integer("memory",
               "maximum bytes per server for rows that change before they are saved; "
               "beyond it, pulls wait for the disk",
               &checkpoint->memory, uint64_t{64} << 10, uint64_t{1} << 50);
    in.Integer("bandwidth",
               "maximum bytes per second that a server writes to checkpoints; ignored while pulls "
               "wait for `memory`; 0: no limit",
               &checkpoint->bandwidth, 0, uint64_t{1} << 50);
    in.Choice("on_error", "whether training continues after a checkpoint could not be saved",
              &checkpoint->on_error,
              {{"continue", CheckpointConfig::OnError::kContinue},
               {"stop", CheckpointConfig::OnError::kStop}});
    in.Choice("on_server_loss",
              "whether the loss of a server's rows rolls back the training, or only these rows, "
              "see Lost servers",
              &checkpoint->on_server_loss,
              {{"rollback", CheckpointConfig::OnServerLoss::kRollback},
               {"partial", CheckpointConfig::OnServerLoss::kPartial}});
    in.OnlyWith(!directory.empty(), "set directory",
                {"every_steps", "at_steps", "every", "on_server_loss"});
    if (directory.empty()) return;
    if (directory.starts_with("~")) {
      in.Error("directory", absl::StrCat("'", directory, "' begins with ~, which is not expanded"),
               "write out the path of the home folder");
    }
    directory = PathIn(folder, directory);
  });
}

}  // namespace simurgh
