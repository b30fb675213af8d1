#include "absl/strings/str_format.h"

#include "data/encoded/bare_batch.h"
#include "data/encoded/format.h"
#include "data/encoded/id_list_code.h"
#include "data/encoded/occurrence_code.h"
#include "data/encoded/sample_lengths.h"
#include "data/encoded/weights.h"
#include "data/invalid.h"
#include "simurgh/data/encoded_batch.h"

namespace simurgh {
namespace {

void EncodeHead(const CompactBatch& batch, uint8_t form, ByteWriter& out) {
  out.Byte(kBatchVersion);
  out.Number(batch.batch_size);
  out.Number(batch.feature_count());
  const bool shared = batch.list_count() < batch.feature_count();
  const bool weighted = IsWeighted(batch.weights);
  out.Byte(form | (shared ? kSharedLists : 0) | (weighted ? kSomeWeighted : 0));
  if (!shared) return;
  out.Number(batch.list_count());
  for (const uint32_t list : batch.lists) out.Number(list);
}

Status EncodeFeature(const FeatureView& feature, uint32_t& seen, ByteWriter& out) {
  const bool weighted = IsWeighted(feature.weights);
  out.Byte(weighted ? kWeighted : 0);
  EncodeSampleLengths(feature.offsets, out);
  if (feature.occurrences.empty()) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(EncodeOccurrences(feature.occurrences, seen, out));
  if (weighted) out.Raw(std::as_bytes(feature.weights));
  return absl::OkStatus();
}

StatusOr<EncodedBatch> EncodeCoded(const CompactBatch& batch) {
  ByteWriter codes;
  codes.Reserve(2 * batch.occurrences.size());  // Almost always enough.
  EncodeHead(batch, 0, codes);
  codes.Number(batch.occurrences.size());

  IdListWriter lists;
  lists.plain.reserve(batch.ids.size());
  for (size_t l = 0; l < batch.list_count(); ++l) EncodeIdList(batch.list(l), lists);
  codes.Raw(lists.heads.bytes());
  codes.Raw(lists.packed.bytes());

  std::vector<uint32_t> seen(batch.list_count());
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const Status encoded = EncodeFeature(batch.feature(f), seen[batch.list_of(f)], codes);
    if (!encoded.ok()) return Annotate(encoded, absl::StrFormat("batch: feature %d", f));
  }
  for (size_t l = 0; l < batch.list_count(); ++l) {
    if (seen[l] != batch.list(l).size()) {
      return Invalid("batch: list %d: %d of %d ids occur; all must", l, seen[l],
                     batch.list(l).size());
    }
  }
  return EncodedBatch{.plain_ids = std::move(lists.plain), .codes = codes.Take()};
}

// Whether the bare form may be better. One percent fewer bytes does not justify that the receiver
// numbers the ids again.
bool IsWorthBare(const CompactBatch& batch, size_t coded_bytes) {
  const size_t occurrences = batch.occurrences.size();
  return 100 * coded_bytes > 101 * sizeof(uint64_t) * occurrences &&
         MayBeBare(batch.feature_count(), batch.batch_size, occurrences);
}

}  // namespace

StatusOr<EncodedBatch> EncodeBatch(const CompactBatch& batch) {
  SIMURGH_RETURN_IF_ERROR(batch.Validate());
  SIMURGH_ASSIGN_OR_RETURN(EncodedBatch coded, EncodeCoded(batch));
  if (!MayBeCoded(batch.feature_count(), batch.batch_size, coded.byte_size())) {
    return Invalid(
        "batch: %d features of %d samples are too many cells for %d bytes of ids; choose a smaller "
        "batch size",
        batch.feature_count(), batch.batch_size, coded.byte_size());
  }
  if (!IsWorthBare(batch, coded.byte_size())) return coded;
  ByteWriter codes;
  EncodeHead(batch, kBare, codes);
  EncodedBatch bare;
  EncodeBare(batch, bare.plain_ids, codes);
  bare.codes = codes.Take();
  return bare.byte_size() < coded.byte_size() ? bare : coded;
}

}  // namespace simurgh
