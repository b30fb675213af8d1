#include "data/encoded/sample_lengths.h"

#include <algorithm>
#include <vector>

#include "data/encoded/packed_numbers.h"
#include "data/invalid.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {
namespace {

enum class Coding : uint8_t { kExceptions, kAll };

// The length of more than half of the samples, or any length if there is none.
// Source: Boyer and Moore, "MJRTY", 1981.
uint64_t CommonLength(std::span<const uint64_t> lengths) {
  size_t ones = 0;
  for (const uint64_t length : lengths) ones += length == 1 ? 1 : 0;
  if (2 * ones > lengths.size()) return 1;  // The usual case, found quickly.
  uint64_t candidate = 1;
  size_t votes = 0;
  for (const uint64_t length : lengths) {
    if (votes == 0) candidate = length;
    if (length == candidate) {
      ++votes;
    } else {
      --votes;
    }
  }
  return candidate;
}

struct Exceptions {
  std::vector<uint64_t> gaps;     // Common samples before each.
  std::vector<uint64_t> lengths;  // By exception.
};

struct Scratch {
  std::vector<uint64_t> lengths;
  Exceptions exceptions;
};

// The thread keeps this memory between features. A bare batch has up to kMaxBatchCells cells in
// place of samples; `large` is for more of them than a feature can have.
Scratch& ScratchFor(std::span<const uint32_t> offsets, Scratch& large) {
  thread_local Scratch scratch;
  return offsets.size() - 1 <= kMaxBatchSamples ? scratch : large;
}

void FindExceptions(std::span<const uint64_t> lengths, uint64_t common, Exceptions& exceptions) {
  exceptions.gaps.clear();
  exceptions.lengths.clear();
  size_t next = 0;
  const auto look = [&](size_t first, size_t end) {
    for (size_t sample = first; sample < end; ++sample) {
      if (lengths[sample] == common) continue;
      exceptions.gaps.push_back(sample - next);
      exceptions.lengths.push_back(lengths[sample]);
      next = sample + 1;
    }
  };
  constexpr size_t kGroup = 8;  // Compared at once: usually all are common.
  size_t first = 0;
  for (; first + kGroup <= lengths.size(); first += kGroup) {
    uint64_t other = 0;
    for (size_t i = 0; i < kGroup; ++i) other |= lengths[first + i] ^ common;
    if (other != 0) look(first, first + kGroup);
  }
  look(first, lengths.size());
}

Status Early() { return absl::InvalidArgumentError("lengths of samples are truncated"); }

Status ReadExceptions(ByteReader& in, std::span<uint64_t> lengths, Exceptions& exceptions) {
  const uint64_t common = in.Number();
  const uint64_t count = in.Number();
  if (count > lengths.size()) {
    return Invalid("%d exceptions for the lengths of %d samples", count, lengths.size());
  }
  exceptions.gaps.resize(count);
  exceptions.lengths.resize(count);
  if (!ReadPacked(in, exceptions.gaps) || !ReadPacked(in, exceptions.lengths)) return Early();
  std::fill(lengths.begin(), lengths.end(), common);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (exceptions.gaps[i] >= lengths.size() - next) {
      return Invalid("a length for a sample after the last of %d", lengths.size());
    }
    next += exceptions.gaps[i];
    lengths[next++] = exceptions.lengths[i];
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeSampleLengths(std::span<const uint32_t> offsets, ByteWriter& out) {
  Scratch large;
  auto& [lengths, exceptions] = ScratchFor(offsets, large);
  lengths.resize(offsets.size() - 1);
  for (size_t b = 0; b < lengths.size(); ++b) lengths[b] = offsets[b + 1] - offsets[b];
  const uint64_t common = CommonLength(lengths);
  FindExceptions(lengths, common, exceptions);
  if (PackedBytes(exceptions.gaps) + PackedBytes(exceptions.lengths) <= PackedBytes(lengths)) {
    out.Byte(static_cast<uint8_t>(Coding::kExceptions));
    out.Number(common);
    out.Number(exceptions.gaps.size());
    AppendPacked(exceptions.gaps, out);
    AppendPacked(exceptions.lengths, out);
  } else {
    out.Byte(static_cast<uint8_t>(Coding::kAll));
    AppendPacked(lengths, out);
  }
}

Status DecodeSampleLengths(ByteReader& in, std::span<uint32_t> offsets) {
  Scratch large;
  auto& [lengths, exceptions] = ScratchFor(offsets, large);
  lengths.resize(offsets.size() - 1);
  const uint8_t coding = in.Byte();
  if (coding == static_cast<uint8_t>(Coding::kExceptions)) {
    SIMURGH_RETURN_IF_ERROR(ReadExceptions(in, lengths, exceptions));
  } else if (coding == static_cast<uint8_t>(Coding::kAll)) {
    if (!ReadPacked(in, lengths)) return Early();
  } else {
    return Invalid("unknown coding %d of lengths", coding);
  }
  if (!in.ok()) return Early();
  for (size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] > kMaxBatchOccurrences - offsets[b]) {
      return Invalid("sample %d: %d ids exceed the %d remaining ids of a batch", b, lengths[b],
                     kMaxBatchOccurrences - offsets[b]);
    }
    offsets[b + 1] = offsets[b] + static_cast<uint32_t>(lengths[b]);
  }
  return absl::OkStatus();
}

}  // namespace simurgh
