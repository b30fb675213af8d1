// Loaders of all kinds against a feed buffer, beside a model of it: room, bytes, turns, and that
// there is always something that can go on.

#include "services/nn_worker/loader_buffer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

using Answer = LoaderBuffer::Answer;

Batch Numbered(uint64_t number) {
  BatchBuilder builder(1, 1);
  builder.SetDense(0, static_cast<float>(number));
  builder.EndSample();
  return *builder.Build();
}

struct Loader {
  std::vector<size_t> bytes;  // By batch.
  size_t taken = 0;
  size_t trained = 0;
  bool ended = false;
  std::optional<LoaderBuffer::Place> place;

  size_t waiting() const { return taken - trained; }
};

class Model {
 public:
  explicit Model(uint64_t seed)
      : random_(seed),
        loaders_(1 + random_.Below(4)),
        capacity_batches_(1 + random_.Below(3)),
        capacity_bytes_(1 + random_.Below(200)),
        buffer_(loaders_.size(), capacity_batches_, capacity_bytes_, std::chrono::hours(1)) {
    for (Loader& loader : loaders_) {
      loader.bytes.resize(random_.Below(30));
      for (size_t& bytes : loader.bytes) {
        bytes = random_.Below(100);
        largest_ = std::max(largest_, bytes);
      }
    }
    for (size_t i = 0; i < loaders_.size(); ++i) REQUIRE(buffer_.Open(Number(i))->taken == 0);
  }

  void Run() {
    while (!std::ranges::all_of(loaders_, &Loader::ended) || Next().waiting() > 0) {
      REQUIRE(CanGoOn());
      const size_t i = random_.Below(loaders_.size());
      switch (random_.Below(4)) {
        case 0:
          Ask(i);
          break;
        case 1:
          ComeOrGo(loaders_[i]);
          break;
        case 2:
          End(i);
          break;
        default:
          Take();
      }
      REQUIRE(buffer_.bytes() == bytes_);
      REQUIRE(bytes_ <= capacity_bytes_ + largest_);
    }
    CHECK_FALSE(buffer_.Take()->has_value());
    CHECK(bytes_ == 0);
  }

 private:
  static uint32_t Number(size_t loader) { return static_cast<uint32_t>(loader); }

  // The loader of the next batch to train on.
  Loader& Next() {
    for (size_t passed = 0; passed < loaders_.size(); ++passed) {
      Loader& loader = loaders_[(turn_ + passed) % loaders_.size()];
      if (!loader.ended || loader.waiting() > 0) return loader;
    }
    return loaders_[turn_];
  }

  bool HasRoom(Loader& loader, size_t number) {
    if (&loader == &Next() && loader.waiting() == 0) return true;
    return loader.waiting() < capacity_batches_ && bytes_ + loader.bytes[number] <= capacity_bytes_;
  }

  // Whether the batch that the trainer waits for is in flight or can be sent.
  bool CanGoOn() {
    Loader& next = Next();
    if (next.waiting() > 0 || next.place || next.taken == next.bytes.size()) return true;
    return HasRoom(next, next.taken);
  }

  // Offers an earlier batch, the next one, or a later one.
  void Ask(size_t i) {
    Loader& loader = loaders_[i];
    const size_t number = random_.Below(loader.taken + 3);
    if (number >= loader.bytes.size()) return;
    const bool due = number == loader.taken && !loader.place;
    const Answer expected = number < loader.taken            ? Answer::kTaken
                            : due && HasRoom(loader, number) ? Answer::kRoom
                                                             : Answer::kWait;
    auto reserved = buffer_.Reserve(Number(i), number, loader.bytes[number]);
    REQUIRE(reserved.ok());
    REQUIRE(reserved->answer == expected);
    REQUIRE(reserved->place.has_value() == (expected == Answer::kRoom));
    if (expected != Answer::kRoom) return;
    loader.place.emplace(*std::move(reserved->place));
    bytes_ += loader.bytes[number];
  }

  void ComeOrGo(Loader& loader) {
    if (!loader.place) return;
    if (random_.Below(4) == 0) {
      bytes_ -= loader.bytes[loader.taken];
    } else {
      REQUIRE(loader.place->Fill(Numbered(loader.taken++)).ok());
    }
    loader.place.reset();
  }

  void End(size_t i) {
    if (loaders_[i].taken < loaders_[i].bytes.size()) return;
    REQUIRE(buffer_.End(Number(i), loaders_[i].taken).ok());
    loaders_[i].ended = true;
  }

  void Take() {
    Loader& next = Next();
    if (next.waiting() == 0) return;
    const auto batch = buffer_.Take();
    REQUIRE((batch.ok() && batch->has_value()));
    REQUIRE((*batch)->dense.values[0] == static_cast<float>(next.trained));
    bytes_ -= next.bytes[next.trained++];
    turn_ = static_cast<size_t>(&next - loaders_.data() + 1) % loaders_.size();
  }

  Random random_;
  std::vector<Loader> loaders_;
  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  LoaderBuffer buffer_;
  size_t largest_ = 0;
  size_t bytes_ = 0;
  size_t turn_ = 0;
};

TEST_CASE("Whatever loaders do, batches stay within the bounds and in order, and arrive") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Model(seed).Run();
  }
}

}  // namespace
}  // namespace simurgh
