#include "train/kept_row_plan.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {
namespace {

constexpr size_t kFeatures = 3;
const std::vector<uint32_t> kTables = {0, 1, 0};  // Two lists of one table.

std::shared_ptr<const CompactBatch> BatchOf(Random& random) {
  BatchBuilder builder(kFeatures, 0);
  for (int sample = 0; sample < 20; ++sample) {
    for (size_t f = 0; f < kFeatures; ++f) {
      // Few ids come often.
      builder.AddId(f, random.Below(1 + random.Below(60)));
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// What a slot of the network holds.
struct Held {
  uint32_t table;
  uint64_t id;
  uint64_t step;
};

TEST_CASE("Slots hold the rows that a batch is to find there, none of them too old", "[kept]") {
  const size_t slots = GENERATE(1, 7, 40, 1000);
  const uint32_t max_age = GENERATE(1, 3);
  CAPTURE(slots, max_age);
  KeptRowPlan plan(slots, max_age, kTables);
  std::vector<std::optional<Held>> memory(slots);
  Random random(slots + max_age);
  size_t hits = 0;
  uint32_t oldest = 0;
  for (uint64_t step = 0; step < 200; ++step) {
    const auto batch = BatchOf(random);
    const KeptRows kept = plan.Next(*batch);
    REQUIRE(kept.slots.size() == batch->ids.size());
    std::map<uint32_t, Held> filled;
    uint32_t oldest_here = 0;
    size_t hits_here = 0;
    size_t id = 0;
    for (size_t list = 0; list < batch->list_count(); ++list) {
      for (const uint64_t value : batch->list(list)) {
        const uint32_t slot = kept.slots[id];
        if (kept.is_here(id++)) {
          REQUIRE(memory.at(slot));
          CHECK(memory[slot]->table == kTables[list]);
          CHECK(memory[slot]->id == value);
          CHECK(memory[slot]->step < step);
          oldest_here = std::max(oldest_here, static_cast<uint32_t>(step - memory[slot]->step));
          ++hits_here;
        } else if (slot != KeptRows::kNoSlot) {
          REQUIRE(slot < slots);
          CHECK(filled.emplace(slot, Held{kTables[list], value, step}).second);
        }
      }
    }
    for (const auto& [slot, held] : filled) memory[slot] = held;
    CHECK(kept.hits == hits_here);
    CHECK(kept.age_steps == oldest_here);
    CHECK(kept.rows <= slots);
    hits += hits_here;
    oldest = std::max(oldest, oldest_here);
  }
  CHECK(oldest <= max_age);
  if (slots < 1000) return;
  CHECK(oldest == max_age);
  CHECK(hits > 1000);
}

TEST_CASE("A row that loses its slot keeps its uses", "[kept]") {
  constexpr uint64_t kOften = 5;
  constexpr uint64_t kOther = 6;
  KeptRowPlan plan(/*slots=*/1, /*max_age_steps=*/100, {1});
  const auto has_slot = [&plan](uint64_t id) {
    const CompactBatch batch{
        .batch_size = 1, .ids = {id}, .occurrences = {0}, .offsets = {0, 1}, .unique_ends = {1}};
    return plan.Next(batch).slots[0] != KeptRows::kNoSlot;
  };
  for (int use = 1; use <= 3; ++use) CHECK(has_slot(kOften));
  for (int use = 1; use <= 3; ++use) CHECK_FALSE(has_slot(kOther));
  CHECK(has_slot(kOther));  // The fourth time.
  CHECK_FALSE(has_slot(kOften));
  CHECK(has_slot(kOften));  // The fifth.
}

TEST_CASE("Without slots every row comes, every time", "[kept]") {
  KeptRowPlan plan(0, 3, kTables);
  Random random(1);
  for (int step = 0; step < 3; ++step) {
    const KeptRows kept = plan.Next(*BatchOf(random));
    CHECK(kept.hits == 0);
    CHECK(kept.rows == 0);
    for (const uint32_t slot : kept.slots) CHECK(slot == KeptRows::kNoSlot);
  }
}

}  // namespace
}  // namespace simurgh
