#include "data/batch/batch_builder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/invalid.h"
#include "data/batch/id_index.h"

namespace simurgh {
namespace {

// One feature of the unfinished batch. Build numbers the ids feature after feature, so that one
// index serves all and stays in cache. AddId, called for every occurrence, touches only this object
// and the place of the id.
class alignas(64) FeatureState {
 public:
  FeatureState() = default;
  FeatureState(const FeatureState&) = delete;
  FeatureState& operator=(const FeatureState&) = delete;

  void Add(uint64_t id) {
    if (next_ == ids_.data() + ids_.size()) [[unlikely]]
      Grow(count() + 1);
    *next_++ = id;
  }
  [[gnu::noinline]] void AddWeighted(uint64_t id, float weight) {
    weights_.resize(count(), 1.0F);
    weights_.push_back(weight);
    Add(id);
  }
  // Appends the ids [first, end) of another FeatureState, and their weights.
  void Append(const FeatureState& other, size_t first, size_t end) {
    if (other.weights_.size() > first) {
      weights_.resize(count(), 1.0F);
      weights_.insert(
          weights_.end(), other.weights_.begin() + static_cast<ptrdiff_t>(first),
          other.weights_.begin() + static_cast<ptrdiff_t>(std::min(end, other.weights_.size())));
    }
    Append(other.ids().subspan(first, end - first));
  }
  void Swap(std::vector<uint64_t>& ids) {
    ids_.swap(ids);
    next_ = ids_.data() + ids_.size();
  }
  void Append(std::span<const uint64_t> more) {
    if (ids_.size() < count() + more.size()) Grow(count() + more.size());
    next_ = std::copy(more.begin(), more.end(), next_);
  }
  // Adds ids that the caller sets.
  std::span<uint64_t> Extend(size_t more) {
    if (ids_.size() < count() + more) Grow(count() + more);
    uint64_t* const first = std::exchange(next_, next_ + more);
    return {first, more};
  }
  // Keeps the first `count` ids.
  void Shorten(size_t count) {
    next_ = ids_.data() + count;
    weights_.resize(std::min(weights_.size(), count));
  }

  size_t count() const { return next_ - ids_.data(); }
  std::span<const uint64_t> ids() const { return std::span(ids_).first(count()); }
  // Returns the weights of the first occurrences; the others have weight 1.
  const std::vector<float>& weights() const { return weights_; }

 private:
  [[gnu::noinline]] void Grow(size_t needed) {
    const size_t used = count();
    ids_.resize(std::max({size_t{64}, 2 * used, needed}));
    next_ = ids_.data() + used;
  }

  uint64_t* next_ = nullptr;   // Place after the last id.
  std::vector<uint64_t> ids_;  // The vector's size is the capacity.
  std::vector<float> weights_;
};

std::vector<uint32_t> OwnLists(size_t feature_count) {
  std::vector<uint32_t> lists(feature_count);
  std::iota(lists.begin(), lists.end(), 0U);
  return lists;
}

// Returns the number of lists, which must be numbered by first use.
size_t CountLists(const std::vector<uint32_t>& lists) {
  size_t count = 0;
  for (const uint32_t list : lists) {
    SIMURGH_CHECK_LE(list, count);
    if (list == count) ++count;
  }
  return count;
}

// Checks the index of a feature. It is not inlined, so that AddId needs no stack frame.
[[gnu::noinline, gnu::cold]] void RequireFeature(size_t feature, size_t features) {
  SIMURGH_CHECK_LT(feature, features);
}

}  // namespace

// Samples and ids beyond a limit are counted but not kept, which bounds memory.
struct BatchBuilder::State {
  State(std::vector<uint32_t> lists_of_features, size_t dense_width, size_t tasks, bool weighted)
      : list_of(std::move(lists_of_features)),
        lists(CountLists(list_of)),
        features(list_of.size()),
        dense_row(dense_width),
        labels(tasks),
        is_weighted(weighted) {
    one_each.resize(list_of.size());
    by_row.resize(list_of.size());
    std::iota(by_row.begin(), by_row.end(), 0U);
  }

  std::vector<uint32_t> list_of;  // One list per feature.
  size_t lists = 0;
  std::vector<FeatureState> features;
  std::vector<uint32_t> by_row;  // Features whose ids AddId adds.
  std::vector<bool> one_each;    // Whether a feature has one id per sample, and no `ends`.
  IdIndex index;
  std::vector<float> dense_row;  // Dense values of the open sample.
  std::vector<float> labels;
  float weight = 1;
  uint64_t group = 0;
  DenseBatch dense;  // Finished samples, without weights.
  const bool is_weighted;
  std::vector<float> weights;  // Weights of finished samples.
  std::vector<uint32_t> ends;  // (F, room_samples) where samples end among their feature's ids.
  size_t room_samples = 0;
  size_t samples = 0;
  size_t occurrences = 0;  // Occurrences of finished and open samples, including those not kept.
  size_t finished_occurrences = 0;
  size_t max_occurrences = kMaxBatchOccurrences;

  void OpenSample() {
    std::fill(dense_row.begin(), dense_row.end(), 0.0F);
    std::fill(labels.begin(), labels.end(), 0.0F);
    weight = 1;
    group = 0;
  }

  size_t finished_ids(size_t feature) const {
    const size_t kept = std::min(samples, kMaxBatchSamples);
    return kept == 0 ? 0 : ends[feature * room_samples + kept - 1];
  }

  void MakeRoom(size_t needed);
  // Adds samples of records. Requires room.
  void AppendPlain(std::span<const uint32_t* const> records);  // Requires that they have no flags.
  void AppendAny(std::span<const uint32_t* const> records);
  Status CheckLimits() const;
  std::shared_ptr<const CompactBatch> TakeSparse();
  void NumberIds(CompactBatch& batch);
  void AppendOffsets(CompactBatch& batch) const;
  void AppendWeights(CompactBatch& batch) const;
  DenseBatch TakeDense();
  void Clear();
};

BatchBuilder::BatchBuilder(size_t feature_count, size_t dense_width, size_t tasks)
    : BatchBuilder(OwnLists(feature_count), dense_width, tasks) {}
BatchBuilder::BatchBuilder(std::vector<uint32_t> lists, size_t dense_width, size_t tasks,
                           bool is_weighted)
    : state_(std::make_unique<State>(std::move(lists), dense_width, tasks, is_weighted)) {
  SIMURGH_CHECK_LT(0U, tasks);
}
BatchBuilder::~BatchBuilder() = default;
BatchBuilder::BatchBuilder(BatchBuilder&&) noexcept = default;
BatchBuilder& BatchBuilder::operator=(BatchBuilder&&) noexcept = default;

void BatchBuilder::SetLabel(float label, size_t task) {
  SIMURGH_CHECK_LT(task, state_->labels.size());
  state_->labels[task] = label;
}

void BatchBuilder::SetWeight(float weight) { state_->weight = weight; }

void BatchBuilder::SetGroup(uint64_t group) { state_->group = std::max<uint64_t>(group, 1); }

void BatchBuilder::SetDense(size_t column, float value) {
  SIMURGH_CHECK_LT(column, state_->dense_row.size());
  state_->dense_row[column] = value;
}

void BatchBuilder::RepeatDense(size_t column) {
  const std::vector<float>& values = state_->dense.values;
  SIMURGH_CHECK_LE(state_->dense_row.size(), values.size());
  SetDense(column, values[values.size() - state_->dense_row.size() + column]);
}

void BatchBuilder::AddId(size_t feature, uint64_t id, float weight) {
  State& state = *state_;
  if (feature >= state.features.size()) [[unlikely]] {
    RequireFeature(feature, state.features.size());
  }
  if (++state.occurrences > state.max_occurrences) return;
  if (weight == 1.0F) [[likely]] {
    state.features[feature].Add(id);
  } else {
    state.features[feature].AddWeighted(id, weight);
  }
}

// Doubles the capacity at least. The odd size keeps features in different cache sets.
void BatchBuilder::State::MakeRoom(size_t needed) {
  const size_t room = std::min(std::max(2 * room_samples, needed) + 65, kMaxBatchSamples);
  std::vector<uint32_t> larger(room * features.size());
  for (size_t f = 0; f < features.size(); ++f) {
    std::copy_n(ends.begin() + static_cast<ptrdiff_t>(f * room_samples), room_samples,
                larger.begin() + static_cast<ptrdiff_t>(f * room));
  }
  ends = std::move(larger);
  room_samples = room;
}

void BatchBuilder::EndSample() {
  State& state = *state_;
  if (state.samples < kMaxBatchSamples) {
    if (state.samples == state.room_samples) state.MakeRoom(state.samples + 1);
    for (const uint32_t f : state.by_row) {
      state.ends[f * state.room_samples + state.samples] =
          static_cast<uint32_t>(state.features[f].count());
    }
    state.dense.values.insert(state.dense.values.end(), state.dense_row.begin(),
                              state.dense_row.end());
    state.dense.labels.insert(state.dense.labels.end(), state.labels.begin(), state.labels.end());
    if (state.is_weighted) state.weights.push_back(state.weight);
    if (state.group != 0) {
      state.dense.groups.resize(state.samples);
      state.dense.groups.push_back(state.group);
    }
  }
  ++state.samples;
  state.finished_occurrences = state.occurrences;
  state.OpenSample();
}

void BatchBuilder::AbandonSample() {
  for (const uint32_t f : state_->by_row) {
    state_->features[f].Shorten(state_->finished_ids(f));
  }
  state_->occurrences = state_->finished_occurrences;
  state_->OpenSample();
}

bool BatchBuilder::positive() const {
  return std::any_of(state_->labels.begin(), state_->labels.end(),
                     [](float label) { return label == 1.0F; });
}

size_t BatchBuilder::size() const { return state_->samples; }

void BatchBuilder::LiftLimit() { state_->max_occurrences = std::numeric_limits<size_t>::max(); }

void BatchBuilder::Append(const BatchBuilder& other, size_t first, size_t count) {
  State& to = *state_;
  const State& from = *other.state_;
  SIMURGH_CHECK_EQ(to.features.size(), from.features.size());
  if (to.samples + count > kMaxBatchSamples) {  // Build() fails.
    to.samples += count;
    return;
  }
  if (to.samples + count > to.room_samples) to.MakeRoom(to.samples + count);
  for (size_t f = 0; f < to.features.size(); ++f) {
    const uint32_t* const ends = from.ends.data() + f * from.room_samples;
    const bool one_each = from.one_each[f];
    const size_t begin = one_each ? first : first == 0 ? 0 : ends[first - 1];
    const size_t end = one_each ? first + count : ends[first + count - 1];
    const size_t before = to.features[f].count();
    uint32_t* const ends_here = to.ends.data() + f * to.room_samples + to.samples;
    to.occurrences += end - begin;
    if (to.occurrences > kMaxBatchOccurrences) {  // Build() fails.
      std::fill_n(ends_here, count, static_cast<uint32_t>(before));
      continue;
    }
    to.features[f].Append(from.features[f], begin, end);
    if (one_each) {
      std::iota(ends_here, ends_here + count, static_cast<uint32_t>(before + 1));
      continue;
    }
    const auto shift = static_cast<uint32_t>(before - begin);  // The sum below wraps.
    for (size_t i = 0; i < count; ++i) ends_here[i] = ends[first + i] + shift;
  }
  const auto append = [&](std::vector<float>& all, const std::vector<float>& more, size_t width) {
    const auto begin = more.begin() + static_cast<ptrdiff_t>(first * width);
    all.insert(all.end(), begin, begin + static_cast<ptrdiff_t>(count * width));
  };
  append(to.dense.values, from.dense.values, to.dense_row.size());
  append(to.dense.labels, from.dense.labels, to.labels.size());
  if (to.is_weighted) append(to.weights, from.weights, 1);
  if (const std::vector<uint64_t>& groups = from.dense.groups; groups.size() > first) {
    to.dense.groups.resize(to.samples);
    to.dense.groups.insert(
        to.dense.groups.end(), groups.begin() + static_cast<ptrdiff_t>(first),
        groups.begin() + static_cast<ptrdiff_t>(std::min(first + count, groups.size())));
  }
  to.samples += count;
  to.finished_occurrences = to.occurrences;
}

// A record has the flags, then as they say: numbers of ids, group; then weight, labels, dense
// values, ids, and as the flags say the ids' weights.
namespace {

constexpr uint32_t kHasCounts = 1;     // Not each feature has one id.
constexpr uint32_t kHasIdWeights = 2;  // Not all are 1.
constexpr uint32_t kHasGroup = 4;

template <typename Value>
uint32_t* Put(uint32_t* words, std::span<const Value> values) {
  if (!values.empty()) std::memcpy(words, values.data(), values.size_bytes());
  return words + values.size_bytes() / sizeof(uint32_t);
}

template <typename Value>
const uint32_t* Take(const uint32_t* words, std::span<Value> values) {
  if (!values.empty()) std::memcpy(values.data(), words, values.size_bytes());
  return words + values.size_bytes() / sizeof(uint32_t);
}

}  // namespace

void BatchBuilder::Pack(std::vector<uint32_t>& words, std::vector<size_t>& begins) const {
  const State& from = *state_;
  const size_t features = from.features.size();
  const size_t tasks = from.labels.size();
  const size_t width = from.dense_row.size();
  const auto end_of = [&](size_t f, size_t sample) -> size_t {
    return from.one_each[f] ? sample + 1 : from.ends[f * from.room_samples + sample];
  };
  bool has_counts = false;
  bool has_weights = false;
  size_t ids = 0;
  for (size_t f = 0; f < features; ++f) {
    has_weights |= !from.features[f].weights().empty();
    ids += from.features[f].count();
    for (size_t i = 0; i < from.samples && !from.one_each[f]; ++i) {
      has_counts |= end_of(f, i) != i + 1;
    }
  }
  const size_t fixed = 3 + (has_counts ? features : 0) + 1 + tasks + width;
  const size_t most = from.samples * fixed + ids * (has_weights ? 3 : 2);
  if (words.size() < most) words.resize(most);
  std::vector<const uint64_t*> ids_of(features);
  for (size_t f = 0; f < features; ++f) ids_of[f] = from.features[f].ids().data();
  begins.resize(from.samples);
  uint32_t* next = words.data();
  for (size_t i = 0; i < from.samples; ++i) {
    begins[i] = next - words.data();
    const uint64_t group = i < from.dense.groups.size() ? from.dense.groups[i] : 0;
    *next++ = (has_counts ? kHasCounts : 0) | (has_weights ? kHasIdWeights : 0) |
              (group != 0 ? kHasGroup : 0);
    for (size_t f = 0; f < features && has_counts; ++f) {
      *next++ = static_cast<uint32_t>(end_of(f, i) - (i == 0 ? 0 : end_of(f, i - 1)));
    }
    if (group != 0) next = Put(next, std::span(&group, 1));
    if (from.is_weighted) next = Put(next, std::span(from.weights).subspan(i, 1));
    next = Put(next, std::span(from.dense.labels).subspan(i * tasks, tasks));
    next = Put(next, std::span(from.dense.values).subspan(i * width, width));
    if (!has_counts) {
      for (const uint64_t* const all : ids_of) next = Put(next, std::span(all + i, 1));
    } else {
      for (size_t f = 0; f < features; ++f) {
        const size_t begin = i == 0 ? 0 : end_of(f, i - 1);
        next = Put(next, std::span(ids_of[f] + begin, end_of(f, i) - begin));
      }
    }
    for (size_t f = 0; f < features && has_weights; ++f) {
      const std::vector<float>& weights = from.features[f].weights();
      for (size_t id = i == 0 ? 0 : end_of(f, i - 1); id < end_of(f, i); ++id) {
        const float weight = id < weights.size() ? weights[id] : 1.0F;
        next = Put(next, std::span(&weight, 1));
      }
    }
  }
}

void BatchBuilder::AppendPacked(std::span<const uint32_t* const> records) {
  State& to = *state_;
  constexpr size_t kAtOnce = 64;                         // Their words stay in a cache.
  constexpr size_t kLineWords = 16;                      // Words of a cache line.
  if (to.samples + records.size() > kMaxBatchSamples) {  // Build() fails.
    to.samples += records.size();
    return;
  }
  if (to.samples + records.size() > to.room_samples) to.MakeRoom(to.samples + records.size());
  const size_t words = 1 + to.labels.size() + to.dense_row.size() + 2 * to.features.size();
  for (size_t first = 0; first < records.size(); first += kAtOnce) {
    const auto some = records.subspan(first, std::min(kAtOnce, records.size() - first));
    // Records are anywhere in memory.
    for (const uint32_t* const record : some) {
      for (size_t word = 0; word < words; word += kLineWords) __builtin_prefetch(record + word);
    }
    const bool are_plain =
        std::ranges::all_of(some, [](const uint32_t* record) { return *record == 0; });
    are_plain ? to.AppendPlain(some) : to.AppendAny(some);
  }
  to.finished_occurrences = to.occurrences;
}

void BatchBuilder::State::AppendPlain(std::span<const uint32_t* const> records) {
  const size_t count = records.size();
  size_t skipped = 1;
  const auto take = [&](std::vector<float>& all, size_t values) {
    if (values == 0) return;
    const size_t before = all.size();
    all.resize(before + count * values);
    for (size_t i = 0; i < count; ++i) {
      Take(records[i] + skipped, std::span(all).subspan(before + i * values, values));
    }
    skipped += values;
  };
  take(weights, is_weighted ? 1 : 0);
  take(dense.labels, labels.size());
  take(dense.values, dense_row.size());
  occurrences += count * features.size();
  const bool has_room = occurrences <= kMaxBatchOccurrences;  // Else Build() fails.
  for (size_t f = 0; f < features.size(); ++f) {
    const auto before = static_cast<uint32_t>(features[f].count());
    uint32_t* const ends_here = ends.data() + f * room_samples + samples;
    if (!has_room) {
      std::fill_n(ends_here, count, before);
      continue;
    }
    const std::span<uint64_t> ids = features[f].Extend(count);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&ids[i], records[i] + skipped + 2 * f, sizeof(uint64_t));
    }
    std::iota(ends_here, ends_here + count, before + 1);
  }
  samples += count;
}

void BatchBuilder::State::AppendAny(std::span<const uint32_t* const> records) {
  for (const uint32_t* next : records) {
    const uint32_t flags = *next++;
    const uint32_t* const counts = (flags & kHasCounts) != 0 ? next : nullptr;
    if (counts != nullptr) next += features.size();
    if ((flags & kHasGroup) != 0) {
      dense.groups.resize(samples);
      next = Take(next, std::span(&dense.groups.emplace_back(), 1));
    }
    const auto take = [&next](std::vector<float>& all, size_t count) {
      all.resize(all.size() + count);
      next = Take(next, std::span(all).last(count));
    };
    take(weights, is_weighted ? 1 : 0);
    take(dense.labels, labels.size());
    take(dense.values, dense_row.size());
    size_t ids = features.size();
    if (counts != nullptr) ids = std::reduce(counts, counts + features.size(), size_t{0});
    occurrences += ids;
    const bool has_room = occurrences <= kMaxBatchOccurrences;  // Else Build() fails.
    const uint32_t* factors = next + 2 * ids;
    for (size_t f = 0; f < features.size(); ++f) {
      const uint32_t count = !has_room ? 0 : counts == nullptr ? 1 : counts[f];
      for (uint32_t k = 0; k < count; ++k) {
        uint64_t id = 0;
        next = Take(next, std::span(&id, 1));
        float factor = 1;
        if ((flags & kHasIdWeights) != 0) factors = Take(factors, std::span(&factor, 1));
        factor == 1.0F ? features[f].Add(id) : features[f].AddWeighted(id, factor);
      }
      ends[f * room_samples + samples] = static_cast<uint32_t>(features[f].count());
    }
    ++samples;
  }
}

void BatchBuilder::SetIds(size_t feature, std::vector<uint64_t>& ids,
                          std::span<const uint32_t> ends) {
  State& state = *state_;
  state.one_each[feature] = ends.empty();
  SIMURGH_CHECK_EQ(ends.empty() ? ids.size() : ends.size(), state.samples);
  std::erase(state.by_row, feature);
  state.features[feature].Swap(ids);
  std::ranges::copy(ends,
                    state.ends.begin() + static_cast<ptrdiff_t>(feature * state.room_samples));
  state.occurrences += state.features[feature].count();
  state.finished_occurrences = state.occurrences;
}

void BatchBuilder::Clear() {
  state_->Clear();
  state_->OpenSample();
}

Status BatchBuilder::State::CheckLimits() const {
  if (samples > kMaxBatchSamples) {
    return Invalid("batch: %d samples exceed the limit of %d; choose a smaller batch size", samples,
                   kMaxBatchSamples);
  }
  if (occurrences > kMaxBatchOccurrences) {
    return Invalid(
        "batch: %d ids of %d samples exceed the limit of %d; choose a smaller batch size",
        occurrences, samples, kMaxBatchOccurrences);
  }
  if (samples * features.size() > kMaxBatchCells) {
    return Invalid(
        "batch: %d samples of %d features exceed the limit of %d cells; choose a smaller batch "
        "size",
        samples, features.size(), kMaxBatchCells);
  }
  return absl::OkStatus();
}

std::shared_ptr<const CompactBatch> BatchBuilder::State::TakeSparse() {
  auto batch = std::make_shared<CompactBatch>();
  batch->batch_size = static_cast<uint32_t>(samples);
  if (lists < features.size()) batch->lists = list_of;
  batch->unique_ends.resize(lists);
  AppendOffsets(*batch);
  NumberIds(*batch);
  AppendWeights(*batch);
  return batch;
}

// Sets ids, occurrences and unique_ends.
void BatchBuilder::State::NumberIds(CompactBatch& batch) {
  std::vector<uint32_t> order(features.size());  // Features, list after list.
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(
      order, {}, [&batch](uint32_t feature) { return std::pair(batch.list_of(feature), feature); });
  batch.occurrences.resize(batch.offsets.back());
  auto next = order.begin();
  for (size_t list = 0; list < lists; ++list) {
    index.Clear();
    for (; next != order.end() && batch.list_of(*next) == list; ++next) {
      const size_t first = batch.offsets[size_t{*next} * samples];
      const std::span<const uint64_t> ids = features[*next].ids();
      index.Number(ids, std::span(batch.occurrences).subspan(first, ids.size()));
    }
    batch.ids.insert(batch.ids.end(), index.ids().begin(), index.ids().end());
    batch.unique_ends[list] = static_cast<uint32_t>(batch.ids.size());
  }
}

void BatchBuilder::State::AppendOffsets(CompactBatch& batch) const {
  batch.offsets.resize(features.size() * samples + 1);
  uint32_t base = 0;
  for (size_t f = 0; f < features.size(); ++f) {
    const uint32_t* const of_feature = ends.data() + f * room_samples;
    uint32_t* const offsets = batch.offsets.data() + f * samples + 1;
    for (size_t b = 0; b < samples; ++b) offsets[b] = base + of_feature[b];
    base += static_cast<uint32_t>(features[f].count());
  }
}

void BatchBuilder::State::AppendWeights(CompactBatch& batch) const {
  if (std::all_of(features.begin(), features.end(),
                  [](const auto& feature) { return feature.weights().empty(); })) {
    return;
  }
  batch.weights.resize(batch.occurrences.size(), 1.0F);
  for (size_t f = 0; f < features.size(); ++f) {
    std::copy(features[f].weights().begin(), features[f].weights().end(),
              batch.weights.begin() + batch.offsets[f * samples]);
  }
}

DenseBatch BatchBuilder::State::TakeDense() {
  dense.labels.insert(dense.labels.end(), weights.begin(), weights.end());
  weights.clear();
  if (!dense.groups.empty()) dense.groups.resize(samples);
  DenseBatch next;  // Reserves memory once per batch.
  next.values.reserve(dense.values.size());
  next.labels.reserve(dense.labels.size());
  dense.batch_size = samples;
  dense.width = dense_row.size();
  dense.tasks = labels.size();
  return std::exchange(dense, std::move(next));
}

void BatchBuilder::State::Clear() {
  for (FeatureState& feature : features) feature.Shorten(0);
  dense.values.clear();
  dense.labels.clear();
  dense.groups.clear();
  weights.clear();
  samples = 0;
  occurrences = 0;
  finished_occurrences = 0;
}

StatusOr<Batch> BatchBuilder::Build() {
  AbandonSample();
  Status within_limits = state_->CheckLimits();
  if (!within_limits.ok()) {
    state_->Clear();
    return within_limits;
  }
  Batch batch{.sparse = state_->TakeSparse(), .dense = state_->TakeDense()};
  state_->Clear();
  return batch;
}

}  // namespace simurgh
