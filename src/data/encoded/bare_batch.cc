#include "data/encoded/bare_batch.h"

#include <vector>

#include "absl/strings/str_format.h"

#include "data/encoded/packed_numbers.h"
#include "data/encoded/sample_lengths.h"
#include "data/encoded/weights.h"
#include "data/invalid.h"
#include "data/number_ids.h"

namespace simurgh {
namespace {

constexpr size_t kKeptIds = size_t{1} << 18;  // Ids of a batch: about 12 MiB.

// The thread keeps the memory of the deduplication. Few bare batches have more than kKeptIds ids;
// `large` is for these.
IdIndex& IndexFor(std::span<const uint64_t> ids, IdIndex& large) {
  thread_local IdIndex index;
  return ids.size() <= kKeptIds ? index : large;
}

void EncodeWeights(const CompactBatch& batch, ByteWriter& out) {
  std::vector<uint64_t> weighted(batch.feature_count());
  for (size_t f = 0; f < weighted.size(); ++f) {
    weighted[f] = IsWeighted(batch.feature(f).weights) ? 1 : 0;
  }
  AppendPacked(weighted, out);
  for (size_t f = 0; f < weighted.size(); ++f) {
    if (weighted[f] != 0) out.Raw(std::as_bytes(batch.feature(f).weights));
  }
}

Status DecodeWeights(ByteReader& in, CompactBatch& batch) {
  batch.weights.reserve(batch.occurrences.size());
  std::vector<uint64_t> weighted(batch.feature_count());
  if (!ReadPacked(in, weighted)) {
    return absl::InvalidArgumentError("batch: the weight flags are truncated");
  }
  for (size_t f = 0; f < weighted.size(); ++f) {
    if (weighted[f] > 1) {
      return Invalid("batch: feature %d: has weights: %d, must be 0 or 1", f, weighted[f]);
    }
    if (weighted[f] == 0) continue;
    const size_t first = batch.offsets[f * batch.batch_size];
    const size_t end = batch.offsets[(f + 1) * batch.batch_size];
    const Status read = ReadWeights(in, first, end, batch.weights);
    if (!read.ok()) return Annotate(read, absl::StrFormat("batch: feature %d", f));
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeBare(const CompactBatch& batch, std::vector<uint64_t>& ids, ByteWriter& out) {
  ids.clear();
  ids.reserve(batch.occurrences.size());
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView feature = batch.feature(f);
    for (const uint32_t occurrence : feature.occurrences) ids.push_back(feature.ids[occurrence]);
  }
  EncodeSampleLengths(batch.offsets, out);
  if (IsWeighted(batch.weights)) EncodeWeights(batch, out);
}

Status DecodeBare(std::span<const uint64_t> ids, bool weighted, ByteReader& in,
                  CompactBatch& batch) {
  const size_t cells = batch.feature_count() * batch.batch_size;
  batch.offsets.resize(cells + 1);
  const Status lengths = DecodeSampleLengths(in, batch.offsets);
  if (!lengths.ok()) return Annotate(lengths, "batch: lengths of all features");
  if (batch.offsets.back() != ids.size()) {
    return Invalid("batch: %d plain ids, but lengths of %d", ids.size(), batch.offsets.back());
  }
  batch.ids.reserve(ids.size());
  std::vector<std::span<const uint64_t>> of_features;
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const size_t first = batch.offsets[f * batch.batch_size];
    const size_t end = batch.offsets[(f + 1) * batch.batch_size];
    of_features.push_back(ids.subspan(first, end - first));
  }
  IdIndex large;
  NumberIds(of_features, IndexFor(ids, large), batch);
  return weighted ? DecodeWeights(in, batch) : absl::OkStatus();
}

}  // namespace simurgh
