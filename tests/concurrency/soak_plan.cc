#include "tests/concurrency/soak_plan.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace simurgh::rpc {
namespace {

using std::chrono::microseconds;

constexpr size_t kPoolBytes = size_t{16} << 20;

const std::vector<std::byte>& Pool() {
  static const std::vector<std::byte> pool = [] {
    Random random(1);
    std::vector<std::byte> bytes(kPoolBytes);
    for (size_t i = 0; i < kPoolBytes; i += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(bytes.data() + i, &word, sizeof(word));
    }
    return bytes;
  }();
  return pool;
}

uint32_t SegmentBytes(Random& random) {
  const uint64_t dice = random.Below(1'000);
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random.Below(bound)); };
  if (dice < 50) return 0;
  if (dice < 700) return below(256);
  if (dice < 900) return below(8'192);
  if (dice < 991) return below(65'536);
  if (dice < 998) return below(500'000);
  return below(4'000'000);
}

PlannedMessage PlanMessage(Random& random) {
  PlannedMessage message;
  const uint64_t dice = random.Below(100);
  message.metadata_bytes = static_cast<uint32_t>(random.Below(dice < 95 ? 100 : 10'000));
  const uint64_t segments = dice % 10 == 0 ? random.Below(6) : random.Below(3);
  for (uint64_t i = 0; i < segments; ++i) message.segments.push_back(SegmentBytes(random));
  message.in_place = random.Below(2) == 0;
  message.allocate = random.Below(2) == 0;
  if (dice == 77) message.segments.assign(300, 17);  // More than one system call gathers.
  return message;
}

Act PlanAct(Random& random) {
  const uint64_t dice = random.Below(1'000);
  if (dice < 30) return Act::kFail;
  if (dice < 35) return Act::kThrow;
  if (dice < 50) return Act::kHang;
  if (dice < 65) return Act::kRefuseRequest;
  if (dice < 80) return Act::kRefuseResponse;
  if (dice < 90) return Act::kUnknownMethod;
  return Act::kAnswer;
}

}  // namespace

CallPlan PlanOf(uint64_t seed, uint64_t id) {
  Random random(Mix64(seed) ^ Mix64(~id));
  CallPlan plan;
  plan.act = PlanAct(random);
  plan.hops = random.Below(4) == 0 ? static_cast<uint32_t>(random.Below(50)) : 0;
  plan.request = PlanMessage(random);
  plan.response = PlanMessage(random);
  plan.borrowed = random.Below(2) == 0;
  const bool must_end = plan.act == Act::kHang;
  // A call takes about a millisecond, so each of these ends some calls.
  const auto soon = [&] { return microseconds(random.Below(5'000)); };
  const uint64_t dice = random.Below(100);
  if (dice < 4 || (must_end && dice < 50)) {
    plan.deadline = soon();
  } else if (dice < 8 || must_end) {
    plan.cancel = soon();
  } else if (dice < 9) {
    plan.deadline = microseconds(-1);
  } else if (dice < 60) {
    plan.deadline = std::chrono::minutes(10);
  }
  return plan;
}

std::vector<std::byte> MetadataOf(const PlannedMessage& message, uint64_t id, Direction direction) {
  const auto rest =
      Pool().begin() + static_cast<ptrdiff_t>(Mix64(id * 2 + static_cast<uint64_t>(direction)) %
                                              (kPoolBytes - message.metadata_bytes));
  std::vector<std::byte> metadata(sizeof(id) + message.metadata_bytes);
  std::memcpy(metadata.data(), &id, sizeof(id));
  std::copy_n(rest, message.metadata_bytes, metadata.begin() + sizeof(id));
  return metadata;
}

std::optional<uint64_t> IdOf(std::span<const std::byte> metadata) {
  uint64_t id = 0;
  if (metadata.size() < sizeof(id)) return std::nullopt;
  std::memcpy(&id, metadata.data(), sizeof(id));
  return id;
}

std::span<const std::byte> ContentOf(const PlannedMessage& message, uint64_t id,
                                     Direction direction, size_t index) {
  const size_t size = message.segments[index];
  const uint64_t stretch = Mix64(id * 2 + static_cast<uint64_t>(direction)) + Mix64(index + 1);
  return std::span(Pool()).subspan(stretch % (kPoolBytes - size), size);
}

}  // namespace simurgh::rpc
