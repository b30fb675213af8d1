#include "data/encoded/occurrence_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "data/encoded/bits.h"
#include "data/encoded/prefix_code.h"
#include "data/invalid.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {
namespace {

// Symbols; those of small indexes follow.
constexpr uint32_t kNextId = 0;
constexpr uint32_t kEarlierId = 1;
constexpr uint32_t kFirstIndex = 2;
constexpr uint32_t kSmallIndexes = 64;
constexpr int kSmallBits = 6;
constexpr int kLargestBits = 24;  // Bits of the largest index.
constexpr uint32_t kFirstRange = kFirstIndex + kSmallIndexes;
constexpr size_t kSymbols = kFirstRange + 2 * (kLargestBits - kSmallBits);
static_assert(std::bit_width(kMaxBatchOccurrences) <= kLargestBits);

// 2^bits indexes from `base` that share a symbol.
struct Range {
  uint32_t base = 0;
  uint8_t bits = 0;
};

constexpr auto kRanges = [] {
  std::array<Range, kSymbols> ranges{};
  for (uint32_t i = 0; i < kSmallIndexes; ++i) ranges[kFirstIndex + i] = {.base = i};
  for (size_t s = kFirstRange; s < kSymbols; ++s) {
    const size_t power = kSmallBits + (s - kFirstRange) / 2;
    const uint32_t half = (s - kFirstRange) % 2;
    ranges[s] = {.base = (2 + half) << (power - 1), .bits = static_cast<uint8_t>(power - 1)};
  }
  return ranges;
}();

// Bits after a symbol. earlier: number of ids in earlier features.
int BitsBehind(uint32_t symbol, uint32_t earlier) {
  return symbol == kEarlierId && earlier > 0 ? std::bit_width(earlier - 1) : kRanges[symbol].bits;
}

// The symbol of an index. The exponent and the first mantissa bit of a float number the ranges.
// This needs no branch and no variable shift, so the compiler can vectorise it. Requires index <
// 2^kLargestBits.
uint32_t SymbolOf(uint32_t index) {
  static_assert(kLargestBits <= 24, "wider ones would be rounded");
  constexpr uint32_t kFirst = std::bit_cast<uint32_t>(static_cast<float>(kSmallIndexes)) >> 22;
  const auto as_float = static_cast<float>(static_cast<int32_t>(index));
  const uint32_t range = kFirstRange + (std::bit_cast<uint32_t>(as_float) >> 22) - kFirst;
  return index < kSmallIndexes ? kFirstIndex + index : range;
}

// Encoding of a symbol.
struct Word {
  uint32_t place = 0;  // Mask of the number's bits that follow the code word.
  uint16_t code = 0;
  uint8_t length = 0;  // Bits of the code word.
  uint8_t bits = 0;    // Bits of code word and number.
};
using Words = std::array<Word, kSymbols>;
using Codes = std::array<uint16_t, kSymbols>;
using Lengths = std::array<uint8_t, kSymbols>;
using Counts = std::array<uint32_t, kSymbols>;

constexpr uint64_t LowBits(int count) { return (uint64_t{1} << count) - 1; }

// A range of 2^bits indexes begins at a multiple of 2^bits, so a mask gives the position in it.
Words WordsOf(const Lengths& lengths, uint32_t earlier) {
  Codes codes{};  // Zeros if there is a single symbol, without a length.
  AssignCodes(lengths, codes);
  Words words;
  for (uint32_t s = 0; s < kSymbols; ++s) {
    const int behind = BitsBehind(s, earlier);
    words[s] = {.place = static_cast<uint32_t>(LowBits(behind)),
                .code = codes[s],
                .length = lengths[s],
                .bits = static_cast<uint8_t>(lengths[s] + behind)};
  }
  return words;
}

// Writes the number of lengths, then two lengths a byte; or 0 and the single symbol.
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

struct Code {
  Lengths lengths{};
  Codes codes{};
  uint32_t alone = kSymbols;  // The only symbol, if there is one.
};

StatusOr<Code> ReadCode(ByteReader& in) {
  Code code;
  const uint8_t count = in.Byte();
  if (count > kSymbols) {
    return Invalid("%d code lengths, must be at most %d", count, kSymbols);
  }
  if (count == 0) {
    code.alone = in.Byte();
    if (code.alone >= kSymbols) {
      return Invalid("symbol %d, must be below %d", code.alone, kSymbols);
    }
    return code;
  }
  for (size_t s = 0; s < count; s += 2) {
    const uint8_t pair = in.Byte();
    code.lengths[s] = pair & 15;
    if (s + 1 < count) code.lengths[s + 1] = pair >> 4;
  }
  if (!AssignCodes(code.lengths, code.codes)) {
    return absl::InvalidArgumentError("the code lengths are not a complete prefix code");
  }
  return code;
}

// Memory for encoding one feature, kept by the thread.
struct Scratch {
  std::vector<uint8_t> symbols;   // By occurrence.
  std::vector<uint32_t> numbers;  // By occurrence: the number after its symbol.
  // By id of the list: the value of `appearances` at its first appearance in a feature. The count
  // continues over all features, so old entries are smaller and need not be cleared.
  std::vector<uint64_t> appeared;
  uint64_t appearances = 0;
  std::vector<uint32_t> ids;  // By index: the id's number in the list.
};
Scratch& ScratchOfThread() {
  thread_local Scratch scratch;
  return scratch;
}

constexpr uint32_t kNotInOrder = ~uint32_t{0};

// Finds and counts the symbols of a feature without earlier ones in its list: an id's index is its
// number. Returns the number of ids that have appeared by the end, or kNotInOrder.
uint32_t FindSymbols(std::span<const uint32_t> occurrences, std::span<uint8_t> symbols,
                     Counts& counts) {
  uint32_t next = 0;
  for (size_t i = 0; i < occurrences.size(); ++i) {
    symbols[i] = static_cast<uint8_t>(SymbolOf(occurrences[i]));
  }
  // Neighbours have separate counters, because reading a counter just written stalls.
  std::array<Counts, 4> counters{};
  bool in_order = true;
  const auto count = [&](size_t i, Counts& counter) {
    const uint32_t index = occurrences[i];
    const bool is_next = index == next;
    const uint8_t symbol = is_next ? kNextId : symbols[i];
    symbols[i] = symbol;
    ++counter[symbol];
    next += is_next ? 1 : 0;
    in_order &= index < next;
  };
  size_t i = 0;
  for (; i + counters.size() <= occurrences.size(); i += counters.size()) {
    for (size_t c = 0; c < counters.size(); ++c) count(i + c, counters[c]);
  }
  for (; i < occurrences.size(); ++i) count(i, counters[0]);
  for (const Counts& counter : counters) {
    for (size_t s = 0; s < kSymbols; ++s) counts[s] += counter[s];
  }
  return in_order ? next : kNotInOrder;
}

// The same for a feature with earlier ones in its list. Also finds the numbers after the symbols.
uint32_t FindSharedSymbols(std::span<const uint32_t> occurrences, uint32_t next, Scratch& scratch,
                           Counts& counts) {
  const size_t max_ids = next + occurrences.size();
  if (scratch.appeared.size() < max_ids) scratch.appeared.resize(max_ids);
  scratch.numbers.resize(occurrences.size());
  const uint64_t before = scratch.appearances;
  for (size_t i = 0; i < occurrences.size(); ++i) {
    const uint32_t id = occurrences[i];
    if (id > next) return kNotInOrder;
    uint64_t& appeared = scratch.appeared[id];
    uint32_t number = id;
    uint32_t symbol = id == next ? kNextId : kEarlierId;
    if (appeared > before) {
      number = static_cast<uint32_t>(appeared - before - 1);
      symbol = SymbolOf(number);
    } else {
      appeared = ++scratch.appearances;
      next += symbol == kNextId ? 1 : 0;
    }
    scratch.numbers[i] = number;
    scratch.symbols[i] = static_cast<uint8_t>(symbol);
    ++counts[symbol];
  }
  return next;
}

// Writes kAtOnce words per Put, because each Put waits for the previous one.
template <size_t kAtOnce>
void WriteWords(std::span<const uint32_t> numbers, std::span<const uint8_t> symbols,
                const Words& words, BitWriter& writer) {
  size_t i = 0;
  const auto write = [&](size_t count) {
    uint64_t value = 0;
    int bits = 0;
    for (const size_t end = i + count; i < end; ++i) {
      const Word& word = words[symbols[i]];
      const uint64_t place = numbers[i] & word.place;
      value |= (word.code | place << word.length) << bits;
      bits += word.bits;
    }
    writer.Put(value, bits);
  };
  while (i + kAtOnce <= numbers.size()) write(kAtOnce);
  while (i < numbers.size()) write(1);
}

// Decoding of the next kLongestCode bits.
struct Step {
  uint32_t base = 0;
  uint8_t length = 0;
  uint8_t bits = 0;
  uint8_t is_next = 0;
  uint8_t is_earlier = 0;
};
using Steps = std::array<Step, size_t{1} << kLongestCode>;

void FillSteps(const Code& code, uint32_t earlier, Steps& steps) {
  for (uint32_t s = 0; s < kSymbols; ++s) {
    const uint8_t length = code.lengths[s];
    if (length == 0 && s != code.alone) continue;
    const Step step = {.base = kRanges[s].base,
                       .length = length,
                       .bits = static_cast<uint8_t>(BitsBehind(s, earlier)),
                       .is_next = static_cast<uint8_t>(s == kNextId ? 1 : 0),
                       .is_earlier = static_cast<uint8_t>(s == kEarlierId ? 1 : 0)};
    for (size_t at = code.codes[s]; at < steps.size(); at += size_t{1} << length) steps[at] = step;
  }
}

// Reads a symbol and the number after it, which is 0 for the next id.
Step TakeStep(const Steps& steps, BitReader& reader, uint32_t& number) {
  const uint64_t bits = reader.Peek();
  const Step step = steps[bits & LowBits(kLongestCode)];
  number = step.base + static_cast<uint32_t>((bits >> step.length) & LowBits(step.bits));
  reader.Skip(step.length + step.bits);
  return step;
}

// Reads a feature without earlier ones in its list. Returns the number of ids that have appeared by
// the end, or kNotInOrder.
uint32_t ReadOwn(const Steps& steps, BitReader& reader, std::span<uint32_t> occurrences) {
  uint32_t next = 0;
  bool in_order = true;
  for (uint32_t& occurrence : occurrences) {
    uint32_t number = 0;
    const Step step = TakeStep(steps, reader, number);
    const uint32_t index = step.is_next != 0 ? next : number;
    next += step.is_next;
    in_order &= index < next && step.is_earlier == 0;
    occurrence = index;
  }
  return in_order ? next : kNotInOrder;
}

// Reads a feature with earlier ones in its list.
uint32_t ReadShared(const Steps& steps, uint32_t earlier, BitReader& reader,
                    std::span<uint32_t> occurrences) {
  std::vector<uint32_t>& ids = ScratchOfThread().ids;
  ids.clear();
  uint32_t next = earlier;
  for (uint32_t& occurrence : occurrences) {
    uint32_t number = 0;
    const Step step = TakeStep(steps, reader, number);
    if (step.is_next != 0 || step.is_earlier != 0) {
      if (number >= earlier) return kNotInOrder;
      ids.push_back(step.is_next != 0 ? next++ : number);
      number = static_cast<uint32_t>(ids.size() - 1);
    }
    if (number >= ids.size()) return kNotInOrder;
    occurrence = ids[number];
  }
  return next;
}

}  // namespace

Status EncodeOccurrences(std::span<const uint32_t> occurrences, uint32_t& seen, ByteWriter& out) {
  Scratch& scratch = ScratchOfThread();
  scratch.symbols.resize(occurrences.size());
  const uint32_t earlier = seen;
  Counts counts{};
  const uint32_t next = earlier == 0 ? FindSymbols(occurrences, scratch.symbols, counts)
                                     : FindSharedSymbols(occurrences, earlier, scratch, counts);
  if (next == kNotInOrder) {
    return absl::InvalidArgumentError("its ids are not in the order of their first appearance");
  }
  seen = next;

  Lengths lengths{};
  ChooseCodeLengths(counts, lengths);
  uint32_t alone = 0;
  uint64_t bits = 0;
  int longest = 0;  // Code word and the number after it.
  for (uint32_t s = 0; s < kSymbols; ++s) {
    if (counts[s] == 0) continue;
    alone = s;
    const int length = lengths[s] + BitsBehind(s, earlier);
    bits += uint64_t{counts[s]} * length;
    longest = std::max(longest, length);
  }
  AppendLengths(lengths, alone, out);
  const Words words = WordsOf(lengths, earlier);
  const std::span<const uint32_t> numbers = earlier == 0 ? occurrences : scratch.numbers;
  BitWriter writer(out.Extend(BytesOfBits(bits) + kBitSlackBytes));
  if (2 * longest <= kMaxBits) {
    WriteWords<2>(numbers, scratch.symbols, words, writer);
  } else {
    WriteWords<1>(numbers, scratch.symbols, words, writer);
  }
  out.Shorten(kBitSlackBytes);
  return absl::OkStatus();
}

Status DecodeOccurrences(ByteReader& in, uint32_t& seen, std::span<uint32_t> occurrences) {
  SIMURGH_ASSIGN_OR_RETURN(const Code code, ReadCode(in));
  Steps steps;
  FillSteps(code, seen, steps);

  const std::span<const std::byte> rest = in.Rest();
  BitReader reader(rest);
  const uint32_t next = seen == 0 ? ReadOwn(steps, reader, occurrences)
                                  : ReadShared(steps, seen, reader, occurrences);
  const uint64_t bytes = BytesOfBits(reader.position());
  if (bytes > rest.size()) {
    return Invalid("%d occurrences take %d bytes, expected at most %d", occurrences.size(), bytes,
                   rest.size());
  }
  if (next == kNotInOrder) {
    return absl::InvalidArgumentError("an occurrence of an id before its first appearance");
  }
  in.Raw(bytes);
  seen = next;
  return absl::OkStatus();
}

}  // namespace simurgh
