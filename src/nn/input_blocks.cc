#include "nn/input_blocks.h"

#include <iterator>
#include <set>

namespace simurgh {
namespace {

using Source = TowerInput::Source;

// Merges neighbours that are also neighbours in the embeddings, to copy them at once.
std::vector<TowerInput> Merged(const std::vector<TowerInput>& inputs) {
  std::vector<TowerInput> merged;
  for (const TowerInput& input : inputs) {
    const bool continues = !merged.empty() && input.source == Source::kEmbeddings &&
                           merged.back().source == Source::kEmbeddings &&
                           merged.back().source_column + merged.back().width == input.source_column;
    if (continues) {
      merged.back().width += input.width;
    } else {
      merged.push_back(input);
    }
  }
  return merged;
}

// edges: embedding columns at which any tower's block begins or ends.
std::vector<TowerInput> Cut(const std::vector<TowerInput>& inputs, const std::set<size_t>& edges) {
  std::vector<TowerInput> blocks;
  for (TowerInput rest : inputs) {
    if (rest.source == Source::kEmbeddings) {
      const size_t end = rest.source_column + rest.width;
      for (auto edge = edges.upper_bound(rest.source_column); *edge < end; ++edge) {
        TowerInput block = rest;
        block.width = *edge - rest.source_column;
        blocks.push_back(block);
        rest.source_column += block.width;
        rest.column += block.width;
        rest.width -= block.width;
      }
    }
    blocks.push_back(rest);
  }
  return blocks;
}

void FindLastReaders(std::vector<TowerPlan>& towers) {
  for (size_t t = 0; t < towers.size(); ++t) {
    for (TowerInput& input : towers[t].inputs) {
      for (size_t later = t + 1; later < towers.size(); ++later) {
        for (const TowerInput& other : towers[later].inputs) {
          if (input.source == other.source && input.tower == other.tower &&
              input.source_column == other.source_column) {
            input.last_reader = false;
          }
        }
      }
    }
  }
}

}  // namespace

void PlanInputBlocks(ModelPlan& plan) {
  std::set<size_t> edges;
  for (TowerPlan& tower : plan.towers) {
    tower.inputs = Merged(tower.inputs);
    for (const TowerInput& input : tower.inputs) {
      if (input.source != Source::kEmbeddings) continue;
      edges.insert(input.source_column);
      edges.insert(input.source_column + input.width);
    }
  }
  std::set<size_t> read;  // First columns of the blocks.
  for (TowerPlan& tower : plan.towers) {
    tower.inputs = Cut(tower.inputs, edges);
    for (const TowerInput& input : tower.inputs) {
      if (input.source == Source::kEmbeddings) read.insert(input.source_column);
    }
  }
  FindLastReaders(plan.towers);

  edges.insert({0, plan.embedding_width});
  for (auto edge = edges.begin(); std::next(edge) != edges.end(); ++edge) {
    if (!read.contains(*edge)) {
      plan.unread_embeddings.push_back({*edge, *std::next(edge) - *edge});
    }
  }
}

}  // namespace simurgh
