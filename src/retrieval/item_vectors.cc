#include "retrieval/item_vectors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/retrieval.h"
#include "data/reading/batch_reader.h"
#include "tensor/finite.h"

namespace simurgh {

StatusOr<size_t> VectorWidth(const ClusterConfig& config) {
  SIMURGH_RETURN_IF_ERROR(TowerOf(config, TowerSide::kItem).status());
  return size_t{config.model.towers.back().layers.front().width};
}

StatusOr<MatrixView<const float>> VectorsOf(const ModelVersion& version, Predictor& predictor,
                                            Batch& batch, TowerSide side,
                                            std::vector<float>& memory) {
  SIMURGH_ASSIGN_OR_RETURN(const size_t dim, VectorWidth(version.config()));
  SIMURGH_RETURN_IF_ERROR(predictor.Vectors(version, side, batch, memory));
  const MatrixView<const float> vectors(memory.data(), batch.size(), dim);
  for (size_t row = 0; row < batch.size(); ++row) {
    if (AllFinite(vectors.row(row))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "row ", row, ": its vector is not finite; the weights or the dense values are too large"));
  }
  return vectors;
}

Status ForEachVector(const ModelVersion& version, const DataConfig& data, const VectorInput& input,
                     absl::FunctionRef<Status(const VectorRows& rows)> visit,
                     std::vector<uint64_t>* unseen) {
  constexpr size_t kRows = 1'024;
  const ClusterConfig& config = version.config();
  SIMURGH_ASSIGN_OR_RETURN(const DataConfig own,
                           DataOfTower(config, data, input.side, input.texts, input.files));
  SIMURGH_ASSIGN_OR_RETURN(ColumnTexts columns, ColumnTexts::Create(own, input.texts));
  SIMURGH_ASSIGN_OR_RETURN(Predictor predictor,
                           Predictor::Create(version, {.data = &own, .counts_ids = true}));
  std::vector<std::string> texts;
  const ReadOptions reading{.on_row =
                                [&](std::string_view line, bool in_batch) {
                                  if (!in_batch || input.texts.empty()) return;
                                  for (const std::string_view text : columns.Of(line)) {
                                    texts.emplace_back(text);
                                  }
                                },
                            .ignore_labels = true,
                            .copies_skipped = true,
                            .allow_pipes = true};
  SIMURGH_ASSIGN_OR_RETURN(const auto reader,
                           OpenBatchReader(own, config.features, input.files, kRows, reading));
  std::vector<float> memory;
  for (;;) {
    if (input.ends != nullptr && *input.ends) return absl::CancelledError("the reading was ended");
    texts.clear();
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader->Next());
    if (!batch) break;
    SIMURGH_ASSIGN_OR_RETURN(const MatrixView<const float> vectors,
                             VectorsOf(version, predictor, *batch, input.side, memory));
    SIMURGH_RETURN_IF_ERROR(visit({.vectors = vectors, .texts = texts}));
  }
  if (unseen == nullptr) return absl::OkStatus();
  unseen->clear();
  for (const Predictor::IdCount& count : predictor.id_counts()) unseen->push_back(count.unseen);
  return absl::OkStatus();
}

StatusOr<ItemVectors> ReadItemVectors(const ModelVersion& version, const DataConfig& data,
                                      const std::vector<std::string>& files, const std::string& id,
                                      const std::vector<std::string>& columns,
                                      const std::atomic<bool>* ends) {
  ItemVectors items;
  items.columns.resize(columns.size());
  SIMURGH_ASSIGN_OR_RETURN(items.dim, VectorWidth(version.config()));
  VectorInput input{.side = TowerSide::kItem, .files = files, .texts = {id}, .ends = ends};
  input.texts.insert(input.texts.end(), columns.begin(), columns.end());
  const auto add = [&](const VectorRows& rows) {
    const std::span<const float> numbers = rows.vectors.flat();
    items.vectors.insert(items.vectors.end(), numbers.begin(), numbers.end());
    for (size_t row = 0; row < rows.vectors.rows(); ++row) {
      const auto texts = rows.texts.subspan(row * input.texts.size(), input.texts.size());
      SIMURGH_RETURN_IF_ERROR(
          Annotate(items.ids.Add(texts[0]), absl::StrCat("items: ", files.front())));
      for (size_t c = 0; c < columns.size(); ++c) items.columns[c].push_back(texts[1 + c]);
    }
    return absl::OkStatus();
  };
  std::vector<uint64_t> unseen;
  SIMURGH_RETURN_IF_ERROR(ForEachVector(version, data, input, add, &unseen));
  if (items.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.front(), ": there is no item; give one row an item"));
  }
  // The first feature that reads the id of an item.
  for (size_t f = 0; f < unseen.size(); ++f) {
    if (version.config().features[f].sources() != std::vector<std::string>{id}) continue;
    items.without_row = unseen[f];
    break;
  }
  return items;
}

}  // namespace simurgh
