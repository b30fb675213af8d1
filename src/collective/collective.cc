#include "collective/collective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/base/thread_annotations.h"

#include "base/check.h"
#include "base/mutex.h"
#include "tensor/half.h"

namespace simurgh {
namespace {

constexpr size_t kChunk = 512;  // Values that share a minimum and a step.
constexpr size_t kChunkHead = 2 * sizeof(float);
constexpr float kLevels = 255.0F;  // Steps from the minimum to the maximum.

void EncodeBf16(std::span<const float> values, std::span<float> residual,
                std::span<std::byte> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float wanted = residual.empty() ? values[i] : values[i] + residual[i];
    const uint16_t code = NearestBf16(wanted);
    std::memcpy(out.data() + i * sizeof(code), &code, sizeof(code));
    if (residual.empty()) continue;
    const float lost = wanted - FromBf16(code);
    residual[i] = std::isfinite(lost) ? lost : 0.0F;
  }
}

// Encodes up to kChunk values.
void EncodeChunk(std::span<const float> values, std::span<float> residual, std::byte* out) {
  float wanted[kChunk];
  float least = std::numeric_limits<float>::max();
  float greatest = std::numeric_limits<float>::lowest();
  bool finite = true;
  for (size_t i = 0; i < values.size(); ++i) {
    wanted[i] = residual.empty() ? values[i] : values[i] + residual[i];
    finite = finite && std::isfinite(wanted[i]);
    least = std::min(least, wanted[i]);
    greatest = std::max(greatest, wanted[i]);
  }
  finite = finite && std::isfinite(greatest - least);
  float step = (greatest - least) / kLevels;
  if (!finite) least = step = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(out, &least, sizeof(least));
  std::memcpy(out + sizeof(least), &step, sizeof(step));
  out += kChunkHead;
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t code = 0;
    if (step > 0) {
      const float level = std::nearbyint((wanted[i] - least) / step);
      code = static_cast<uint8_t>(std::clamp(level, 0.0F, kLevels));
    }
    out[i] = std::byte{code};
    if (!residual.empty()) residual[i] = finite ? wanted[i] - (least + step * code) : 0.0F;
  }
}

void DecodeChunk(const std::byte* encoded, std::span<float> values) {
  float least = 0;
  float step = 0;
  std::memcpy(&least, encoded, sizeof(least));
  std::memcpy(&step, encoded + sizeof(least), sizeof(step));
  encoded += kChunkHead;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = least + step * static_cast<float>(std::to_integer<uint8_t>(encoded[i]));
  }
}

class LocalCollective final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 1; }

  Status Sum(Channel channel, std::span<float> /*values*/, ReducePrecision /*precision*/,
             std::span<float> /*residual*/, absl::FunctionRef<void()> meanwhile) override {
    meanwhile();
    return StatusOf(channel);
  }
  Status Sum(Channel channel, std::span<double> /*values*/) override { return StatusOf(channel); }

  Status Gather(Channel channel, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    SIMURGH_CHECK_EQ(own.size(), all.size());
    std::ranges::copy(own, all.begin());
    return StatusOf(channel);
  }

  void Close(Channel channel) override {
    const MutexLock lock(mutex_);
    closed_[static_cast<size_t>(channel)] = true;
  }

  void Abort(const Status& reason) override {
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = reason;
  }

 private:
  Status StatusOf(Channel channel) {
    const MutexLock lock(mutex_);
    if (!status_.ok() || !closed_[static_cast<size_t>(channel)]) return status_;
    return absl::CancelledError("ranks: the channel is closed");
  }

  Mutex mutex_;
  Status status_ ABSL_GUARDED_BY(mutex_);
  std::array<bool, kChannels> closed_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace

size_t EncodedSize(size_t count, ReducePrecision precision) {
  switch (precision) {
    case ReducePrecision::kF32:
      return count * sizeof(float);
    case ReducePrecision::kBf16:
      return count * sizeof(uint16_t);
    case ReducePrecision::kInt8:
      return count + (count + kChunk - 1) / kChunk * kChunkHead;
  }
  return 0;
}

void EncodeValues(std::span<const float> values, ReducePrecision precision,
                  std::span<float> residual, std::span<std::byte> out) {
  SIMURGH_CHECK_EQ(out.size(), EncodedSize(values.size(), precision));
  if (!residual.empty()) SIMURGH_CHECK_EQ(residual.size(), values.size());
  switch (precision) {
    case ReducePrecision::kF32:
      if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
      break;
    case ReducePrecision::kBf16:
      EncodeBf16(values, residual, out);
      break;
    case ReducePrecision::kInt8:
      for (size_t first = 0; first < values.size(); first += kChunk) {
        const size_t count = std::min(kChunk, values.size() - first);
        EncodeChunk(values.subspan(first, count),
                    residual.empty() ? residual : residual.subspan(first, count),
                    out.data() + first / kChunk * (kChunk + kChunkHead));
      }
      break;
  }
}

void DecodeValues(std::span<const std::byte> encoded, ReducePrecision precision,
                  std::span<float> values) {
  SIMURGH_CHECK_EQ(encoded.size(), EncodedSize(values.size(), precision));
  switch (precision) {
    case ReducePrecision::kF32:
      if (!values.empty()) std::memcpy(values.data(), encoded.data(), encoded.size());
      break;
    case ReducePrecision::kBf16:
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t code = 0;
        std::memcpy(&code, encoded.data() + i * sizeof(code), sizeof(code));
        values[i] = FromBf16(code);
      }
      break;
    case ReducePrecision::kInt8:
      for (size_t first = 0; first < values.size(); first += kChunk) {
        DecodeChunk(encoded.data() + first / kChunk * (kChunk + kChunkHead),
                    values.subspan(first, std::min(kChunk, values.size() - first)));
      }
      break;
  }
}

void AddValues(std::span<const std::byte> encoded, ReducePrecision precision,
               std::span<float> sums) {
  SIMURGH_CHECK_EQ(encoded.size(), EncodedSize(sums.size(), precision));
  if (precision == ReducePrecision::kF32) {
    for (size_t i = 0; i < sums.size(); ++i) {
      float value = 0;
      std::memcpy(&value, encoded.data() + i * sizeof(value), sizeof(value));
      sums[i] += value;
    }
    return;
  }
  const size_t chunk_bytes = EncodedSize(kChunk, precision);
  float values[kChunk];
  while (!sums.empty()) {
    const size_t count = std::min(kChunk, sums.size());
    const size_t bytes = std::min(chunk_bytes, encoded.size());
    DecodeValues(encoded.first(bytes), precision, std::span(values, count));
    for (size_t i = 0; i < count; ++i) sums[i] += values[i];
    sums = sums.subspan(count);
    encoded = encoded.subspan(bytes);
  }
}

std::unique_ptr<Collective> NewLocalCollective() { return std::make_unique<LocalCollective>(); }

}  // namespace simurgh
