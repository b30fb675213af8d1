#pragma once

#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "simurgh/simurgh.h"

namespace simurgh {

// The arrays of a simurgh_inputs.
//
// Threads: immutable after the constructor.
class InputsView {
 public:
  // has_masks: whether the dense columns have the masks of raw features. Lifetime: `config`
  // outlives the view.
  InputsView(const ClusterConfig& config, uint32_t rank, bool has_masks);
  InputsView(const InputsView&) = delete;
  InputsView& operator=(const InputsView&) = delete;

  const simurgh_inputs& get() const { return inputs_; }
  // Returns whether a network that reads these inputs can read those of another configuration:
  // names, order and widths of all arrays are equal.
  bool Fits(const InputsView& other) const;

 private:
  std::vector<simurgh_feature> features_;
  std::vector<std::string> dense_names_;
  std::vector<const char*> dense_columns_;
  std::vector<const char*> labels_;
  std::vector<const char*> losses_;
  simurgh_inputs inputs_ = {};
};

}  // namespace simurgh
