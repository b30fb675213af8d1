#include "data/encoded/id_list_code.h"

#include <algorithm>
#include <array>

#include "data/encoded/packed_numbers.h"
#include "data/invalid.h"

namespace simurgh {
namespace {

// Maps small numbers of either sign to small numbers.
constexpr uint64_t ZigZag(uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr uint64_t UnZigZag(uint64_t number) { return (number >> 1) ^ (0 - (number & 1)); }

// Computes the numbers to pack block by block, so that sizing an encoding takes no memory.
class ListNumbers {
 public:
  ListNumbers(std::span<const uint64_t> ids, IdListCoding coding)
      : ids_(ids),
        coding_(coding),
        base_(coding == IdListCoding::kOffsets ? *std::min_element(ids.begin(), ids.end())
                                               : ids.front()) {}

  uint64_t base() const { return base_; }

  // work: called with the numbers of each block.
  template <typename Work>
  void ForBlocks(const Work& work) const {
    std::array<uint64_t, kPackedBlock> block;
    for (size_t first = 0; first < ids_.size(); first += kPackedBlock) {
      const auto ids = ids_.subspan(first, std::min(kPackedBlock, ids_.size() - first));
      if (coding_ == IdListCoding::kOffsets) {
        for (size_t i = 0; i < ids.size(); ++i) block[i] = ids[i] - base_;
      } else {
        block[0] = ZigZag(first == 0 ? 0 : ids[0] - ids_[first - 1]);
        for (size_t i = 1; i < ids.size(); ++i) block[i] = ZigZag(ids[i] - ids[i - 1]);
      }
      work(std::span<const uint64_t>(block).first(ids.size()));
    }
  }

  size_t bytes() const {
    size_t sum = sizeof(base_);
    ForBlocks([&sum](std::span<const uint64_t> block) { sum += PackedBytes(block); });
    return sum;
  }

 private:
  std::span<const uint64_t> ids_;
  IdListCoding coding_;
  uint64_t base_;
};

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
  const ListNumbers offsets(ids, IdListCoding::kOffsets);
  const ListNumbers differences(ids, IdListCoding::kDifferences);
  const size_t offset_bytes = offsets.bytes();
  const size_t difference_bytes = differences.bytes();
  if (ids.size_bytes() <= std::min(offset_bytes, difference_bytes)) {
    out.heads.Byte(static_cast<uint8_t>(IdListCoding::kPlain));
    out.plain.insert(out.plain.end(), ids.begin(), ids.end());
    return;
  }
  const bool by_offset = offset_bytes <= difference_bytes;
  out.heads.Byte(
      static_cast<uint8_t>(by_offset ? IdListCoding::kOffsets : IdListCoding::kDifferences));
  const ListNumbers& numbers = by_offset ? offsets : differences;
  const uint64_t base = numbers.base();
  out.packed.Raw(std::as_bytes(std::span(&base, 1)));
  numbers.ForBlocks([&](std::span<const uint64_t> block) { AppendPacked(block, out.packed); });
}

StatusOr<IdListHead> ReadIdListHead(ByteReader& heads, uint64_t most) {
  IdListHead head{.count = heads.Number()};
  if (head.count > most) {
    return Invalid("%d ids exceed the %d remaining occurrences", head.count, most);
  }
  if (head.count == 0) return head;
  const uint8_t coding = heads.Byte();
  if (coding > static_cast<uint8_t>(IdListCoding::kDifferences)) {
    return Invalid("unknown coding %d of ids", coding);
  }
  head.coding = static_cast<IdListCoding>(coding);
  return head;
}

Status ReadPackedIds(IdListCoding coding, ByteReader& packed, std::span<uint64_t> ids) {
  const uint64_t base = ReadWord(packed);
  if (!ReadPacked(packed, ids)) {
    return absl::InvalidArgumentError("packed ids are truncated, or wider than 64 bits");
  }
  uint64_t previous = base;
  for (uint64_t& id : ids) {
    id = previous + (coding == IdListCoding::kOffsets ? id : UnZigZag(id));
    if (coding == IdListCoding::kDifferences) previous = id;
  }
  return absl::OkStatus();
}

}  // namespace simurgh
