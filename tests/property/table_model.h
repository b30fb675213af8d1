#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "table/new_rows.h"
#include "table/partition.h"
#include "table/row_store.h"
#include "table/update_rules.h"
#include "tensor/half.h"
#include "tests/unit/table/row_references.h"

namespace simurgh {

// An eviction, and the number of rows created or denied before it.
struct Eviction {
  uint64_t id;
  EvictionCause cause;
  uint64_t decided;
};

// The expected state of one table.
class TableModel {
 public:
  TableModel(const TableConfig& config, uint64_t seed)
      : config_(config),
        admission_(config.admission, config.name, seed),
        initializer_(config.initializer, config.name, config.dim, seed),
        format_(RowStore::FormatOf(config)),
        noise_seed_(RowStore::NoiseSeed(config, seed)) {}

  // Replays a pull that evicted `evicted` in order, and returns the expected rows: (U, D).
  std::vector<float> Pull(const std::vector<uint64_t>& ids, uint64_t stamp,
                          const std::vector<Eviction>& evicted, PullReport& report) {
    std::vector<float> expected(ids.size() * config_.dim);
    if (ids.empty()) return expected;
    newest_ = stamp;
    evicted_ = evicted;
    replayed_ = 0;
    ReplayExpiries();
    std::vector<size_t> absent;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (rows_.contains(ids[i]) && !CauseOf(rows_.at(ids[i]))) {
        ReadAndTouch(ids[i], stamp, &expected[i * config_.dim]);
        ++report.found;
      } else {
        absent.push_back(i);
      }
    }
    for (const size_t i : absent) {
      ReplayExpiries();
      if (rows_.contains(ids[i])) {
        if (CauseOf(rows_.at(ids[i]))) FAIL("an expired row was found");
        ++report.found;
      } else if (!admission_.Admit(ids[i])) {
        ++report.rejected_admission;
        continue;
      } else if (!MakeRoom()) {
        ++report.rejected_full;
        ++rejected_full_;
        continue;
      } else {
        Create(ids[i]);
        ++report.created;
      }
      ReadAndTouch(ids[i], stamp, &expected[i * config_.dim]);
    }
    ReplayExpiries();
    if (replayed_ != evicted_.size()) FAIL("more was evicted than room was needed");
    report.evicted += evicted.size();
    return expected;
  }

  std::vector<float> Evaluate(const std::vector<uint64_t>& ids, PullReport& report) const {
    std::vector<float> expected(ids.size() * config_.dim);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = Living(ids[i]);
      if (found == rows_.end()) {
        ++report.unseen;
        continue;
      }
      std::copy_n(found->second.values.begin(), config_.dim, &expected[i * config_.dim]);
      ++report.found;
    }
    return expected;
  }

  // Replays the evictions of a push: cold rows that come back drive expired ones out of memory.
  void ReplayPush(const std::vector<Eviction>& evicted) {
    evicted_ = evicted;
    replayed_ = 0;
    ReplayExpiries();
    if (replayed_ != evicted_.size()) FAIL("a push has evicted a row that had not expired");
  }

  void Push(const std::vector<uint64_t>& ids, const std::vector<float>& gradients,
            float learning_rate, uint64_t step, PushReport& report) {
    RowUpdateParameters parameters = ParametersOf(config_);
    parameters.optimizer.learning_rate = learning_rate;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = Living(ids[i]);
      if (found == rows_.end()) {
        ++report.missing;
        continue;
      }
      Update(parameters, ids[i], step, &gradients[i * config_.dim], found->second);
      ++report.updated;
    }
  }

  // All rows, bit by bit.
  void Compare(const Table& table) const {
    size_t visited = 0;
    bool equal = true;
    table.ForEachRow([&](const RowContents& row) {
      ++visited;
      const auto found = Living(row.id);
      if (found == rows_.end()) {
        equal = false;
        return;
      }
      const Row& expected = found->second;
      equal =
          equal && row.recency == expected.stamp &&
          row.use_count == std::min<uint64_t>(expected.uses, 65535) &&
          row.weights.size() + row.state.size() == expected.values.size() &&
          std::memcmp(row.weights.data(), expected.values.data(), row.weights.size_bytes()) == 0 &&
          std::memcmp(row.state.data(), expected.values.data() + config_.dim,
                      row.state.size_bytes()) == 0;
    });
    REQUIRE(equal);
    size_t living = 0;
    for (const auto& [id, row] : rows_) living += static_cast<size_t>(!CauseOf(row));
    REQUIRE(visited == living);
    const TableStats stats = table.stats();
    REQUIRE(stats.rows == rows_.size());
    REQUIRE(stats.created == created_);
    REQUIRE(stats.rejected_full == rejected_full_);
    REQUIRE(stats.evicted_for == evicted_for_);
    // At most 24 bytes per row besides the record, plus a constant.
    constexpr uint64_t kFixed = uint64_t{256} << 10;
    if (config_.memory_rows > 0) return;  // Buffers of the disk.
    REQUIRE(stats.bytes <=
            max_rows_ * (RowLayout(format_).stride_bytes + 24) + kFixed + admission_.bytes_used());
  }

 private:
  struct Row {
    std::vector<float> values;  // Weights, then state.
    uint64_t stamp = 0;
    uint64_t uses = 0;
  };
  using RowMap = std::unordered_map<uint64_t, Row>;

  // Keeps `values` rounded to the row's format.
  void Update(const RowUpdateParameters& parameters, uint64_t id, uint64_t step,
              const float* gradient, Row& row) const {
    if (format_.plain()) {
      UpdateRowReference(parameters, {row.values.data(), gradient});
      return;
    }
    std::vector<std::byte> stored(format_.bytes());
    EncodeNewRow(format_, row.values.data(), stored.data());
    UpdateEncodedRowReference(parameters, format_,
                              {stored.data(), gradient, RoundingNoise(noise_seed_, id, step)});
    DecodeRow(format_, stored.data(), row.values.data());
  }

  void Create(uint64_t id) {
    Row row;
    row.values.resize(format_.floats());
    InitializeState(ParametersOf(config_), std::span(row.values).subspan(config_.dim));
    const Initializer::NewWeights weights = {id, row.values.data()};
    initializer_.Fill({&weights, 1});
    if (!format_.plain()) {
      std::vector<std::byte> stored(format_.bytes());
      EncodeNewRow(format_, row.values.data(), stored.data());
      DecodeRow(format_, stored.data(), row.values.data());
    }
    rows_.emplace(id, std::move(row));
    ++with_stamp_[0];
    ++created_;
    max_rows_ = std::max<uint64_t>(max_rows_, rows_.size());
  }

  RowMap::const_iterator Living(uint64_t id) const {
    const auto found = rows_.find(id);
    return found != rows_.end() && CauseOf(found->second) ? rows_.end() : found;
  }
  RowMap::iterator Living(uint64_t id) {
    const auto found = rows_.find(id);
    return found != rows_.end() && CauseOf(found->second) ? rows_.end() : found;
  }

  // Why a row has expired.
  std::optional<EvictionCause> CauseOf(const Row& row) const {
    const EvictionConfig& rules = config_.eviction;
    const uint64_t age = newest_ - std::min(newest_, row.stamp);
    if (rules.idle_steps > 0 && age > rules.idle_steps) return EvictionCause::kIdleSteps;
    if (row.uses < rules.low_use.below && age > rules.low_use.idle_steps) {
      return EvictionCause::kLowUse;
    }
    if (rules.small_norm.below > 0 && age > rules.small_norm.idle_steps) {
      double sum = 0;
      for (uint32_t i = 0; i < config_.dim; ++i) sum += double{row.values[i]} * row.values[i];
      const double bound = rules.small_norm.below;
      if (sum < bound * bound) return EvictionCause::kSmallNorm;
    }
    return std::nullopt;
  }

  bool NextIsNow() const {
    return replayed_ < evicted_.size() && evicted_[replayed_].decided == created_ + rejected_full_;
  }

  // Replays evictions by rule since the last row was created or denied.
  void ReplayExpiries() {
    while (NextIsNow() && evicted_[replayed_].cause >= EvictionCause::kIdleSteps) {
      ReplayNext();
    }
  }

  // Whether there is space for one more row, after an eviction if there was one.
  bool MakeRoom() {
    if (NextIsNow()) {
      if (rows_.size() < config_.capacity_rows) FAIL("evicted a row although there was room");
      ReplayNext();
      ReplayExpiries();  // An expired row made room in memory.
    }
    if (rows_.size() < config_.capacity_rows) return true;
    if (config_.when_full == WhenFull::kEvict) FAIL("a row is missing without an eviction");
    return false;
  }

  void ReadAndTouch(uint64_t id, uint64_t stamp, float* to) {
    Row& row = rows_.at(id);
    Forget(row.stamp);
    row.stamp = stamp;
    ++with_stamp_[stamp];
    ++row.uses;
    std::copy_n(row.values.begin(), config_.dim, to);
  }

  // A row evicted for space is exactly the oldest of up to 64. Of more it is among the oldest
  // twentieth, or younger than the oldest by at most 1/64 of its age: rows of nearly equal age are
  // evicted in any order.
  // Cold rows that a push has called back are taken for newer.
  void CheckRecency(uint64_t stamp) {
    if (config_.memory_rows > 0) return;
    const uint64_t oldest = with_stamp_.begin()->first;
    const uint64_t newest = with_stamp_.rbegin()->first;
    if (rows_.size() > 64 && (stamp - oldest) * 64 <= newest - oldest) return;
    const size_t allowed = rows_.size() <= 64 ? 0 : rows_.size() / 20;
    size_t older = 0;
    for (auto at = with_stamp_.begin(); at != with_stamp_.end() && at->first < stamp; ++at) {
      older += at->second;
    }
    if (older > allowed) {
      FAIL("evicted a row with " << older << " older ones of " << rows_.size() << ", "
                                 << newest - stamp << " steps old; the oldest is "
                                 << newest - oldest);
    }
  }

  // An expired row is evicted by its rule, any other only for space.
  void ReplayNext() {
    const Eviction eviction = evicted_[replayed_++];
    const auto found = rows_.find(eviction.id);
    if (found == rows_.end()) FAIL("evicted a row that is not there: " << eviction.id);
    const auto cause = CauseOf(found->second);
    if (eviction.cause != cause.value_or(EvictionCause::kCapacity)) {
      FAIL("row " << eviction.id << " went by " << kEvictionCauseNames[size_t(eviction.cause)]);
    }
    if (!cause) CheckRecency(found->second.stamp);
    ++evicted_for_[static_cast<size_t>(eviction.cause)];
    Forget(found->second.stamp);
    rows_.erase(found);
  }

  void Forget(uint64_t stamp) {
    if (--with_stamp_[stamp] == 0) with_stamp_.erase(stamp);
  }

  TableConfig config_;
  Admission admission_;
  Initializer initializer_;
  RowFormat format_;
  uint64_t noise_seed_;
  RowMap rows_;
  uint64_t newest_ = 0;
  uint64_t created_ = 0;
  uint64_t rejected_full_ = 0;
  uint64_t max_rows_ = 0;
  std::array<uint64_t, kEvictionCauses> evicted_for_{};
  std::vector<Eviction> evicted_;  // By the replayed pull.
  size_t replayed_ = 0;            // Of evicted_.
  std::map<uint64_t, size_t> with_stamp_;
};

}  // namespace simurgh
