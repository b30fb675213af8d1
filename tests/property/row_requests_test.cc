// Random and hostile requests to a server, beside a model of its rows: one that is wrong is an
// error and changes nothing, one that is right changes the rows that it names, as it must.
//
// A failure prints its seed; SIMURGH_TEST_SEED=<seed> replays it.

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "services/api/row_rpc.h"
#include "tests/property/row_requests_ends.h"

namespace simurgh {
namespace {

// A request that can be sent, and what is wrong with it.
struct Draft {
  bool pull = true;
  LookupMode mode = LookupMode::kTrain;
  StepId step_id;
  uint64_t acknowledged_steps = 0;
  uint64_t map_version = kMapVersion;
  std::vector<RowGroup> groups;
  std::vector<float> rates;
  std::vector<uint64_t> ids;
  std::vector<std::byte> gradients;
  int more_segments = 0;  // Below 0: fewer.
  bool damage = false;    // To the metadata, so that the result is unpredictable.

  bool wrong = false;
};

float FloatAt(const std::byte* at, RowPrecision precision, size_t index) {
  if (precision == RowPrecision::kF32) {
    float value;
    std::memcpy(&value, at + index * sizeof(float), sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, at + index * sizeof(half), sizeof(half));
  if (precision == RowPrecision::kBf16) return std::bit_cast<float>(uint32_t{half} << 16);
  const float size = (half & 0x7c00) == 0 ? std::ldexp(static_cast<float>(half & 0x3ff), -24)
                                          : std::ldexp(static_cast<float>((half & 0x3ff) | 0x400),
                                                       ((half & 0x7c00) >> 10) - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

class Requests {
 public:
  explicit Requests(uint64_t seed) : random_(seed) {}

  Draft Next() {
    Draft draft = Right();
    if (random_.Below(2) == 0) Spoil(draft);
    return draft;
  }

  rpc::OutgoingMessage MessageOf(const Draft& draft) {
    rpc::OutgoingMessage message = Encode(draft);
    if (draft.damage) {
      const std::span<const std::byte> bytes = message.metadata.bytes;
      auto damaged = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
      for (uint64_t flips = 1 + random_.Below(4); flips > 0; --flips) {
        (*damaged)[random_.Below(damaged->size())] = static_cast<std::byte>(random_.Below(256));
      }
      message.metadata = {*damaged, damaged};
    }
    if (draft.more_segments > 0) message.segments.push_back(message.segments.back());
    if (draft.more_segments < 0) message.segments.pop_back();
    return message;
  }

  // A push advances its trainer. After a damaged push the state is unknown, so a new run starts.
  void Pushed(const Draft& draft) {
    ++next_step_;
    if (!draft.damage) return;
    ++run_;
    next_step_ = 0;
  }

 private:
  static rpc::OutgoingMessage Encode(const Draft& draft) {
    const auto payload = std::make_shared<Draft>(draft);
    if (draft.pull) {
      const PullRowsCall call{.mode = draft.mode,
                              .step_id = draft.step_id,
                              .needed = {.acknowledged_steps = draft.acknowledged_steps},
                              .groups = payload->groups,
                              .ids = payload->ids,
                              .owner = payload};
      return api::Encode(call, draft.map_version).TakeMessage();
    }
    const PushRowsCall call{.step_id = draft.step_id,
                            .groups = payload->groups,
                            .learning_rates = payload->rates,
                            .ids = payload->ids,
                            .gradients = payload->gradients,
                            .owner = payload};
    return api::Encode(call, draft.map_version).TakeMessage();
  }

  Draft Right() {
    Draft draft{.pull = random_.Below(2) == 0};
    draft.mode = random_.Below(4) == 0 ? LookupMode::kEvaluate : LookupMode::kTrain;
    draft.step_id = {.run = run_, .rank = 0, .step = next_step_};
    draft.acknowledged_steps = random_.Below(next_step_ + 1);
    constexpr uint32_t kDims[] = {3, 8};
    for (uint32_t t = 0; t < 2; ++t) {
      if (random_.Below(5) == 0) continue;
      RowGroup group{t, kDims[t], {}, static_cast<RowPrecision>(random_.Below(3))};
      for (uint32_t p = 0; p < kPartitions; ++p) {
        // Distinct within a group: they ascend.
        uint64_t id = random_.Below(20);
        uint32_t count = 0;
        for (; id < kIds && count < 30; id += 1 + random_.Below(40), ++count) {
          draft.ids.push_back(id);
        }
        group.counts.push_back(count);
      }
      draft.groups.push_back(group);
      draft.rates.push_back(static_cast<float>(random_.Uniform()));
    }
    if (!draft.pull) AddGradients(draft);
    return draft;
  }

  void AddGradients(Draft& draft) {
    draft.gradients.resize(PayloadOf(draft.groups).bytes);
    size_t at = 0;
    for (const RowGroup& group : draft.groups) {
      const size_t size = SizeOf(group.precision);
      const RowPayload payload = PayloadOf(group);
      for (size_t i = 0; i < payload.ids * group.dim; ++i) {
        const auto value = static_cast<float>(random_.Uniform() - 0.5);
        // The upper half of an f32 is a bf16; an f16 is anything finite.
        uint32_t bits = std::bit_cast<uint32_t>(value);
        if (group.precision == RowPrecision::kBf16) bits >>= 16;
        if (group.precision == RowPrecision::kF16)
          bits = static_cast<uint32_t>(random_.Below(0x3c00));
        std::memcpy(draft.gradients.data() + at + i * size, &bits, size);
      }
      at += payload.bytes;
    }
  }

  void Spoil(Draft& draft) {
    draft.wrong = true;
    RowGroup* group = draft.groups.empty() ? nullptr : &draft.groups.back();
    switch (random_.Below(group == nullptr ? 7 : 15)) {
      case 0:
        draft.map_version = random_.Below(kMapVersion);
        break;
      case 1:
        draft.ids.resize(draft.ids.size() + 1 + random_.Below(9));
        break;
      case 2:
        draft.more_segments = random_.Below(2) == 0 ? 1 : -1;
        break;
      case 3:
        draft.damage = true;
        break;
      case 4:                             // Steps that the server has not seen.
        draft.mode = LookupMode::kTrain;  // An evaluation without rows reaches no partition.
        draft.acknowledged_steps = next_step_ + 1 + random_.Below(9);
        draft.step_id.step = next_step_ + 1'024 + random_.Below(9);
        break;
      case 5:
        draft.pull = false;
        AddGradients(draft);
        draft.gradients.resize(draft.gradients.size() + 1 + random_.Below(99));
        break;
      case 6:
        draft.pull = false;
        AddGradients(draft);
        draft.step_id.order = static_cast<PushOrder>(3 + random_.Below(9));
        break;
      case 7:
        group->table = 2 + static_cast<uint32_t>(random_.Below(5));
        break;
      case 8:
        group->dim += 1 + static_cast<uint32_t>(random_.Below(2'000));
        break;
      case 9:
        group->counts.resize(random_.Below(2) == 0 ? 1 : 3);
        break;
      case 10:
        group->counts[random_.Below(kPartitions)] += 1 + static_cast<uint32_t>(random_.Below(5));
        break;
      case 11:
        group->counts[0] = std::numeric_limits<uint32_t>::max();
        break;
      case 12:
        group->precision = static_cast<RowPrecision>(3 + random_.Below(200));
        break;
      case 13:  // A table twice.
        draft.groups.push_back(*group);
        draft.rates.push_back(0.5F);
        break;
      default:
        draft.pull = false;
        AddGradients(draft);
        draft.rates.back() =
            random_.Below(2) == 0 ? std::numeric_limits<float>::quiet_NaN() : -1.0F;
    }
  }

  Random random_;
  uint64_t run_ = 1'000'000;  // None of those that damage leads to.
  uint64_t next_step_ = 0;
};

// Compares a response with the model, which then adopts the server's state.
void CheckRight(const Draft& draft, const rpc::IncomingMessage& answer, const Rows& before,
                const Rows& after) {
  Rows expected = before;
  const std::byte* payload =
      draft.pull ? answer.segments.at(0).bytes.data() : draft.gradients.data();
  if (draft.pull) REQUIRE(answer.segments[0].bytes.size() == PayloadOf(draft.groups).bytes);
  ForEachRun(draft.groups, [&](size_t p, size_t g, size_t id, size_t count, size_t byte) {
    const RowGroup& group = draft.groups[g];
    const bool half = group.precision != RowPrecision::kF32;
    for (size_t i = 0; i < count; ++i) {
      const Key key{p, group.table, draft.ids[id + i]};
      const std::byte* numbers = payload + byte + i * group.dim * SizeOf(group.precision);
      const auto row = after.find(key);
      // Only a training pull makes rows, and it makes all that it names.
      if (draft.pull && draft.mode == LookupMode::kTrain) {
        REQUIRE(row != after.end());
        Row& model = expected[key];
        if (model.weights.empty()) model.weights = row->second.weights;
        ++model.use_count;
      } else {
        REQUIRE((row != after.end()) == before.contains(key));
      }
      for (size_t d = 0; d < group.dim; ++d) {
        const float number = FloatAt(numbers, group.precision, d);
        if (draft.pull) {
          const float weight = row == after.end() ? 0.0F : row->second.weights[d];
          if (!half) REQUIRE(number == weight);
          // 8 bits of a bf16, 11 of an f16, whose steps end at 2^-24.
          REQUIRE(std::abs(number - weight) <= std::abs(weight) * 0x1p-8F + 0x1p-25F);
        } else if (row != after.end()) {
          float& weight = expected[key].weights[d];
          weight = std::clamp(weight - draft.rates[g] * number, -kBound, kBound);
        }
      }
    }
  });
  // A pull after a leap of 2^31 steps, which damage can bring, makes all older rows equally old.
  if (draft.pull && draft.mode == LookupMode::kTrain) {
    for (auto& [key, row] : expected) {
      if (const auto found = after.find(key); found != after.end()) {
        row.recency = found->second.recency;
      }
    }
  }
  for (const auto& [key, row] : expected) {
    const auto found = after.find(key);
    if (found != after.end() && found->second == row) continue;
    UNSCOPED_INFO("partition " << std::get<0>(key) << ", table " << std::get<1>(key) << ", id "
                               << std::get<2>(key));
    if (found == after.end()) continue;
    UNSCOPED_INFO(found->second << " in place of " << row);
  }
  REQUIRE(after == expected);
}

void RunRequests(const std::string& transport, uint64_t seed, int count) {
  CAPTURE(transport, seed);
  Ends ends(transport);
  Requests requests(seed);
  Rows rows = ends.Snapshot();
  int refused = 0;
  int answered = 0;
  for (int i = 0; i < count; ++i) {
    const Draft draft = requests.Next();
    const auto answer = draft.pull ? ends.Call(api::kPullRows, requests.MessageOf(draft))
                                   : ends.Call(api::kPushRows, requests.MessageOf(draft));
    Rows now = ends.Snapshot();
    CAPTURE(i, answer.status());
    if (!answer.ok()) {
      REQUIRE(draft.wrong);
      REQUIRE(!absl::IsUnavailable(answer.status()));  // The server is well.
      REQUIRE(!absl::IsInternal(answer.status()));
      REQUIRE(now == rows);
      ++refused;
    } else if (draft.damage) {
      // Its ids are valid, whatever the metadata describe now.
      for (const auto& [key, row] : now) {
        if (std::ranges::find(draft.ids, std::get<2>(key)) != draft.ids.end()) continue;
        const auto before = rows.find(key);
        REQUIRE(before != rows.end());
        Row same = before->second;
        same.recency = row.recency;  // As in CheckRight().
        REQUIRE(same == row);
      }
      if (!draft.pull) requests.Pushed(draft);
    } else {
      REQUIRE(!draft.wrong);
      CheckRight(draft, *answer, rows, now);
      if (!draft.pull) requests.Pushed(draft);
      ++answered;
    }
    rows = std::move(now);
  }
  CHECK(refused > count / 4);
  CHECK(answered > count / 4);
}

TEST_CASE("an invalid request changes no row, a valid one exactly the rows that it names") {
  const char* text = std::getenv("SIMURGH_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device()();
  std::cout << "SIMURGH_TEST_SEED=" << seed << "\n";
  RunRequests("unix", seed, 3'000);
  RunRequests("shm", seed + 1, 3'000);
}

}  // namespace
}  // namespace simurgh
