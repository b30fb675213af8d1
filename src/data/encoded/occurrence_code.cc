#include "data/encoded/occurrence_code.h"

#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"

#include "data/encoded/bits.h"
#include "data/encoded/prefix_code.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {
namespace {

constexpr uint32_t kNextId = 0;  // The symbol; those of small indexes follow.
constexpr uint32_t kSmallIndexes = 64;
constexpr int kSmallBits = 6;
constexpr int kLargestBits = 24;  // Of an index.
constexpr uint32_t kFirstRange = 1 + kSmallIndexes;
constexpr size_t kSymbols = kFirstRange + 2 * (kLargestBits - kSmallBits);
static_assert(std::bit_width(kMaxBatchOccurrences) <= kLargestBits);

// The indexes from base on that share a symbol, 2^bits of them.
struct Range {
  uint32_t base = 0;
  uint8_t bits = 0;
};

constexpr auto kRanges = [] {
  std::array<Range, kSymbols> ranges{};
  for (uint32_t i = 0; i < kSmallIndexes; ++i) ranges[1 + i] = {.base = i};
  for (size_t s = kFirstRange; s < kSymbols; ++s) {
    const size_t power = kSmallBits + (s - kFirstRange) / 2;
    const uint32_t half = (s - kFirstRange) % 2;
    ranges[s] = {.base = (2 + half) << (power - 1), .bits = static_cast<uint8_t>(power - 1)};
  }
  return ranges;
}();

// Without branches: which way it goes is noise. Requires index < 2^kLargestBits.
uint32_t SymbolOf(uint32_t index, bool is_next) {
  const int width = std::bit_width(index | kSmallIndexes);
  const uint32_t range = kFirstRange + 2 * (width - kSmallBits - 1) + ((index >> (width - 2)) & 1);
  const uint32_t symbol = index < kSmallIndexes ? 1 + index : range;
  return is_next ? kNextId : symbol;
}

// What a writer and a reader know of a symbol.
struct Word {
  uint32_t base = 0;
  uint16_t code = 0;
  uint8_t length = 0;
  uint8_t bits = 0;
};
using Words = std::array<Word, kSymbols>;
using Lengths = std::array<uint8_t, kSymbols>;

constexpr uint64_t LowBits(int count) { return (uint64_t{1} << count) - 1; }

std::optional<Words> WordsOf(const Lengths& lengths) {
  std::array<uint16_t, kSymbols> codes{};
  if (!AssignCodes(lengths, codes)) return std::nullopt;
  Words words;
  for (size_t s = 0; s < kSymbols; ++s) {
    words[s] = {kRanges[s].base, codes[s], lengths[s], kRanges[s].bits};
  }
  return words;
}

// A byte with the number of lengths, then two of them a byte; or 0, and the symbol that is alone.
void AppendLengths(const Lengths& lengths, uint32_t alone, ByteWriter& out) {
  size_t count = kSymbols;
  while (count > 0 && lengths[count - 1] == 0) --count;
  out.Byte(static_cast<uint8_t>(count));
  if (count == 0) out.Byte(static_cast<uint8_t>(alone));
  for (size_t s = 0; s < count; s += 2) {
    const int high = s + 1 < count ? lengths[s + 1] << 4 : 0;
    out.Byte(static_cast<uint8_t>(lengths[s] | high));
  }
}

StatusOr<Words> ReadWords(ByteReader& in, uint32_t& alone) {
  const uint8_t count = in.Byte();
  if (count > kSymbols) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d code lengths, must be at most %d", count, kSymbols));
  }
  if (count == 0) {
    alone = in.Byte();
    if (alone >= kSymbols) {
      return absl::InvalidArgumentError(
          absl::StrFormat("symbol %d, must be below %d", alone, kSymbols));
    }
    return Words{};
  }
  Lengths lengths{};
  for (size_t s = 0; s < count; s += 2) {
    const uint8_t pair = in.Byte();
    lengths[s] = pair & 15;
    if (s + 1 < count) lengths[s + 1] = pair >> 4;
  }
  const std::optional<Words> words = WordsOf(lengths);
  if (!words.has_value()) {
    return absl::InvalidArgumentError("the code lengths make no complete code");
  }
  alone = kSymbols;
  return *words;
}

// What to do on the next kLongestCode bits.
struct Step {
  uint32_t base = 0;
  uint8_t length = 0;
  uint8_t bits = 0;
  uint8_t is_next = 0;
};
using Steps = std::array<Step, size_t{1} << kLongestCode>;

void FillSteps(const Words& words, uint32_t alone, Steps& steps) {
  for (uint32_t s = 0; s < kSymbols; ++s) {
    const Word& word = words[s];
    if (word.length == 0 && s != alone) continue;
    const Step step = {s == alone ? kRanges[s].base : word.base, word.length, kRanges[s].bits,
                       static_cast<uint8_t>(s == kNextId ? 1 : 0)};
    for (size_t at = word.code; at < steps.size(); at += size_t{1} << word.length) steps[at] = step;
  }
}

}  // namespace

Status EncodeOccurrences(std::span<const uint32_t> occurrences, uint32_t& seen, ByteWriter& out) {
  std::array<uint32_t, kSymbols> counts{};
  uint32_t next = seen;
  bool in_order = true;
  for (const uint32_t index : occurrences) {
    const bool is_next = index == next;
    ++counts[SymbolOf(index & LowBits(kLargestBits), is_next)];
    next += is_next ? 1 : 0;
    in_order &= index < next;
  }
  if (!in_order) {
    return absl::InvalidArgumentError("its ids are not in the order of their first appearance");
  }

  Lengths lengths{};
  ChooseCodeLengths(counts, lengths);
  uint32_t alone = 0;
  uint64_t bits = 0;
  for (uint32_t s = 0; s < kSymbols; ++s) {
    if (counts[s] > 0) alone = s;
    bits += uint64_t{counts[s]} * (lengths[s] + kRanges[s].bits);
  }
  AppendLengths(lengths, alone, out);
  Words words = WordsOf(lengths).value_or(Words{});
  words[alone].base = kRanges[alone].base;
  words[alone].bits = kRanges[alone].bits;

  BitWriter writer(out.Extend(BytesOfBits(bits) + kBitSlackBytes));
  next = seen;
  for (const uint32_t index : occurrences) {
    const bool is_next = index == next;
    const Word& word = words[SymbolOf(index, is_next)];
    const uint64_t place = (index - word.base) & LowBits(word.bits);
    writer.Put(word.code | place << word.length, word.length + word.bits);
    next += is_next ? 1 : 0;
  }
  out.Shorten(kBitSlackBytes);
  seen = next;
  return absl::OkStatus();
}

Status DecodeOccurrences(ByteReader& in, uint32_t& seen, std::span<uint32_t> occurrences) {
  uint32_t alone = 0;
  SIMURGH_ASSIGN_OR_RETURN(const Words words, ReadWords(in, alone));
  Steps steps;
  FillSteps(words, alone, steps);

  const std::span<const std::byte> rest = in.Rest();
  BitReader reader(rest);
  uint32_t next = seen;
  bool in_order = true;
  for (uint32_t& occurrence : occurrences) {
    const uint64_t bits = reader.Peek();
    const Step step = steps[bits & LowBits(kLongestCode)];
    const auto place = static_cast<uint32_t>((bits >> step.length) & LowBits(step.bits));
    reader.Skip(step.length + step.bits);
    const uint32_t index = step.is_next != 0 ? next : step.base + place;
    next += step.is_next;
    in_order &= index < next;
    occurrence = index;
  }
  const uint64_t bytes = BytesOfBits(reader.position());
  if (bytes > rest.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("%d occurrences take %d bytes, %d are left",
                                                      occurrences.size(), bytes, rest.size()));
  }
  if (!in_order) {
    return absl::InvalidArgumentError("an occurrence of an id before its first appearance");
  }
  in.Raw(bytes);
  seen = next;
  return absl::OkStatus();
}

}  // namespace simurgh
