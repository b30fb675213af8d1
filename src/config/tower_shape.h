#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "config/model_config.h"

namespace simurgh {

// An input of a tower.
struct InputShape {
  std::string name = {};
  size_t width = 0;
  size_t places = 0;      // Rows of a sequence, side by side; 0: the input is no sequence.
  std::string mask = {};  // Name of the input with the sequence's mask.
};

// What a layer that reads sequences finds in its tower's inputs: a query, then sequences, then the
// mask of the first of them. A row is what the sequences have at one place.
struct SequenceShape {
  size_t width = 0;  // Columns that the layer computes; 0: see `problem`.
  size_t places = 0;
  size_t query_width = 0;
  size_t row_width = 0;
  size_t first = 0;  // Index of the first sequence among the inputs. The last input is the mask.
  std::string problem = {};
  std::string remedy = {};
};

// Requires ReadsSequence(layer).
SequenceShape SequenceShapeOf(const LayerConfig& layer, std::span<const InputShape> inputs);

// The output of a tower as an input of later ones.
struct TowerShape {
  InputShape output;  // Its width is 0 if a layer cannot read its input; see `problem`.
  size_t layer = 0;   // Index of this layer.
  std::string problem = {};
  std::string remedy = {};
};

TowerShape TowerShapeOf(const TowerConfig& tower, std::span<const InputShape> inputs);

// Returns whether the tower is one `dot` of two inputs of one width, a user's and an item's vector,
// which the loss in_batch_softmax needs.
bool IsDotOfTwo(const TowerConfig& tower, std::span<const InputShape> inputs);

// Returns the inputs that no tower computes.
std::vector<InputShape> ModelInputShapes(const ClusterConfig& config);

// Returns the tower's inputs. Requires that `known` has them.
std::vector<InputShape> InputsOf(const TowerConfig& tower, std::span<const InputShape> known);

}  // namespace simurgh
