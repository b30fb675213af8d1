#include "train/kept_row_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "simurgh/base/check.h"
#include "simurgh/base/hash.h"

namespace simurgh {
namespace {

constexpr size_t kWays = 16;
// Uses are halved when so many rows for each slot have come and found none.
constexpr uint64_t kAddsOfSlot = 10;
constexpr size_t kPrefetchIds = 12;

size_t TableCount(const std::vector<uint32_t>& tables) {
  return tables.empty() ? 0 : *std::ranges::max_element(tables) + size_t{1};
}

}  // namespace

KeptRowPlan::KeptRowPlan(size_t slots, uint32_t max_age_steps, std::vector<uint32_t> tables)
    : max_age_steps_(max_age_steps),
      tables_(std::move(tables)),
      table_count_(TableCount(tables_)),
      ways_(std::clamp<size_t>(slots, 1, kWays)),
      slots_(slots / ways_ * ways_),
      others_(slots * kCountersOfSlot) {
  SIMURGH_CHECK_LT(slots, size_t{KeptRows::kNoSlot});
}

KeptRows KeptRowPlan::Next(const CompactBatch& batch) {
  KeptRows kept;
  kept.here.resize((batch.ids.size() + 63) / 64);
  kept.slots.resize(batch.ids.size(), KeptRows::kNoSlot);
  kept.tables.resize(table_count_);
  ListIds(batch);
  coming_.clear();
  for (const Id& id : ids_) {
    if (id.number + kPrefetchIds < ids_.size()) Prefetch(ids_[id.number + kPrefetchIds].hash);
    if (Slot* slot = Find(id)) {
      Use(id, *slot, kept);
    } else {
      others_.Add(id.hash);
      coming_.push_back(id);
    }
  }
  // Once all uses are counted.
  for (const Id& id : coming_) kept.slots[id.number] = TakeSlot(id);
  for (const Id& id : ids_) {
    KeptRows::TableUse& table = kept.tables[id.table];
    if (kept.is_here(id.number)) {
      ++table.hits;
      continue;
    }
    ++table.misses;
    if (kept.slots[id.number] != KeptRows::kNoSlot) ++kept.moves;
  }
  kept.rows = rows_;
  adds_ += coming_.size();
  Forget();
  ++step_;
  return kept;
}

void KeptRowPlan::ListIds(const CompactBatch& batch) {
  std::vector<uint32_t> table_of_list(batch.list_count());
  for (size_t f = 0; f < tables_.size(); ++f) table_of_list[batch.list_of(f)] = tables_[f];
  ids_.clear();
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const uint32_t table = table_of_list[list];
    const uint64_t seed = Mix64(table);
    for (const uint64_t id : batch.list(list)) {
      ids_.push_back({.number = ids_.size(), .table = table, .id = id, .hash = Mix64(id ^ seed)});
    }
  }
}

size_t KeptRowPlan::FirstOfBucket(uint64_t hash) const {
  const auto buckets = static_cast<unsigned __int128>(slots_.size() / ways_);
  return static_cast<size_t>(buckets * hash >> 64) * ways_;
}

void KeptRowPlan::Prefetch(uint64_t hash) const {
  constexpr size_t kCacheLine = 64;
  others_.Prefetch(hash);
  if (slots_.empty()) return;
  const auto* const bucket = reinterpret_cast<const std::byte*>(&slots_[FirstOfBucket(hash)]);
  for (size_t byte = 0; byte < ways_ * sizeof(Slot); byte += kCacheLine) {
    __builtin_prefetch(bucket + byte);
  }
}

KeptRowPlan::Slot* KeptRowPlan::Find(const Id& id) {
  const auto bucket = std::span(slots_).subspan(FirstOfBucket(id.hash), slots_.empty() ? 0 : ways_);
  for (Slot& slot : bucket) {
    if (slot.taken && slot.id == id.id && slot.table == id.table) return &slot;
  }
  return nullptr;
}

void KeptRowPlan::Use(const Id& id, Slot& slot, KeptRows& kept) {
  if (slot.uses < UseSketch::kMax) ++slot.uses;
  const uint64_t age = step_ - slot.step;
  if (age == 0)
    return;  // Another list of this batch brings it: slots are filled once all are read.
  kept.slots[id.number] = static_cast<uint32_t>(&slot - slots_.data());
  if (age > max_age_steps_) {
    slot.step = step_;
    return;
  }
  kept.here[id.number / 64] |= uint64_t{1} << (id.number % 64);
  kept.age_steps = std::max(kept.age_steps, static_cast<uint32_t>(age));
  ++kept.hits;
}

uint32_t KeptRowPlan::TakeSlot(const Id& id) {
  if (slots_.empty() || Find(id) != nullptr) return KeptRows::kNoSlot;
  const auto bucket = std::span(slots_).subspan(FirstOfBucket(id.hash), ways_);
  const auto is_young = [this](const Slot& slot) { return step_ - slot.step < max_age_steps_; };
  const auto worth = [&](const Slot& slot) {
    return std::tuple(slot.taken != 0, is_young(slot), uint64_t{slot.uses}, uint64_t{slot.step});
  };
  Slot& least = *std::ranges::min_element(bucket, {}, worth);
  const uint8_t uses = others_.Of(id.hash);
  if (least.taken) {
    if (least.step == step_) return KeptRows::kNoSlot;  // A step fills a slot once.
    if (is_young(least) && uses <= least.uses) return KeptRows::kNoSlot;
    others_.Raise(Mix64(least.id ^ Mix64(least.table)), least.uses);
  } else {
    ++rows_;
  }
  least = {.id = id.id, .step = step_, .table = id.table, .uses = uses, .taken = true};
  return static_cast<uint32_t>(&least - slots_.data());
}

void KeptRowPlan::Forget() {
  if (adds_ < kAddsOfSlot * slots_.size()) return;
  adds_ = 0;
  for (Slot& slot : slots_) slot.uses /= 2;
  others_.Halve();
}

}  // namespace simurgh
