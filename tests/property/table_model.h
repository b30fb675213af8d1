#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/table/partition.h"
#include "table/admission.h"
#include "table/initializer.h"
#include "table/row_store.h"
#include "table/simd/coded_rows.h"
#include "table/simd/row_update.h"
#include "table/sparse_optimizer.h"

namespace simurgh {

// One table as it ought to be.
class TableModel {
 public:
  TableModel(const TableConfig& config, uint64_t seed)
      : config_(config),
        optimizer_(config.optimizer, config.dim, config.weight_bound),
        admission_(config.admission, config.name, seed),
        initializer_(config.initializer, config.name, config.dim, seed),
        format_(RowStore::FormatOf(config)),
        noise_seed_(RowStore::NoiseSeed(config, seed)) {}

  // Replays a pull that let `evicted` go, in order, and returns what it must have read: (U, D).
  std::vector<float> Pull(const std::vector<uint64_t>& ids, uint64_t stamp,
                          const std::vector<uint64_t>& evicted, PullReport& report) {
    std::vector<float> expected(ids.size() * config_.dim);
    std::vector<size_t> absent;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (rows_.contains(ids[i])) {
        ReadAndTouch(ids[i], stamp, &expected[i * config_.dim]);
        ++report.found;
      } else {
        absent.push_back(i);
      }
    }
    size_t replayed = 0;
    for (const size_t i : absent) {
      if (rows_.contains(ids[i])) {
        ++report.found;
      } else if (!admission_.Admit(ids[i])) {
        ++report.refused;
        continue;
      } else {
        if (rows_.size() == config_.capacity_rows) {
          if (replayed == evicted.size()) FAIL("a row is gone that no eviction told of");
          Evict(evicted[replayed++]);
        }
        Create(ids[i]);
        ++report.created;
      }
      ReadAndTouch(ids[i], stamp, &expected[i * config_.dim]);
    }
    if (replayed != evicted.size()) FAIL("more was evicted than room was needed");
    report.evicted += replayed;
    return expected;
  }

  std::vector<float> Evaluate(const std::vector<uint64_t>& ids, PullReport& report) const {
    std::vector<float> expected(ids.size() * config_.dim);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = rows_.find(ids[i]);
      if (found == rows_.end()) {
        ++report.unseen;
        continue;
      }
      std::copy_n(found->second.values.begin(), config_.dim, &expected[i * config_.dim]);
      ++report.found;
    }
    return expected;
  }

  void Push(const std::vector<uint64_t>& ids, const std::vector<float>& gradients,
            float learning_rate, uint64_t step, PushReport& report) {
    RowUpdateParameters parameters = optimizer_.parameters();
    parameters.learning_rate = learning_rate;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = rows_.find(ids[i]);
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
      const auto found = rows_.find(row.id);
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
    REQUIRE(visited == rows_.size());
    REQUIRE(table.stats().rows == rows_.size());
  }

 private:
  struct Row {
    std::vector<float> values;  // Weights, then state.
    uint64_t stamp = 0;
    uint64_t uses = 0;
  };

  // `values` stay what the row's format makes of them.
  void Update(const RowUpdateParameters& parameters, uint64_t id, uint64_t step,
              const float* gradient, Row& row) const {
    if (format_.plain()) {
      UpdateRowReference(parameters, {row.values.data(), gradient});
      return;
    }
    std::vector<std::byte> stored(format_.bytes());
    EncodeNewRow(format_, row.values.data(), stored.data());
    UpdateCodedRowReference(parameters, format_,
                            {stored.data(), gradient, RoundingNoise(noise_seed_, id, step)});
    DecodeRow(format_, stored.data(), row.values.data());
  }

  void Create(uint64_t id) {
    Row row;
    row.values.resize(config_.dim + optimizer_.state_floats());
    optimizer_.InitializeState({row.values.data() + config_.dim, optimizer_.state_floats()});
    initializer_.Fill(id, {row.values.data(), config_.dim});
    if (!format_.plain()) {
      std::vector<std::byte> stored(format_.bytes());
      EncodeNewRow(format_, row.values.data(), stored.data());
      DecodeRow(format_, stored.data(), row.values.data());
    }
    rows_.emplace(id, std::move(row));
    ++with_stamp_[0];
  }

  void ReadAndTouch(uint64_t id, uint64_t stamp, float* to) {
    Row& row = rows_.at(id);
    Forget(row.stamp);
    row.stamp = stamp;
    ++with_stamp_[stamp];
    ++row.uses;
    std::copy_n(row.values.begin(), config_.dim, to);
  }

  // Exactly the oldest of up to 64 rows, among the oldest twentieth of more.
  void Evict(uint64_t id) {
    const auto found = rows_.find(id);
    if (found == rows_.end()) FAIL("evicted a row that is not there: " << id);
    const size_t allowed = rows_.size() <= 64 ? 0 : rows_.size() / 20;
    size_t older = 0;
    for (const auto& [stamp, rows] : with_stamp_) {
      if (stamp >= found->second.stamp) break;
      older += rows;
      if (older > allowed) FAIL("evicted a row with more than " << allowed << " older ones");
    }
    Forget(found->second.stamp);
    rows_.erase(found);
  }

  void Forget(uint64_t stamp) {
    if (--with_stamp_[stamp] == 0) with_stamp_.erase(stamp);
  }

  TableConfig config_;
  SparseOptimizer optimizer_;
  Admission admission_;
  Initializer initializer_;
  RowFormat format_;
  uint64_t noise_seed_;
  std::unordered_map<uint64_t, Row> rows_;
  std::map<uint64_t, size_t> with_stamp_;
};

}  // namespace simurgh
