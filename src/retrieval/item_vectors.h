#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "retrieval/tower_data.h"

#include "base/status.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Returns the vectors of a batch's users or items, (B, D). The dot product of a user's and an
// item's vector is the model's prediction: users' vectors are divided by the temperature, items'
// are as the tower gives them, of length 1 with `normalize`.
// batch: built by predictor.rows(). Lifetime: until the next call of the predictor; `memory` has
// the numbers.
// Errors: those of Predictor::Predict() and TowerOf(); INVALID_ARGUMENT for a vector that is not
// finite, naming its row in the batch, counted from 0.
StatusOr<MatrixView<const float>> VectorsOf(const ModelVersion& version, Predictor& predictor,
                                            Batch& batch, TowerSide side,
                                            std::vector<float>& memory);

// Returns the width of the vectors. Errors: those of TowerOf().
StatusOr<size_t> VectorWidth(const ClusterConfig& config);

// Rows of files whose vectors are wanted.
struct VectorInput {
  TowerSide side = TowerSide::kItem;
  std::vector<std::string> files;
  std::vector<std::string> texts = {};      // Columns whose texts are wanted, too.
  const std::atomic<bool>* ends = nullptr;  // Ends the reading early, with CANCELLED; may be null.
};

struct VectorRows {
  MatrixView<const float> vectors;     // (rows, D)
  std::span<const std::string> texts;  // (rows, VectorInput::texts), row by row.
};

// Calls visit(rows) for pieces of the rows, in order. data: the format of the files, with the
// columns of the model. unseen: if not null, gets the number of ids without a row in the model, by
// feature.
// Errors: those of DataOfTower(), VectorsOf() and `visit`; INVALID_ARGUMENT for a bad row.
Status ForEachVector(const ModelVersion& version, const DataConfig& data, const VectorInput& input,
                     absl::FunctionRef<Status(const VectorRows& rows)> visit,
                     std::vector<uint64_t>* unseen = nullptr);

// All items of a model of two towers, as of one version.
struct ItemVectors {
  ItemIds ids;  // N items.
  size_t dim = 0;
  std::vector<float> vectors;  // (N, dim), row by row.
  // Texts of the wanted columns: one list of N for each.
  std::vector<std::vector<std::string>> columns = {};
  // Items whose id has no row in the model: their vectors follow from their other columns alone.
  uint64_t without_row = 0;

  size_t size() const { return ids.size(); }
  MatrixView<const float> matrix() const { return {vectors.data(), size(), dim}; }
};

// Reads items. data: the format of the files, with the columns of the model. id: column whose text
// names an item. columns: further columns whose texts are wanted.
// Memory: the vectors, and the texts.
// Errors: those of ForEachVector() and ItemIds::Add(); INVALID_ARGUMENT without an item.
// Threads: any.
StatusOr<ItemVectors> ReadItemVectors(const ModelVersion& version, const DataConfig& data,
                                      const std::vector<std::string>& files, const std::string& id,
                                      const std::vector<std::string>& columns = {},
                                      const std::atomic<bool>* ends = nullptr);

}  // namespace simurgh
