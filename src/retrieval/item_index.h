#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// An item that a search has found.
struct FoundItem {
  uint32_t position = 0;  // Number of its row, from 0.
  float score = 0;        // Dot product with the query.

  bool operator==(const FoundItem&) const = default;
};

// Returns whether `a` comes before `b` in an answer.
inline bool IsBetter(const FoundItem& a, const FoundItem& b) {
  return a.score != b.score ? a.score > b.score : a.position < b.position;
}

// The items that a search may return.
struct ItemFilter {
  std::span<const uint64_t> allowed = {};   // A bit for each position; empty: all are allowed.
  std::span<const uint32_t> excluded = {};  // Positions in ascending order.

  bool Admits(uint32_t position) const;
};

// The vectors of items, and searches for those with the highest dot product with a query.
//
// An exact search computes all products. A search of int8 computes all products of rounded vectors,
// then those of the best kCandidates * k items in f32. A graph of neighbours finds most of the best
// items with few products.
// Source of the graph: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor
// search using hierarchical navigable small world graphs", TPAMI 2020; the library hnswlib.
//
// Threads: immutable; shared.
class ItemIndex {
 public:
  enum class Precision { kF32, kInt8 };

  struct Options {
    Precision precision = Precision::kF32;
    // Number of items from which a graph answers searches. 0: none has a graph. Searches with
    // ItemFilter::allowed are without it.
    uint64_t graph_from = 0;
    size_t graph_links = 16;     // Neighbours of an item, hnswlib's M.
    size_t graph_effort = 200;   // Candidates while the graph is built, hnswlib's ef_construction.
    size_t search_effort = 200;  // Least candidates of a search, hnswlib's ef.
    uint32_t threads = 1;        // Threads that build the graph; its links depend on their order.
    const std::atomic<bool>* ends = nullptr;  // Ends Create() early, with CANCELLED.
  };

  static constexpr size_t kCandidates = 4;

  // vectors: (N, dim), row by row; N may be 0.
  // Errors: INVALID_ARGUMENT for a vector that is not finite, naming its position;
  // RESOURCE_EXHAUSTED without memory.
  static StatusOr<ItemIndex> Create(std::vector<float> vectors, size_t dim, const Options& options);
  static StatusOr<ItemIndex> Create(std::vector<float> vectors, size_t dim) {
    return Create(std::move(vectors), dim, Options());
  }
  ~ItemIndex();
  ItemIndex(ItemIndex&&) noexcept;
  ItemIndex& operator=(ItemIndex&&) noexcept;

  size_t size() const { return vectors_.size() / dim_; }
  size_t dim() const { return dim_; }
  MatrixView<const float> vectors() const { return {vectors_.data(), size(), dim_}; }
  bool has_graph() const { return graph_ != nullptr; }
  uint64_t bytes() const;

  // Returns for each query, (Q, dim), the k admitted items of the highest scores, the highest
  // first, equal ones in the order of positions. Fewer, if fewer are admitted. Items whose score is
  // not finite are left out. Scores are products in f32. Computes on the calling thread.
  // Memory: a block of scores for a few queries; see ScoreBlocks().
  // Errors: INVALID_ARGUMENT for a query that is not finite; INTERNAL when oneDNN fails.
  StatusOr<std::vector<std::vector<FoundItem>>> Search(MatrixView<const float> queries, size_t k,
                                                       const ItemFilter& filter = {}) const;

 private:
  class Graph;
  ItemIndex(std::vector<float> vectors, size_t dim);

  // Drops the graph if it misses many of the best items for some items' own vectors.
  Status CheckGraph();
  void Round();
  Status SearchRounded(MatrixView<const float> queries, size_t k, const ItemFilter& filter,
                       std::span<std::vector<FoundItem>> found) const;
  Status SearchExactly(MatrixView<const float> queries, size_t k, const ItemFilter& filter,
                       std::span<std::vector<FoundItem>> found) const;
  // Replaces the scores by products in f32, and keeps the best k.
  void Rerank(std::span<const float> query, size_t k, std::vector<FoundItem>& found) const;

  size_t dim_;
  std::vector<float> vectors_;
  std::vector<int8_t> rounded_;  // (N, dim); empty with f32.
  std::vector<float> scales_;    // Indexed by item: factors of rounded_.
  std::unique_ptr<const Graph> graph_;
};

}  // namespace simurgh
