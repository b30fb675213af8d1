#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "data/batch/batch.h"
#include "data/reading/row_batcher.h"
#include "nn/dense_model.h"
#include "predict/model_version.h"

namespace simurgh {

// Rows to predict, column by column.
struct ScoreRequest {
  size_t rows = 0;
  // Asks for the vectors of the rows' users instead of predictions. Columns of items may be empty.
  bool user_vectors = false;
  // Indexed like RowFormat::columns: a value for each row, or one that all rows share. An empty
  // vector: the value is missing in all rows.
  std::vector<std::vector<Cell>> columns;
  std::shared_ptr<const void> memory;  // Keeps the texts and lists of the cells.
};

// A row that was not predicted.
struct RowProblem {
  size_t row = 0;       // Counted from 0.
  std::string message;  // Names column, value and remedy.
};

// The predictions of a request.
struct ScoredRows {
  // (rows, labels), row by row; for user_vectors (rows, ModelVersion::vector_width()). NaN in bad
  // rows.
  std::vector<float> probabilities;
  // Step of the version that was used, if it is not the version that was asked for.
  std::optional<uint64_t> step;
  size_t bad_rows = 0;
  std::vector<RowProblem> problems;  // The first kMaxProblems bad rows.

  static constexpr size_t kMaxProblems = 10;

  void AddProblem(size_t row, std::string message) {
    if (++bad_rows <= kMaxProblems) problems.push_back({row, std::move(message)});
  }
};

// Predicts with the versions of a model, on the calling thread. Gives the probabilities of the
// trainer's evaluation to 1e-6. Holds no version between calls.
//
// Threads: one owner.
class Predictor {
 public:
  struct Options {
    bool ignore_labels = true;         // See ReadOptions.
    const DataConfig* data = nullptr;  // Format of lines of rows; null: that of the training.
    bool counts_ids = false;           // Needed for id_counts().
  };

  // Errors: those of RowBatcher::Create().
  static StatusOr<Predictor> Create(const ModelVersion& model, const Options& options);
  static StatusOr<Predictor> Create(const ModelVersion& model) { return Create(model, {}); }
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  // Returns whether the version processes features as that of Create() does. The calls below
  // require it.
  bool Fits(const ModelVersion& model) const;

  // Turns rows into a batch for Predict().
  RowBatcher& rows();

  // Predicts a batch. batch: built by rows(); gets the masks of raw features. probabilities:
  // (batch.size(), labels), overwritten. NaN where weights or inputs are too large.
  // Errors: those of DensePredictor; those of RemoteRows::Read(), if servers have the rows.
  Status Predict(const ModelVersion& model, Batch& batch, std::vector<float>& probabilities);

  // Computes vectors of a batch's users or items, whose dot product is the prediction: see
  // DensePredictor::Vectors(). vectors: (batch.size(), model.vector_width()), overwritten.
  // Requires: model.vector_width() > 0. Errors: those of Predict().
  Status Vectors(const ModelVersion& model, TowerSide side, Batch& batch,
                 std::vector<float>& vectors);

  // Replaces outputs of the model's network by predictions: calibrated, and in the unit of the
  // label. outputs: (samples, labels).
  void MakePredictions(const ModelVersion& model, std::vector<float>& outputs) const;

  // Sets what a network reads of a batch: the embeddings (B, embedding width), pooled as in
  // training. batch: built by rows(); gets the masks of raw features behind its dense columns.
  // Lifetime of the embeddings: until the next call. Errors: those of RemoteRows::Read().
  StatusOr<MatrixView<const float>> Embeddings(const ModelVersion& model, Batch& batch);
  // Sets them in memory of the caller.
  Status SetEmbeddings(const ModelVersion& model, Batch& batch, MatrixView<float> matrix);

  // Reads rows of a table by id. Shape: weights (ids, dim), zeros for an id without a row; found
  // (ids), 1 or 0. Errors: those of RemoteRows::Read().
  Status Rows(const ModelVersion& model, uint32_t table, std::span<const uint64_t> ids,
              std::span<float> weights, std::span<uint8_t> found);

  // Predicts the rows of requests as few batches. scored: one for each request. Requires: all
  // requests ask for the same, predictions or vectors.
  // Errors: those of Predict() and RowBatcher::Build(); FAILED_PRECONDITION of a plug-in.
  Status Score(const ModelVersion& model, std::span<const ScoreRequest* const> requests,
               std::span<ScoredRows> scored);

  // Counts since the creation: distinct ids of batches without a row, by table; missing cells of
  // requests, by column.
  std::span<const uint64_t> unseen_ids() const;
  std::span<const uint64_t> missing_cells() const;

  // Counts since the creation, by feature of the configuration. Empty without counts_ids.
  struct IdCount {
    uint64_t occurrences = 0;
    uint64_t unseen = 0;  // Occurrences of ids without a row.
    uint64_t rows = 0;
    uint64_t empty_rows = 0;  // Rows without an id.
  };
  std::span<const IdCount> id_counts() const;

 private:
  struct State;
  explicit Predictor(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
