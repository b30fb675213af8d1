#include "predict/predictor.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "config/statistics.h"
#include "embedding/pooling.h"
#include "embedding/row_codec.h"
#include "embedding/vector_codec.h"
#include "nn/calibration.h"
#include "nn/metrics.h"
#include "predict/program_network.h"
#include "predict/remote_reader.h"
#include "predict/version_rows.h"
#include "tensor/finite.h"

namespace simurgh {
struct Predictor::State {
  State(const ModelVersion& model, RowBatcher row_batcher)
      : shared(model.common_),
        common(*shared),
        batcher(std::move(row_batcher)),
        vectors(common.config.training.embedding_precision, common.layout.vector_dims()),
        unseen(common.config.tables.size()),
        missing(common.format.columns.size()) {
    if (model.parts_->dense != nullptr) dense.emplace(*model.parts_->dense);
    const TrainingConfig& training = common.config.training;
    if (training.embeddings == TrainingConfig::Embeddings::kRows) {
      sent_rows.emplace(training.embedding_precision, common.layout.rows());
    }
    for (const TableConfig& table : common.config.tables) {
      row_codecs.emplace_back(VectorPrecisionOf(common.config.embedding_worker.row_precision),
                              std::vector<uint32_t>{table.dim});
    }
    if (RemoteRows* const servers = common.options.remote.get(); servers != nullptr) {
      remote.emplace(*servers, common.config.tables, common.options.row_precision,
                     common.options.hot_row_bytes);
    }
  }

  // Returns the missing cells of a request's column; 0 for a column that the model ignores.
  uint64_t MissingCells(const ScoreRequest& request, size_t column) const;
  // Adds the batch's ids to `id_counts`. Requires `found`.
  void CountIds(const CompactBatch& batch);
  // Reads the rows of the batch's ids into `rows`, in the precision in which servers send them.
  Status ReadRows(const ModelVersion& model, const CompactBatch& batch);
  // Adds the rows of a request to the next batch. taken: receives the indexes of the added rows.
  Status Add(const ScoreRequest& request, ScoredRows& scored, std::vector<size_t>& taken);
  Status ScoreBatch(Predictor& predictor, const ModelVersion& model,
                    std::span<const ScoreRequest* const> requests, std::span<ScoredRows> scored);
  // Rounds the matrix in place, as sending it in a message does.
  void Round(const VectorCodec& codec, MatrixView<float> matrix) {
    encoded.resize(std::max(encoded.size(), matrix.rows() * codec.row_bytes()));
    const auto bytes = std::span(encoded).first(matrix.rows() * codec.row_bytes());
    codec.Encode(matrix, /*factor=*/1, std::nullopt, bytes);
    codec.Decode(bytes, /*factor=*/1, matrix);
  }
  // Sets the embeddings, (B, width), as they arrive at a trainer.
  void Pool(const CompactBatch& batch, MatrixView<float> matrix);

  const std::shared_ptr<const ModelVersion::Common> shared;
  const ModelVersion::Common& common;
  const std::vector<LabelScale> scales = LabelScalesOf(common.config.data);
  RowBatcher batcher;
  std::optional<DensePredictor> dense;  // Nothing: a program has the network.
  const VectorCodec vectors;            // Encoding of embeddings.
  std::optional<RowCodec> sent_rows;    // Set if trainers get rows and pool them.
  std::vector<VectorCodec> row_codecs;  // Indexed by table.
  std::optional<RemoteReader> remote;   // Set if servers have the rows.
  std::vector<uint64_t> unseen;         // Ids without a row, indexed by table.
  std::vector<uint64_t> missing;        // Missing cells, indexed by column.
  std::vector<IdCount> id_counts;       // Indexed by feature; empty: ids are not counted.
  std::vector<const std::byte*> found;  // The row of each id; null without a row.
  std::vector<uint64_t> positions;      // Place of each id's row in `rows`.
  std::vector<float> rows;
  std::vector<float> embeddings;
  std::vector<std::byte> encoded;
  std::vector<uint32_t> scratch;
  std::vector<float> probabilities;
};

uint64_t Predictor::State::MissingCells(const ScoreRequest& request, size_t column) const {
  if (!common.format.columns[column].is_read) return 0;
  const std::vector<Cell>& cells = request.columns[column];
  if (cells.empty()) return request.rows;
  const auto is_missing = [this](const Cell& cell) {
    const DataConfig& data = common.config.data;
    if (cell.kind != Cell::Kind::kText) return cell.kind == Cell::Kind::kMissing;
    return std::ranges::find(data.missing_values, cell.text) != data.missing_values.end();
  };
  const auto count = static_cast<uint64_t>(std::ranges::count_if(cells, is_missing));
  return cells.size() == 1 ? count * request.rows : count;
}

Status Predictor::State::ReadRows(const ModelVersion& model, const CompactBatch& batch) {
  found.resize(batch.ids.size());
  positions.resize(batch.ids.size());
  size_t floats = 0;
  size_t first_id = 0;
  std::vector<RemoteReader::List> lists;
  std::vector<size_t> feature_of(batch.list_count());
  for (size_t f = batch.feature_count(); f-- > 0;) feature_of[batch.list_of(f)] = f;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const std::span<const uint64_t> ids = batch.list(list);
    const size_t dim = common.layout.dim(feature_of[list]);
    for (size_t i = 0; i < ids.size(); ++i) positions[first_id + i] = floats + i * dim;
    if (remote) {
      lists.push_back({common.layout.features[feature_of[list]].table, ids,
                       std::span(found).subspan(first_id, ids.size())});
    }
    floats += ids.size() * dim;
    first_id += ids.size();
  }
  rows.resize(std::max(rows.size(), floats));
  const ModelVersion::Parts& parts = *model.parts_;
  SIMURGH_RETURN_IF_ERROR(model.damage());
  if (remote) SIMURGH_RETURN_IF_ERROR(remote->Read(model.checksum(), parts.changes, lists));
  first_id = 0;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const std::span<const uint64_t> ids = batch.list(list);
    const uint32_t table = common.layout.features[feature_of[list]].table;
    const TableConfig& config = common.config.tables[table];
    const std::span<const std::byte*> places = std::span(found).subspan(first_id, ids.size());
    if (!remote) parts.tables[table].Find(ids, places, scratch);
    const VectorCodec& codec = row_codecs[table];
    const bool rounds = codec.precision() != VectorPrecision::kF32 &&
                        codec.precision() != VectorPrecisionOf(config.precision);
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::span<float> row = std::span(rows).subspan(positions[first_id + i], config.dim);
      if (places[i] == nullptr) {
        std::ranges::fill(row, 0.0F);
        ++unseen[table];
        continue;
      }
      common.encodings[table].Widen(places[i], row);
      if (!rounds) continue;
      Round(codec, MatrixView<float>(row.data(), 1, row.size()));
    }
    first_id += ids.size();
  }
  return absl::OkStatus();
}

void Predictor::State::CountIds(const CompactBatch& batch) {
  for (size_t f = 0; f < id_counts.size(); ++f) {
    const FeatureView view = batch.feature(f);
    IdCount& count = id_counts[f];
    count.occurrences += view.occurrences.size();
    count.unseen +=
        static_cast<uint64_t>(std::ranges::count_if(view.occurrences, [&](uint32_t occurrence) {
          return found[view.first_id + occurrence] == nullptr;
        }));
    count.rows += batch.batch_size;
    for (size_t b = 0; b < batch.batch_size; ++b) {
      if (view.offsets[b] == view.offsets[b + 1]) ++count.empty_rows;
    }
  }
}

void Predictor::State::Pool(const CompactBatch& batch, MatrixView<float> matrix) {
  if (sent_rows) {
    const size_t bytes = sent_rows->bytes(batch);
    encoded.resize(std::max(encoded.size(), bytes));
    const std::span<std::byte> sent = std::span(encoded).first(bytes);
    sent_rows->Encode(batch, rows, positions, sent);
    sent_rows->Pool(batch, sent, matrix,
                    [](size_t count, size_t /*least*/, auto work) { work(0, count); });
    return;
  }
  std::vector<PoolingInput> inputs;
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView view = batch.feature(f);
    const BatchLayout::Feature& feature = common.layout.features[f];
    inputs.push_back({.rule = feature.pooling,
                      .feature = view,
                      .dim = common.layout.dim(f),
                      .row_positions = std::span(positions).subspan(view.first_id, view.ids.size()),
                      .first_column = feature.first_column});
  }
  simurgh::Pool(inputs, rows, /*first=*/0, matrix);
  if (vectors.precision() != VectorPrecision::kF32) Round(vectors, matrix);
}

Predictor::Predictor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

StatusOr<Predictor> Predictor::Create(const ModelVersion& model, const Options& options) {
  const ClusterConfig& config = model.config();
  SIMURGH_ASSIGN_OR_RETURN(RowBatcher batcher,
                           RowBatcher::Create(options.data != nullptr ? *options.data : config.data,
                                              config.features, options.ignore_labels));
  auto state = std::make_unique<State>(model, std::move(batcher));
  if (options.counts_ids) state->id_counts.resize(config.features.size());
  return Predictor(std::move(state));
}

bool Predictor::Fits(const ModelVersion& model) const { return state_->shared == model.common_; }
RowBatcher& Predictor::rows() { return state_->batcher; }
std::span<const uint64_t> Predictor::unseen_ids() const { return state_->unseen; }
std::span<const uint64_t> Predictor::missing_cells() const { return state_->missing; }
std::span<const Predictor::IdCount> Predictor::id_counts() const { return state_->id_counts; }

StatusOr<MatrixView<const float>> Predictor::Embeddings(const ModelVersion& model, Batch& batch) {
  State& state = *state_;
  const size_t width = state.common.layout.embedding_width();
  state.embeddings.resize(std::max(state.embeddings.size(), batch.size() * width));
  const MatrixView<float> matrix(state.embeddings.data(), batch.size(), width);
  SIMURGH_RETURN_IF_ERROR(SetEmbeddings(model, batch, matrix));
  return matrix;
}

Status Predictor::SetEmbeddings(const ModelVersion& model, Batch& batch, MatrixView<float> matrix) {
  State& state = *state_;
  state.common.masks.AppendTo(batch);
  SIMURGH_RETURN_IF_ERROR(state.ReadRows(model, *batch.sparse));
  state.CountIds(*batch.sparse);
  state.Pool(*batch.sparse, matrix);
  return absl::OkStatus();
}

Status Predictor::Rows(const ModelVersion& model, uint32_t table, std::span<const uint64_t> ids,
                       std::span<float> weights, std::span<uint8_t> found) {
  State& state = *state_;
  SIMURGH_RETURN_IF_ERROR(model.damage());
  state.found.resize(ids.size());
  const ModelVersion::Parts& parts = *model.parts_;
  if (state.remote) {
    const RemoteReader::List list{table, ids, state.found};
    SIMURGH_RETURN_IF_ERROR(
        state.remote->Read(model.checksum(), parts.changes, std::span(&list, 1)));
  } else {
    parts.tables[table].Find(ids, state.found, state.scratch);
  }
  const TableConfig& config = state.common.config.tables[table];
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> row = weights.subspan(i * config.dim, config.dim);
    found[i] = state.found[i] == nullptr ? 0 : 1;
    if (found[i] == 1) {
      state.common.encodings[table].Widen(state.found[i], row);
    } else {
      std::ranges::fill(row, 0.0F);
    }
  }
  return absl::OkStatus();
}

Status Predictor::Predict(const ModelVersion& model, Batch& batch,
                          std::vector<float>& probabilities) {
  State& state = *state_;
  ProgramNetwork* const program = state.common.options.program.get();
  if (!state.dense && program == nullptr) {
    return absl::FailedPreconditionError(
        "the model's network is a program's; compute it on the model's features");
  }
  probabilities.resize(batch.size() * state.common.format.labels.size());
  if (batch.size() == 0) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(const MatrixView<const float> embeddings, Embeddings(model, batch));
  if (state.dense) {
    SIMURGH_RETURN_IF_ERROR(state.dense->Predict(*model.parts_->dense, embeddings,
                                                 batch.dense.matrix(), probabilities));
  } else {
    SIMURGH_RETURN_IF_ERROR(
        program->Predict(model, embeddings, batch.dense.matrix(), probabilities));
  }
  MakePredictions(model, probabilities);
  return absl::OkStatus();
}

Status Predictor::Vectors(const ModelVersion& model, TowerSide side, Batch& batch,
                          std::vector<float>& vectors) {
  SIMURGH_CHECK_LT(0U, model.vector_width());
  vectors.resize(batch.size() * model.vector_width());
  if (batch.size() == 0) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(const MatrixView<const float> embeddings, Embeddings(model, batch));
  return state_->dense->Vectors(*model.parts_->dense, side, embeddings, batch.dense.matrix(),
                                {vectors.data(), batch.size(), model.vector_width()});
}

void Predictor::MakePredictions(const ModelVersion& model, std::vector<float>& outputs) const {
  const ClusterConfig& config = state_->common.config;
  ToPredictions(TasksOf(config.model), config.training.keep_negatives, model.parts_->calibrations,
                outputs);
  UnscalePredictions(outputs, state_->scales);
}

Status Predictor::State::Add(const ScoreRequest& request, ScoredRows& scored,
                             std::vector<size_t>& taken) {
  const size_t columns = common.format.columns.size();
  static constexpr Cell kMissing{};
  std::vector<const Cell*> cells(columns);
  std::vector<size_t> varying;  // Columns with a value for each row.
  const auto is_shared = std::make_unique<bool[]>(columns);
  for (size_t c = 0; c < columns; ++c) {
    const std::vector<Cell>& values = request.columns[c];
    missing[c] += MissingCells(request, c);
    cells[c] = values.empty() ? &kMissing : values.data();
    is_shared[c] = values.size() <= 1;
    if (!is_shared[c]) varying.push_back(c);
  }
  std::span<const bool> repeated;  // Empty until a row of this request was processed whole.
  for (size_t row = 0; row < request.rows; ++row) {
    if (row > 0) {
      for (const size_t c : varying) ++cells[c];
    }
    const Status added = batcher.AddCells(cells, repeated);
    if (added.ok()) {
      repeated = {is_shared.get(), columns};
      taken.push_back(row);
    } else if (absl::IsInvalidArgument(added)) {
      scored.AddProblem(row, std::string(added.message()));
    } else {
      batcher.Build().IgnoreError();  // Drops the rows.
      return added;
    }
  }
  return absl::OkStatus();
}

Status Predictor::Score(const ModelVersion& model, std::span<const ScoreRequest* const> requests,
                        std::span<ScoredRows> scored) {
  // A batch of rows that share values costs less than one of rows of several requests.
  constexpr size_t kLarge = 64;
  const auto is_own_batch = [](const ScoreRequest* request) {
    return request->rows >= kLarge &&
           std::ranges::any_of(request->columns, [](const auto& one) { return one.size() == 1; });
  };
  for (size_t first = 0; first < requests.size();) {
    size_t end = first + 1;
    while (end < requests.size() && !is_own_batch(requests[first]) &&
           !is_own_batch(requests[end])) {
      ++end;
    }
    SIMURGH_RETURN_IF_ERROR(state_->ScoreBatch(*this, model, requests.subspan(first, end - first),
                                               scored.subspan(first, end - first)));
    first = end;
  }
  return absl::OkStatus();
}

Status Predictor::State::ScoreBatch(Predictor& predictor, const ModelVersion& model,
                                    std::span<const ScoreRequest* const> requests,
                                    std::span<ScoredRows> scored) {
  const bool is_vectors = requests.front()->user_vectors;
  const size_t width = is_vectors ? model.vector_width() : common.format.labels.size();
  std::vector<std::vector<size_t>> taken(requests.size());  // The batch's rows of each request.
  for (size_t r = 0; r < requests.size(); ++r) {
    scored[r] = {};
    scored[r].probabilities.assign(requests[r]->rows * width,
                                   std::numeric_limits<float>::quiet_NaN());
    SIMURGH_RETURN_IF_ERROR(Add(*requests[r], scored[r], taken[r]));
  }
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, batcher.Build());
  SIMURGH_RETURN_IF_ERROR(is_vectors
                              ? predictor.Vectors(model, TowerSide::kUser, batch, probabilities)
                              : predictor.Predict(model, batch, probabilities));
  std::span<const float> next = probabilities;
  for (size_t r = 0; r < requests.size(); ++r) {
    for (const size_t row : taken[r]) {
      if (AllFinite(next.first(width))) {
        std::ranges::copy(next.first(width), scored[r].probabilities.begin() +
                                                 static_cast<std::ptrdiff_t>(row * width));
      } else {
        scored[r].AddProblem(row, common.options.program == nullptr
                                      ? "the prediction is not finite; send smaller dense numbers"
                                      : "the prediction is not finite; send smaller dense numbers, "
                                        "or correct the program's network");
      }
      next = next.subspan(width);
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
