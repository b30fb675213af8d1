#include "services/embedding_ps/dense_shard.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "config/service_config.h"
#include "tensor/finite.h"

namespace simurgh {

StatusOr<DenseShard::Run*> DenseShard::Find(uint64_t run, size_t length, bool of_state) {
  const auto found = std::ranges::find(runs_, run, &Run::run);
  if (found == runs_.end()) {
    return absl::DataLossError(
        "dense weights: the server has no weights of this run, because it was restarted or newer "
        "runs have started; restart all nn-workers");
  }
  const size_t own =
      of_state ? found->optimizer.state().size() : found->optimizer.parameters().size();
  if (own != length) {
    return absl::InvalidArgumentError(absl::StrCat("dense weights: a range of ", length,
                                                   " numbers, the server has ", own,
                                                   "; use the same model for all nn-workers"));
  }
  return &*found;
}

StatusOr<DenseAnswer> DenseShard::Start(const StartDenseCall& call) {
  if (call.parameters.size() > kMaxFloats) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense weights: a range of ", call.parameters.size(),
                     " numbers; a server holds at most ", kMaxFloats));
  }
  if (std::ranges::find(runs_, call.run, &Run::run) == runs_.end()) {
    SIMURGH_RETURN_IF_ERROR(DenseOptimizer::Check(call.optimizer));
    const size_t state = DenseOptimizer::StateSize(call.optimizer, call.parameters.size());
    if (!call.state.empty() && call.state.size() != state) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dense weights: an optimizer's state of ", call.state.size(), " numbers for a range of ",
          call.parameters.size(), ", which needs ", state));
    }
    if (runs_.size() == kMaxRuns) runs_.pop_back();
    runs_.emplace_front(call.run, call.optimizer, call.parameters, call.state);
  }
  SIMURGH_ASSIGN_OR_RETURN(const Run* run, Find(call.run, call.parameters.size()));
  return DenseAnswer{.version = run->version};
}

StatusOr<DenseAnswer> DenseShard::Pull(const PullDenseCall& call) {
  SIMURGH_ASSIGN_OR_RETURN(const Run* run, Find(call.run, call.values.size(), call.state));
  std::ranges::copy(call.state ? run->optimizer.state() : run->optimizer.parameters(),
                    call.values.begin());
  return DenseAnswer{.version = run->version};
}

StatusOr<DenseAnswer> DenseShard::Push(const PushDenseCall& call) {
  SIMURGH_ASSIGN_OR_RETURN(Run * run, Find(call.run, call.gradients.size()));
  if (call.rank >= kMaxRanks || !std::isfinite(call.learning_rate) || call.learning_rate < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dense weights: a push of rank ", call.rank, " with learning rate ", call.learning_rate,
        " is out of range; use ranks below ", kMaxRanks, " and rates >= 0"));
  }
  if (run->ranks.size() <= call.rank) run->ranks.resize(call.rank + 1);
  Rank& rank = run->ranks[call.rank];
  if (call.number > rank.pushes || call.base_version > run->version) {
    return absl::DataLossError(absl::StrCat(
        "dense weights: push ", call.number, " of rank ", call.rank, " on version ",
        call.base_version, ", the server has applied ", rank.pushes, " and is at version ",
        run->version, ", so it was restarted; restart all nn-workers"));
  }
  if (call.number + 1 < rank.pushes) {
    return absl::InvalidArgumentError(absl::StrCat("dense weights: push ", call.number, " of rank ",
                                                   call.rank, " is older than push ",
                                                   rank.pushes - 1));
  }
  if (call.number + 1 == rank.pushes) {
    rank.last.repeated = true;
  } else {
    if (AllUsable(call.gradients)) {
      run->optimizer.Step(call.learning_rate, call.gradients);
    } else {
      on_not_finite_(call);
    }
    rank.last = {.gap = run->version - call.base_version};
    ++run->version;
    ++rank.pushes;
  }
  rank.last.version = run->version;
  std::ranges::copy(run->optimizer.parameters(), call.parameters.begin());
  return rank.last;
}

size_t DenseShard::longest() const {
  size_t longest = 0;
  for (const Run& one : runs_) {
    longest = std::max({longest, one.optimizer.parameters().size(), one.optimizer.state().size()});
  }
  return longest;
}

}  // namespace simurgh
