// Compares partitions with plain maps over millions of random operations, at capacities that reach
// every edge case. The model replays the recorded evictions and must then agree bit by bit.
//
// A failure prints its seed; SIMURGH_TEST_SEED=<seed> replays it.

#include "tests/property/table_model.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/partition.h"
#include "table/table_state.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {

// Records the evictions of a table in order.
class EvictionRecorder {
 public:
  void Attach(Table& table) {
    table.state_->on_evict = [this, &table](uint64_t id, EvictionCause cause) {
      const TableStats stats = table.stats();
      rows.push_back({id, cause, stats.created + stats.rejected_full});
    };
  }

  std::vector<Eviction> rows;
};

namespace {

uint64_t TestSeed() {
  const char* text = std::getenv("SIMURGH_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device()();
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// A partition with its model, and a trainer that drives both.
class Comparison {
 public:
  Comparison(const std::vector<TableConfig>& configs, uint64_t seed,
             const PartitionMemory& memory = {})
      : configs_(configs), random_(seed), evictions_(configs.size()) {
    partition_ = Partition::Create(configs, seed, nullptr, memory).value();
    for (size_t i = 0; i < configs.size(); ++i) {
      models_.emplace_back(configs[i], seed);
      evictions_[i].Attach(partition_->table(i));
    }
    NewRun();
  }

  // About `operations` ids in requests.
  void Run(uint64_t operations) {
    for (uint64_t requests = 0; handled_ < operations; ++requests) {
      const uint64_t kind = random_.Below(20);
      if (kind < 9) {
        Pull();
      } else if (kind < 17) {
        Push();
      } else {
        Evaluate();
      }
      if (random_.Below(2000) == 0) NewRun();
      if (requests % 512 == 0) CompareAll();
    }
    CompareAll();
  }

 private:
  struct Request {
    std::vector<std::vector<uint64_t>> ids;  // By group.
    std::vector<uint32_t> tables;
    std::vector<std::vector<float>> values;
  };

  // Groups of ids that are rather small numbers; `distinct` ids within a group.
  Request NewRequest(bool distinct) {
    Request request;
    const size_t groups = random_.Below(configs_.size() + 1);
    for (size_t group = 0; group < groups; ++group) {
      const auto table = static_cast<uint32_t>(random_.Below(configs_.size()));
      const uint64_t capacity = configs_[table].capacity_rows;
      const uint64_t known = capacity * 3 + 2;
      std::vector<uint64_t> ids(random_.Below(std::min<uint64_t>(2 * capacity + 2, 400)));
      for (uint64_t& id : ids) {
        const double u = random_.Uniform();
        id = static_cast<uint64_t>(static_cast<double>(known) * u * u * u);
      }
      if (distinct) {
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      }
      handled_ += ids.size() + 1;
      request.values.emplace_back(ids.size() * configs_[table].dim);
      request.ids.push_back(std::move(ids));
      request.tables.push_back(table);
    }
    ++handled_;
    return request;
  }

  MatrixView<float> Values(Request& request, size_t group) {
    return {request.values[group].data(), request.ids[group].size(),
            configs_[request.tables[group]].dim};
  }

  std::vector<PullGroup> PullGroups(Request& request) {
    std::vector<PullGroup> groups;
    groups.reserve(request.ids.size());
    for (size_t i = 0; i < request.ids.size(); ++i) {
      groups.push_back({request.tables[i], request.ids[i], Values(request, i)});
    }
    return groups;
  }

  static void RequireEqual(const PullReport& actual, const PullReport& expected) {
    const auto counts = [](const PullReport& report) {
      return std::array{report.found,   report.created,
                        report.unseen,  report.rejected_admission,
                        report.evicted, report.rejected_full};
    };
    REQUIRE(counts(actual) == counts(expected));
  }

  void Pull() {
    Request request = NewRequest(random_.Below(2) == 0);
    // One group per table, so that evictions are attributable.
    for (size_t i = 1; i < request.tables.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (request.tables[i] != request.tables[j]) continue;
        request.ids[i].clear();
        request.values[i].clear();
      }
    }
    for (EvictionRecorder& evictions : evictions_) evictions.rows.clear();
    step_ += random_.Below(3);
    if (random_.Below(5000) == 0) step_ += random_.Below(1 << 20);
    clock_ = std::max(clock_, clock_base_ + step_ - first_step_);
    const auto report = testing::PullWhole(*partition_, LookupMode::kTrain, {run_, 0, step_}, 0,
                                           PullGroups(request));
    REQUIRE(report.ok());
    PullReport expected;
    for (size_t i = 0; i < request.ids.size(); ++i) {
      const uint32_t table = request.tables[i];
      // EvictionRecorder are the table's, and only one of its groups has ids.
      const std::vector<Eviction> evicted =
          request.ids[i].empty() ? std::vector<Eviction>() : evictions_[table].rows;
      const auto rows = models_[table].Pull(request.ids[i], clock_, evicted, expected);
      INFO("table " << configs_[table].name);
      REQUIRE(SameBits(rows, request.values[i]));
    }
    RequireEqual(*report, expected);
  }

  void Evaluate() {
    Request request = NewRequest(false);
    for (auto& values : request.values) std::fill(values.begin(), values.end(), -1.0F);
    const auto report = testing::PullWhole(*partition_, LookupMode::kEvaluate, {run_, 0, step_}, 0,
                                           PullGroups(request));
    REQUIRE(report.ok());
    PullReport expected;
    for (size_t i = 0; i < request.ids.size(); ++i) {
      REQUIRE(models_[request.tables[i]].Evaluate(request.ids[i], expected) == request.values[i]);
    }
    RequireEqual(*report, expected);
  }

  void Push() {
    Request request = NewRequest(true);
    std::vector<PushGroup> groups;
    for (size_t i = 0; i < request.ids.size(); ++i) {
      for (float& value : request.values[i]) {
        value = static_cast<float>(random_.Uniform() * 2 - 1);
      }
      const float rate = random_.Below(2) == 0 ? 0.1F : 4.0F;  // The latter meets the bound.
      groups.push_back({request.tables[i], rate, request.ids[i], Values(request, i)});
    }
    const StepId step_id{run_, 0, pushed_steps_++};
    for (EvictionRecorder& evictions : evictions_) evictions.rows.clear();
    const auto report = testing::PushWhole(*partition_, step_id, groups);
    REQUIRE(report.ok());
    PushReport expected;
    for (size_t i = 0; i < groups.size(); ++i) {
      models_[groups[i].table].Push(request.ids[i], request.values[i], groups[i].learning_rate,
                                    step_id.step, expected);
    }
    for (size_t i = 0; i < models_.size(); ++i) models_[i].ReplayPush(evictions_[i].rows);
    REQUIRE(report->updated == expected.updated);
    REQUIRE(report->missing == expected.missing);
    REQUIRE_FALSE(report->repeated);
    if (random_.Below(8) == 0) {
      const auto again = testing::PushWhole(*partition_, step_id, groups);
      REQUIRE(again.ok());
      REQUIRE(again->repeated);
    }
  }

  void NewRun() {
    ++run_;
    step_ = random_.Below(2) == 0 ? 0 : random_.Below(1000);
    first_step_ = step_;
    clock_base_ = clock_ + 1;
    clock_ = clock_base_;
    REQUIRE(testing::PullWhole(*partition_, LookupMode::kTrain, {run_, 0, step_}, 0, {}).ok());
    pushed_steps_ = 0;
  }

  void CompareAll() {
    for (size_t i = 0; i < models_.size(); ++i) models_[i].Compare(partition_->table(i));
  }

  std::vector<TableConfig> configs_;
  Random random_;
  std::vector<EvictionRecorder> evictions_;
  std::vector<TableModel> models_;
  std::unique_ptr<Partition> partition_;
  uint64_t handled_ = 0;
  uint64_t run_ = 0;
  uint64_t step_ = 0;
  uint64_t first_step_ = 0;
  uint64_t pushed_steps_ = 0;
  uint64_t clock_ = 0;
  uint64_t clock_base_ = 0;
};

TableConfig Config(std::string name, uint32_t dim, uint64_t capacity,
                   const SparseOptimizerConfig& optimizer,
                   RowPrecision precision = RowPrecision::kF32) {
  TableConfig config;
  config.name = std::move(name);
  config.dim = dim;
  config.capacity_rows = capacity;
  config.optimizer = optimizer;
  config.weight_bound = 3.0F;
  config.precision = precision;
  if (precision == RowPrecision::kBf16) config.state_precision = precision;
  return config;
}

// Sketches as small as they get: many ids share counters.
TableConfig Gated(TableConfig config) {
  config.admission = {
      .kind = AdmissionConfig::Kind::kOccurrences, .occurrences = 3, .sketch_width = 16};
  return config;
}

TableConfig With(TableConfig config, const EvictionConfig& eviction) {
  config.eviction = eviction;
  return config;
}

TableConfig Refusing(TableConfig config) {
  config.when_full = WhenFull::kRefuse;
  return config;
}

// Tables of every kind.
std::vector<TableConfig> Configs(uint64_t capacity) {
  using Kind = SparseOptimizerConfig::Kind;
  return {Config("adagrad", 5, capacity, {.kind = Kind::kAdagrad}),
          Config("row-wise", 16, capacity, {.kind = Kind::kAdagrad, .row_wise = true},
                 RowPrecision::kF16),
          Gated(Config("sgd", 3, capacity + 1, {.kind = Kind::kSgd})),
          Config("adam", 9, capacity, {.kind = Kind::kAdam, .max_gradient_norm = 0.5F}),
          Config("bf16 adam", 7, capacity, {.kind = Kind::kAdam}, RowPrecision::kBf16),
          Refusing(With(Config("idle", 4, capacity, {.kind = Kind::kAdagrad}), {.idle_steps = 40})),
          With(Config("rules", 6, capacity, {.kind = Kind::kAdagrad}, RowPrecision::kBf16),
               {.idle_steps = 300,
                .low_use = {.below = 3, .idle_steps = 60},
                .small_norm = {.below = 0.05F, .idle_steps = 15}}),
          Refusing(Gated(With(Config("all", 8, capacity / 2 + 1, {.kind = Kind::kFtrl}),
                              {.idle_steps = 200,
                               .low_use = {.below = 4, .idle_steps = 50},
                               .small_norm = {.below = 0.02F, .idle_steps = 25}})))};
}

TEST_CASE("a partition agrees with plain maps over millions of operations") {
  const uint64_t seed = TestSeed();
  std::cout << "SIMURGH_TEST_SEED=" << seed << "\n";
  const uint64_t capacity = GENERATE(1, 2, 7, 64, 65, 1000, 5000, 20'000, 200'000);
  INFO("seed " << seed << ", capacity " << capacity);
  Comparison comparison(Configs(capacity), seed + capacity);
  comparison.Run(1'000'000);
}

TEST_CASE("a partition with cold rows agrees with plain maps") {
  const uint64_t seed = TestSeed();
  std::cout << "SIMURGH_TEST_SEED=" << seed << "\n";
  const uint64_t capacity = GENERATE(2, 7, 65, 1000, 20'000);
  const uint64_t memory = GENERATE(1, 3, 64, 2000);
  // Rows of every capacity fill many of the small segments.
  const uint64_t segment_bytes = GENERATE(uint64_t{128} << 10, uint64_t{8} << 20);
  if (memory >= capacity) return;
  INFO("seed " << seed << ", capacity " << capacity << ", in memory " << memory);
  std::vector<TableConfig> configs = Configs(capacity);
  for (const TableConfig& config : Configs(capacity)) {
    configs.push_back(config);
    configs.back().capacity_rows = 4 * capacity + 2;  // All ids have room.
  }
  for (TableConfig& config : configs) config.memory_rows = memory;
  const TemporaryFolder folder;
  Comparison comparison(configs, seed + capacity,
                        {.arena_directory = {},
                         .numa_node = {},
                         .cold_directory = folder.path(),
                         .make_cold_disk = [&](const std::string& directory) {
                           return ColdDisk::Create(directory, segment_bytes);
                         }});
  comparison.Run(300'000);
}

}  // namespace
}  // namespace simurgh
