// Which rows are kept, by how much of a trace they serve: against the rules that go by order alone.

#include <algorithm>
#include <iterator>
#include <list>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <catch2/catch.hpp>

#include "data/zipf.h"
#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"
#include "train/kept_row_plan.h"

namespace simurgh {
namespace {

constexpr uint32_t kMaxAge = 8;
constexpr size_t kDraws = 4'000;  // Of a step.
constexpr uint64_t kIds = 200'000;
constexpr double kExponent = 1.05;

// The distinct ids of a step, of a list each.
using Step = std::vector<std::vector<uint64_t>>;

Step Draw(const ZipfSampler& zipf, Random& random, size_t lists, uint64_t first_id = 0) {
  Step step(lists);
  for (auto& ids : step) {
    std::unordered_set<uint64_t> seen;
    for (size_t i = 0; i < kDraws / lists; ++i) {
      const uint64_t id = Mix64(first_id + zipf.Draw(random));
      if (seen.insert(id).second) ids.push_back(id);
    }
  }
  return step;
}

std::vector<Step> ZipfTrace(size_t steps, size_t lists = 1, uint64_t drift = 0) {
  const ZipfSampler zipf(kIds, kExponent);
  Random random(7);
  std::vector<Step> trace;
  for (size_t s = 0; s < steps; ++s) trace.push_back(Draw(zipf, random, lists, s * drift));
  return trace;
}

CompactBatch BatchOf(const Step& step) {
  CompactBatch batch;
  for (const auto& ids : step) {
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.unique_ends.push_back(static_cast<uint32_t>(batch.ids.size()));
  }
  return batch;
}

double PlanHits(const std::vector<Step>& trace, size_t slots) {
  std::vector<uint32_t> tables;
  for (uint32_t list = 0; list < trace[0].size(); ++list) tables.push_back(list);
  KeptRowPlan plan(slots, kMaxAge, tables);
  size_t hits = 0;
  size_t ids = 0;
  for (const Step& step : trace) {
    const CompactBatch batch = BatchOf(step);
    hits += plan.Next(batch).hits;
    ids += batch.ids.size();
  }
  return static_cast<double>(hits) / static_cast<double>(ids);
}

// Hits where the row goes that was used longest ago, or, by_coming, that came first.
double QueueHits(const std::vector<Step>& trace, size_t slots, bool by_coming) {
  struct Row {
    uint64_t step;
    std::list<uint64_t>::iterator place;
  };
  std::list<uint64_t> queue;  // The next to go at the front.
  std::unordered_map<uint64_t, Row> rows;
  size_t hits = 0;
  size_t all = 0;
  for (uint64_t s = 0; s < trace.size(); ++s) {
    for (size_t list = 0; list < trace[s].size(); ++list) {
      for (const uint64_t id : trace[s][list]) {
        ++all;
        const uint64_t key = Mix64(id ^ list);
        auto found = rows.find(key);
        if (found == rows.end()) {
          if (rows.size() == slots) {
            rows.erase(queue.front());
            queue.pop_front();
          }
          queue.push_back(key);
          rows.emplace(key, Row{s, std::prev(queue.end())});
          continue;
        }
        Row& row = found->second;
        if (s - row.step <= kMaxAge) {
          ++hits;
        } else {
          row.step = s;
        }
        if (!by_coming) queue.splice(queue.end(), queue, row.place);
      }
    }
  }
  return static_cast<double>(hits) / static_cast<double>(all);
}

TEST_CASE("The rows that are used most are kept: no fewer hits than by last use or first coming") {
  const std::vector<Step> trace = ZipfTrace(200, GENERATE(1, 2));
  for (const size_t slots : {200, 1'000, 4'000, 16'000}) {
    const double used = PlanHits(trace, slots);
    const double last = QueueHits(trace, slots, false);
    const double first = QueueHits(trace, slots, true);
    CAPTURE(slots, used, last, first);
    // Where all that is young has room, nothing serves more than the last use; but buckets
    // overflow.
    CHECK(used >= (slots < 16'000 ? last : 0.998 * last));
    CHECK(used >= first);
    if (slots <= 1'000) CHECK(used >= 5 * std::max(last, first));
  }
}

TEST_CASE("What batches use drifts, and what is kept follows") {
  const std::vector<Step> trace = ZipfTrace(200, 1, /*drift=*/GENERATE(5, 40));
  for (const size_t slots : {500, 2'000, 8'000}) {
    const double used = PlanHits(trace, slots);
    const double last = QueueHits(trace, slots, false);
    const double first = QueueHits(trace, slots, true);
    CAPTURE(slots, used, last, first);
    CHECK(used >= last);
    CHECK(used >= first);
  }
}

TEST_CASE("Hits and misses are told by table") {
  // Two lists are of one table, and no id of the middle one comes twice.
  KeptRowPlan plan(1'000, kMaxAge, {2, 0, 2});
  const CompactBatch first = BatchOf({{1, 2, 3}, {1, 2}, {3, 4}});
  const CompactBatch second = BatchOf({{2, 3, 5}, {7}, {4}});
  const auto check = [](const KeptRows& kept, size_t table, size_t hits, size_t misses) {
    CHECK(kept.tables.at(table).hits == hits);
    CHECK(kept.tables.at(table).misses == misses);
  };
  const KeptRows none = plan.Next(first);
  check(none, 0, 0, 2);
  check(none, 1, 0, 0);
  check(none, 2, 0, 5);
  CHECK(none.rows == 6);
  CHECK(none.moves == 6);  // Id 3 comes twice.
  const KeptRows some = plan.Next(second);
  check(some, 0, 0, 1);
  check(some, 1, 0, 0);
  check(some, 2, 3, 1);
  CHECK(some.hits == 3);
  CHECK(some.rows == 8);
  CHECK(some.moves == 2);
}

}  // namespace
}  // namespace simurgh
