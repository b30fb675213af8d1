#include "data/encoded/id_list_code.h"

#include <algorithm>

#include "absl/strings/str_format.h"

#include "data/encoded/packed_numbers.h"

namespace simurgh {
namespace {

// Small numbers of either sign to small numbers.
constexpr uint64_t ZigZag(uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr uint64_t UnZigZag(uint64_t number) { return (number >> 1) ^ (0 - (number & 1)); }

void ToOffsets(std::span<const uint64_t> ids, uint64_t base, std::vector<uint64_t>& numbers) {
  numbers.clear();
  for (const uint64_t id : ids) numbers.push_back(id - base);
}

void ToDifferences(std::span<const uint64_t> ids, std::vector<uint64_t>& numbers) {
  numbers.clear();
  uint64_t previous = ids.front();
  for (const uint64_t id : ids) {
    numbers.push_back(ZigZag(id - previous));
    previous = id;
  }
}

uint64_t ReadWord(ByteReader& in) {
  uint64_t word = 0;
  const auto bytes = in.Raw(sizeof(word));
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

}  // namespace

void EncodeIdList(std::span<const uint64_t> ids, IdListWriter& out) {
  out.heads.Number(ids.size());
  if (ids.empty()) return;
  const uint64_t smallest = *std::min_element(ids.begin(), ids.end());
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> differences;
  offsets.reserve(ids.size());
  differences.reserve(ids.size());
  ToOffsets(ids, smallest, offsets);
  ToDifferences(ids, differences);
  const size_t offset_bytes = sizeof(smallest) + PackedBytes(offsets);
  const size_t difference_bytes = sizeof(smallest) + PackedBytes(differences);
  if (ids.size_bytes() <= std::min(offset_bytes, difference_bytes)) {
    out.heads.Byte(static_cast<uint8_t>(IdListCoding::kPlain));
    out.plain.insert(out.plain.end(), ids.begin(), ids.end());
    return;
  }
  const bool by_offset = offset_bytes <= difference_bytes;
  const uint64_t base = by_offset ? smallest : ids.front();
  out.heads.Byte(
      static_cast<uint8_t>(by_offset ? IdListCoding::kOffsets : IdListCoding::kDifferences));
  out.packed.Raw(std::as_bytes(std::span(&base, 1)));
  AppendPacked(by_offset ? offsets : differences, out.packed);
}

StatusOr<IdListHead> ReadIdListHead(ByteReader& heads, uint64_t most) {
  IdListHead head{.count = heads.Number()};
  if (head.count > most) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d ids exceed the limit of a batch, of which %d are left", head.count, most));
  }
  if (head.count == 0) return head;
  const uint8_t coding = heads.Byte();
  if (coding > static_cast<uint8_t>(IdListCoding::kDifferences)) {
    return absl::InvalidArgumentError(absl::StrFormat("unknown coding %d of ids", coding));
  }
  head.coding = static_cast<IdListCoding>(coding);
  return head;
}

Status ReadPackedIds(IdListCoding coding, ByteReader& packed, std::span<uint64_t> ids) {
  const uint64_t base = ReadWord(packed);
  if (!ReadPacked(packed, ids)) {
    return absl::InvalidArgumentError("packed ids end early, or are wider than 64 bits");
  }
  uint64_t previous = base;
  for (uint64_t& id : ids) {
    id = previous + (coding == IdListCoding::kOffsets ? id : UnZigZag(id));
    if (coding == IdListCoding::kDifferences) previous = id;
  }
  return absl::OkStatus();
}

}  // namespace simurgh
