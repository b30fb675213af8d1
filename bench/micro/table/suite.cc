#include "bench/micro/table/suite.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace simurgh::bench {
namespace {

// Approximate number of rows per thread in one turn of a measurement.
constexpr size_t kRowsPerTurn = 1 << 22;
constexpr size_t kInsertTurns = 3;
constexpr size_t kTurnsOfTries = 5;
constexpr size_t kTurnsOfRivalTries = 3;
// In `mixed`, one id in kOneNewIn is new.
constexpr size_t kOneNewIn = 64;
// Growth is measured from this size: a smaller table is mostly its first pages.
constexpr uint64_t kRowsWhereGrowthCounts = 100'000;

Batch FreshBatch(uint64_t first, size_t size) {
  Batch batch;
  for (size_t i = 0; i < size; ++i) batch.ids.push_back(IdOf(first + i));
  return batch;
}

}  // namespace

Suite::Suite(const TableBenchOptions& options, const TableConfig& config, Report& report)
    : options_(options),
      config_(config),
      kind_(KindOf(config)),
      report_(report),
      rows_(config.capacity_rows),
      // The rivals support only f32.
      rivals_(options.rivals && kind_.format.plain()),
      bare_(rows_, kind_),
      gradients_(options.batch * config.dim, 0.001F),
      out_(options.threads, std::vector<float>(options.batch * config.dim)),
      tables_(options.threads) {}

double Suite::RowsPerSecond(size_t threads, const Work& work) const {
  const size_t batches = batches_[0].size();
  const double seconds = SecondsOf(threads, [&](size_t thread) {
    for (size_t batch = 0; batch < batches; ++batch) work(thread, batch);
  });
  return static_cast<double>(threads * batches * options_.batch) / seconds;
}

// The same, after an eighth of it that is not timed: what was measured before has left lines that
// must be written back.
double Suite::SteadyRowsPerSecond(size_t threads, const Work& work) const {
  SecondsOf(threads, [&](size_t thread) {
    for (size_t batch = 0; batch < batches_[0].size(); batch += 8) work(thread, batch);
  });
  return RowsPerSecond(threads, work);
}

void Suite::Draw(Distribution distribution) {
  batches_.clear();
  for (size_t thread = 0; thread < options_.threads; ++thread) {
    batches_.push_back(DrawBatches(distribution, rows_, options_.batch,
                                   std::max<size_t>(1, kRowsPerTurn / options_.batch), 7 + thread));
  }
}

// Tries all ways for each, in turns, and leaves it at its best; answers the rates there.
std::vector<double> Suite::Tune(const std::vector<Tunable>& tunables, size_t turns) const {
  const std::vector<Fetching> ways = WaysOfFetching();
  std::vector<Measurement> tries;
  for (const Fetching& way : ways) {
    for (const Tunable& tunable : tunables) {
      tries.push_back({.name = tunable.name, .run = [way, &tunable] {
                         tunable.set(way);
                         return tunable.run();
                       }});
    }
  }
  RunTurns(tries, turns);
  std::vector<double> rates;
  std::string note;
  for (size_t t = 0; t < tunables.size(); ++t) {
    size_t best = 0;
    for (size_t way = 1; way < ways.size(); ++way) {
      const size_t count = tunables.size();
      if (MedianRatio(tries[way * count + t], tries[best * count + t]) > 1) best = way;
    }
    tunables[t].set(ways[best]);
    rates.push_back(Median(tries[best * tunables.size() + t].rates));
    absl::StrAppend(&note, t > 0 ? "; " : "", tunables[t].name, " fetching ", NameOf(ways[best]));
  }
  report_.Note(note);
  return rates;
}

void Suite::TuneLimits() {
  const auto limits = LimitsAt(1);
  const std::vector<double> rates =
      Tune({{"gather limit", [&](const Fetching& way) { bare_.set_gather_fetching(way); },
             limits[0].run},
            {"update limit", [&](const Fetching& way) { bare_.set_update_fetching(way); },
             limits[1].run}},
           kTurnsOfTries);
  report_.Note(
      absl::StrCat("gather limit ", kind_.format.weight_bytes() * rates[0] * 1e-9, " GB/s"));
}

void Suite::TuneRival() {
  std::vector<Measurement> uses;
  AddSubject("flat_hash_map", *flat_map_, uses);
  std::vector<Measurement> tries;
  constexpr size_t kIndexAhead[] = {8, 16, 24, 32, 48, 64};
  for (const size_t ids : kIndexAhead) {
    tries.push_back({.name = "index", .run = [this, ids, run = uses[0].run] {
                       flat_map_->set_index_ahead(ids);
                       return run();
                     }});
  }
  RunTurns(tries, kTurnsOfRivalTries);
  size_t best = 0;
  for (size_t i = 1; i < tries.size(); ++i) {
    if (MedianRatio(tries[i], tries[best]) > 1) best = i;
  }
  flat_map_->set_index_ahead(kIndexAhead[best]);
  report_.Note(absl::StrCat("flat_hash_map fetching its index ", kIndexAhead[best], " ids ahead"));
  TuneSubject("flat_hash_map", *flat_map_);
}

// How its pulls and pushes fetch their rows.
template <typename Tuned>
void Suite::TuneSubject(const std::string& prefix, Tuned& subject) {
  std::vector<Measurement> uses;
  AddSubject(prefix, subject, uses);
  Tune({{uses[0].name, [&](const Fetching& way) { subject.set_pull_fetching(way); }, uses[0].run},
        {uses[1].name, [&](const Fetching& way) { subject.set_push_fetching(way); }, uses[1].run}},
       kTurnsOfRivalTries);
}

std::vector<Measurement> Suite::LimitsAt(size_t threads) {
  return {
      {.name = "limit_gather",
       .threads = threads,
       .run =
           [this, threads] {
             return SteadyRowsPerSecond(threads, [this](size_t thread, size_t batch) {
               bare_.Gather(batches_[thread][batch], out_[thread].data());
             });
           }},
      {.name = "limit_update",
       .threads = threads,
       .run =
           [this, threads] {
             return SteadyRowsPerSecond(threads, [this](size_t thread, size_t batch) {
               bare_.Update(batches_[thread][batch], gradients_.data());
             });
           }},
  };
}

// Pulls all rows once, in the order of their numbers; rows a second.
double Suite::Fill(Subject& subject) {
  double seconds = 0;
  for (uint64_t first = 0; first < rows_; first += options_.batch) {
    const Batch batch = FreshBatch(first, std::min<uint64_t>(options_.batch, rows_ - first));
    seconds += SecondsOf(1, [&](size_t) { subject.Pull(batch, out_[0].data()); });
  }
  return static_cast<double>(rows_) / seconds;
}

void Suite::MeasureInsert() {
  double max_bytes = 0;
  std::vector<Measurement> all = LimitsAt(1);
  all.pop_back();
  all.push_back({.name = "insert", .limit = 0, .run = [&] {
                   tables_[0] = nullptr;  // Before another takes as much memory.
                   tables_[0] = std::make_unique<TableSubject>(config_);
                   return Fill(*tables_[0]);
                 }});
  RunTurns(all, std::min(options_.turns, kInsertTurns));
  // Once more, watching the memory.
  tables_[0] = nullptr;
  tables_[0] = std::make_unique<TableSubject>(config_);
  for (uint64_t first = 0; first < rows_; first += options_.batch) {
    tables_[0]->Pull(FreshBatch(first, std::min<uint64_t>(options_.batch, rows_ - first)),
                     out_[0].data());
    const TableStats stats = tables_[0]->stats();
    if (stats.rows < kRowsWhereGrowthCounts) continue;
    max_bytes =
        std::max(max_bytes, static_cast<double>(stats.bytes) / static_cast<double>(stats.rows));
  }
  report_.Add(all, "new", max_bytes);
}

void Suite::MeasureRivalInsert() {
  std::vector<Measurement> all = LimitsAt(1);
  all.pop_back();
  all.push_back({.name = "flat_hash_map_insert", .limit = 0, .run = [&] {
                   flat_map_ = std::make_unique<FlatMapSubject>(kind_, bare_);
                   return Fill(*flat_map_);
                 }});
  all.push_back({.name = "persia_insert", .limit = 0, .run = [&] {
                   persia_ = std::make_unique<PersiaSubject>(kind_);
                   return Fill(*persia_);
                 }});
  RunTurns(all, 1);
  report_.Add(all, "new", 0);
}

void Suite::AddTables(size_t threads, int limit, std::vector<Measurement>& all) {
  all.push_back({.name = "pull", .threads = threads, .limit = limit, .run = [this, threads] {
                   return SteadyRowsPerSecond(threads, [this](size_t thread, size_t batch) {
                     tables_[thread]->Pull(batches_[thread][batch], out_[thread].data());
                   });
                 }});
  all.push_back({.name = "push", .threads = threads, .limit = limit + 1, .run = [this, threads] {
                   return SteadyRowsPerSecond(threads, [this](size_t thread, size_t batch) {
                     tables_[thread]->Push(batches_[thread][batch], gradients_.data());
                   });
                 }});
}

void Suite::AddSubject(const std::string& prefix, Subject& subject, std::vector<Measurement>& all) {
  all.push_back({.name = prefix + "_pull", .limit = 0, .run = [&] {
                   return SteadyRowsPerSecond(1, [&](size_t, size_t batch) {
                     subject.Pull(batches_[0][batch], out_[0].data());
                   });
                 }});
  all.push_back({.name = prefix + "_push", .limit = 1, .run = [&] {
                   return SteadyRowsPerSecond(1, [&](size_t, size_t batch) {
                     subject.Push(batches_[0][batch], gradients_.data());
                   });
                 }});
}

void Suite::MeasureUse(Distribution distribution) {
  Draw(distribution);
  std::vector<Measurement> all = LimitsAt(1);
  AddTables(1, 0, all);
  const size_t alone = 2;
  if (rivals_) {
    AddSubject("flat_hash_map", *flat_map_, all);
    AddSubject("persia", *persia_, all);
  }
  const size_t shared = all.size();
  if (shared_ != nullptr) AddSubject("shared", *shared_, all);
  const size_t bare = all.size();
  if (bare_table_ != nullptr) AddSubject("bare", *bare_table_, all);
  const auto together = static_cast<int>(all.size());
  if (options_.threads > 1) {
    for (Measurement& limit : LimitsAt(options_.threads)) all.push_back(std::move(limit));
    AddTables(options_.threads, together, all);
  }
  RunTurns(all, options_.turns);
  const TableStats stats = tables_[0]->stats();
  report_.Add(all, NameOf(distribution),
              static_cast<double>(stats.bytes) / static_cast<double>(stats.rows));
  if (rivals_) {
    report_.Note(absl::StrCat("over persia: pull ", MedianRatio(all[alone], all[6]), ", push ",
                              MedianRatio(all[alone + 1], all[7])));
  }
  if (shared_ != nullptr) {
    report_.Note(absl::StrCat("shared over private: pull ", MedianRatio(all[shared], all[alone]),
                              ", push ", MedianRatio(all[shared + 1], all[alone + 1])));
  }
  if (bare_table_ != nullptr) {
    report_.Note(absl::StrCat("over loops with known row numbers: pull ",
                              MedianRatio(all[alone], all[bare]), ", push ",
                              MedianRatio(all[alone + 1], all[bare + 1])));
  }
  if (options_.threads > 1) {
    report_.Note(absl::StrCat(options_.threads, " partitions over one: pull ",
                              MedianRatio(all[together + 2], all[alone]), ", push ",
                              MedianRatio(all[together + 3], all[alone + 1])));
  }
}

// The table is full: every new row evicts one.
void Suite::MeasureNewIds() {
  Draw(Distribution::kUniform);
  std::vector<Measurement> all = LimitsAt(1);
  all.push_back({.name = "limit_mixed", .run = [&] {
                   return RowsPerSecond(1, [&](size_t, size_t batch) {
                     bare_.Gather(batches_[0][batch], out_[0].data());
                     bare_.Update(batches_[0][batch], gradients_.data());
                   });
                 }});
  uint64_t next = rows_;
  std::vector<Batch> mixed;
  all.push_back({.name = "mixed", .limit = 2, .run = [&] {
                   mixed = batches_[0];
                   for (Batch& batch : mixed) {
                     for (size_t i = 0; i < batch.ids.size(); i += kOneNewIn) {
                       batch.ids[i] = IdOf(next++);
                     }
                   }
                   return RowsPerSecond(1, [&](size_t, size_t batch) {
                     tables_[0]->Pull(mixed[batch], out_[0].data());
                     tables_[0]->Push(mixed[batch], gradients_.data());
                   });
                 }});
  all.push_back({.name = "evict", .limit = 0, .run = [&] {
                   for (Batch& batch : mixed) {
                     batch = FreshBatch(next, options_.batch);
                     next += options_.batch;
                   }
                   return RowsPerSecond(1, [&](size_t, size_t batch) {
                     tables_[0]->Pull(mixed[batch], out_[0].data());
                   });
                 }});
  RunTurns(all, options_.turns);
  const TableStats stats = tables_[0]->stats();
  report_.Add(all, "uniform", static_cast<double>(stats.bytes) / static_cast<double>(stats.rows));
}

void Suite::Run() {
  Draw(Distribution::kUniform);
  TuneLimits();
  if (options_.insert) MeasureInsert();
  for (auto& table : tables_) {
    if (table != nullptr) continue;
    table = std::make_unique<TableSubject>(config_);
    Fill(*table);
  }
  if (rivals_) {
    MeasureRivalInsert();
    TuneRival();
  }
  if (!options_.shared_directory.empty()) {
    shared_ = std::make_unique<TableSubject>(config_, options_.shared_directory);
    Fill(*shared_);
  }
  if (options_.bare_table && kind_.format.plain()) {
    bare_table_ = std::make_unique<BareTable>(rows_, kind_);
    TuneSubject("bare", *bare_table_);
  }
  for (const Distribution distribution : options_.distributions) MeasureUse(distribution);
  MeasureNewIds();
}

}  // namespace simurgh::bench
