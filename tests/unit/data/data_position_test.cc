// Readings that stop and continue with other numbers of readers, piece sizes and loaders.

#include "data/batch/data_position.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/reading/batch_reader.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

constexpr uint32_t kEpochs = 3;
constexpr double kKept = 0.6;

struct Input {
  std::vector<std::string> files;
  uint64_t seed;
  uint32_t threads = 1;
};

// What was read of each epoch: the lines that were parsed, and the samples of batches.
struct Seen {
  std::vector<std::string> lines[kEpochs];
  std::vector<std::vector<float>> batches;  // In the order of training.
  std::vector<float> samples;

  void Sort() {
    for (auto& epoch : lines) std::ranges::sort(epoch);
    std::ranges::sort(samples);
  }
};

// A share's reader over all epochs.
class Share {
 public:
  Share(const Input& input, const DataPosition& begin, uint32_t share, Seen& seen)
      : input_(input), begin_(begin), share_(share), epoch_(begin.next(share).epoch), seen_(seen) {}

  std::optional<Batch> Next() {
    for (; epoch_ < kEpochs; ++epoch_, reader_ = nullptr) {
      if (reader_ == nullptr) Open();
      auto batch = reader_->Next();
      REQUIRE(batch.ok());
      if (batch->has_value()) return *std::move(batch);
    }
    return std::nullopt;
  }

 private:
  void Open() {
    const Division& division = begin_.division();
    auto reader = OpenBatchReader(
        LabelAndNumber(), {}, input_.files, division.batch_size,
        {.keep_negatives = kKept,
         .seed = input_.seed,
         .share = share_,
         .shares = division.shares,
         .piece_batches = division.piece_batches,
         .read = &begin_,
         .epoch = epoch_,
         .on_row = [this, epoch = epoch_](std::string_view line,
                                          bool) { seen_.lines[epoch].emplace_back(line); },
         .threads = input_.threads});
    REQUIRE(reader.ok());
    reader_ = *std::move(reader);
  }

  const Input& input_;
  const DataPosition& begin_;
  const uint32_t share_;
  uint32_t epoch_;
  Seen& seen_;
  std::unique_ptr<BatchReader> reader_;
};

// Trains on up to `batches` batches, of shares in turn, and returns the position after them. The
// batch that follows may be read ahead, and is forgotten.
DataPosition Train(const Input& input, const DataPosition& begin, uint64_t batches, Seen& seen) {
  std::deque<Share> shares;
  for (uint32_t share = 0; share < begin.division().shares; ++share) {
    shares.emplace_back(input, begin, share, seen);
  }
  DataPosition position = begin;
  size_t ended = 0;
  for (uint32_t turn = begin.turn(); batches > 0 && ended < shares.size();
       turn = (turn + 1) % shares.size()) {
    std::optional<Batch> batch = shares[turn].Next();
    ended = batch ? 0 : ended + 1;
    if (!batch) continue;
    seen.batches.push_back(batch->dense.values);
    seen.samples.insert(seen.samples.end(), batch->dense.values.begin(), batch->dense.values.end());
    position.Advance(batch->progress);
    --batches;
  }
  // As a checkpoint does it.
  DataPosition merged = position;
  merged.Merge(position.Numbers());
  const auto restored = DataPosition::FromText(merged.ToText());
  REQUIRE(restored.ok());
  REQUIRE(*restored == merged);
  return merged;
}

Input RandomInput(Random& random, const TemporaryFolder& folder, uint64_t seed) {
  Input input{.seed = seed, .threads = static_cast<uint32_t>(random.Below(4) == 0 ? 3 : 1)};
  uint64_t row = 0;
  for (uint64_t file = 0; file < 1 + random.Below(3); ++file) {
    std::string text;
    const bool has_many_bad_rows = random.Below(3) == 0;
    for (uint64_t rows = random.Below(120); rows > 0; --rows, ++row) {
      const bool is_bad = random.Below(has_many_bad_rows ? 2 : 12) == 0;
      text += std::to_string(random.Below(2)) + "," + (is_bad ? "bad" : "") + std::to_string(row) +
              "\n";
      if (random.Below(20) == 0) text += "\n";
    }
    // Reading cannot begin within a compressed file.
    const bool is_compressed = random.Below(3) == 0;
    const std::string name = std::to_string(file) + (is_compressed ? ".csv.gz" : ".csv");
    input.files.push_back(folder.Write(name, is_compressed ? Gzip(text) : text));
  }
  return input;
}

uint64_t RandomWindow(Random& random) {
  constexpr uint64_t kWindows[] = {0, 1, 5, 64, 10'000};
  return kWindows[random.Below(std::size(kWindows))];
}

TEST_CASE("Every row is read once an epoch, whatever numbers of readers follow each other") {
  const uint64_t first = std::random_device()();  // Each run has other cases.
  for (uint64_t seed = first; seed < first + 75; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const TemporaryFolder folder;
    const Input input = RandomInput(random, folder, seed);
    const auto batch_size = static_cast<uint32_t>(1 + random.Below(9));
    const auto division = [&] {
      return Division{.batch_size = batch_size,
                      .piece_batches = static_cast<uint32_t>(1 + random.Below(3)),
                      .shares = static_cast<uint32_t>(1 + random.Below(5))};
    };
    Seen whole;
    Train(input, DataPosition(division()), 1'000'000, whole);
    Seen parts;
    DataPosition position;
    const uint64_t stops = random.Below(6);
    for (uint64_t stop = 0; stop <= stops; ++stop) {
      Seen part;
      DataPosition begin = position.ContinueWith(division());
      begin.SetWindow(RandomWindow(random));
      if (random.Below(4) == 0) begin.ForgetPlaces();
      position = Train(input, begin, stop < stops ? random.Below(30) : 1'000'000, part);
      // Rows of batches of this part, and bad or dropped ones. The batch after the last one is not
      // read ahead here, so parsed lines are those up to the position.
      parts.samples.insert(parts.samples.end(), part.samples.begin(), part.samples.end());
      for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
        parts.lines[epoch].insert(parts.lines[epoch].end(), part.lines[epoch].begin(),
                                  part.lines[epoch].end());
      }
    }
    whole.Sort();
    parts.Sort();
    REQUIRE(parts.samples == whole.samples);
    for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
      // A share's last rows may be bad or dropped: no batch follows them, so their line may be
      // parsed by two parts.
      auto& lines = parts.lines[epoch];
      lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
      REQUIRE(lines == whole.lines[epoch]);
    }
  }
}

TEST_CASE("With the same division, reading goes on with the same batches") {
  const uint64_t first = std::random_device()();
  for (uint64_t seed = first; seed < first + 50; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const TemporaryFolder folder;
    const Input input = RandomInput(random, folder, seed);
    const Division division{.batch_size = static_cast<uint32_t>(1 + random.Below(9)),
                            .piece_batches = static_cast<uint32_t>(1 + random.Below(3)),
                            .shares = static_cast<uint32_t>(1 + random.Below(5))};
    Seen whole;
    DataPosition position(division);
    position.SetWindow(RandomWindow(random));
    Train(input, position, 1'000'000, whole);
    Seen parts;
    for (const bool last : {false, false, true}) {
      const uint64_t batches = last ? 1'000'000 : random.Below(40);
      position = Train(input, position.ContinueWith(division), batches, parts);
    }
    REQUIRE(parts.batches == whole.batches);
  }
}

// Returns the numbers of the good rows of each epoch in the order of training.
std::vector<std::vector<float>> Order(const Input& input, const Division& division,
                                      uint64_t window) {
  DataPosition position(division);
  position.SetWindow(window);
  std::vector<std::vector<float>> epochs;
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<std::unique_ptr<BatchReader>> readers;
    for (uint32_t share = 0; share < division.shares; ++share) {
      auto reader = OpenBatchReader(LabelAndNumber(), {}, input.files, division.batch_size,
                                    {.seed = input.seed,
                                     .share = share,
                                     .shares = division.shares,
                                     .piece_batches = division.piece_batches,
                                     .read = &position,
                                     .epoch = epoch,
                                     .threads = input.threads});
      REQUIRE(reader.ok());
      readers.push_back(*std::move(reader));
    }
    std::vector<float>& rows = epochs.emplace_back();
    for (size_t batches = 1; batches > 0;) {
      batches = 0;
      for (const auto& reader : readers) {
        for (uint32_t piece = 0; piece < division.piece_batches; ++piece) {
          const auto batch = reader->Next();
          REQUIRE(batch.ok());
          if (!batch->has_value()) break;
          ++batches;
          const std::vector<float>& values = (*batch)->dense.values;
          rows.insert(rows.end(), values.begin(), values.end());
        }
      }
    }
  }
  return epochs;
}

TEST_CASE("A shuffled order depends on seed, epoch and window only") {
  const TemporaryFolder folder;
  std::string first;
  std::string second;
  for (int row = 0; row < 500; ++row) first += "1," + std::to_string(row) + "\n";
  for (int row = 500; row < 730; ++row) second += "0," + std::to_string(row) + "\n";
  Input input{.files = {folder.Write("a.csv", first), folder.Write("b.csv.gz", Gzip(second))},
              .seed = 7};
  constexpr uint64_t kWindow = 200;
  const auto orders = Order(input, {.batch_size = 12}, kWindow);
  for (const std::vector<float>& order : orders) {
    REQUIRE(order.size() == 730);
    for (size_t begin = 0; begin < order.size(); begin += kWindow) {
      const size_t end = std::min<size_t>(begin + kWindow, order.size());
      std::vector<float> rows(order.begin() + begin, order.begin() + end);
      CHECK(!std::ranges::is_sorted(rows));
      std::ranges::sort(rows);
      for (size_t i = begin; i < end; ++i) REQUIRE(rows[i - begin] == static_cast<float>(i));
    }
  }
  CHECK(orders[0] != orders[1]);
  CHECK(orders[1] != orders[2]);
  for (const uint32_t shares : {1, 2, 5}) {
    for (const uint32_t piece : {1, 3}) {
      for (const uint32_t threads : {1, 4}) {
        input.threads = threads;
        CHECK(Order(input, {.batch_size = 4, .piece_batches = piece, .shares = shares}, kWindow) ==
              orders);
      }
    }
  }
  input.seed = 8;
  CHECK(Order(input, {.batch_size = 12}, kWindow) != orders);
}

TEST_CASE("Rows that are added while the last window is read are read after it") {
  const TemporaryFolder folder;
  std::string text;
  std::string more;
  for (int row = 0; row < 90; ++row) text += "1," + std::to_string(row) + "\n";
  for (int row = 90; row < 260; ++row) more += "1," + std::to_string(row) + "\n";
  const std::string a = folder.Write("a.csv", text);
  const std::string b = folder.Write("b.csv", more);
  const bool is_longer = GENERATE(false, true);  // A file of the data; else they get a file.
  const uint32_t shares = GENERATE(1, 3);
  const Division next_division = GENERATE_COPY(Division{4, 1, shares}, Division{4, 2, 5});
  for (uint64_t batches = 0; batches <= 23; ++batches) {
    const Input input{.files = {a}, .seed = 3};
    DataPosition position(Division{.batch_size = 4, .piece_batches = 1, .shares = shares});
    position.SetWindow(64);
    Seen seen;
    position = Train(input, position, batches, seen);
    INFO(position.ToText());
    Input longer{.files = {a, b}, .seed = 3};
    if (is_longer) {
      longer.files = {folder.Write("longer.csv", text + more)};
      position.ForgetPlaces();
    }
    position = position.ContinueWith(next_division);
    position.SetWindow(50);  // The next epoch has it.
    CHECK(position.window(0) == (batches == 0 ? 50 : 64));
    CHECK(position.window(1) == 50);
    Train(longer, position, 1'000'000, seen);
    seen.Sort();
    for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
      CHECK(std::ranges::adjacent_find(seen.lines[epoch]) == seen.lines[epoch].end());
      CHECK(seen.lines[epoch].size() == 260);
    }
  }
}

TEST_CASE("Rows that are gone from the last window do not change the order of the others") {
  const TemporaryFolder folder;
  std::string text;
  const auto add = [&](int from, int to) {
    for (int row = from; row < to; ++row) text += "1," + std::to_string(row) + "\n";
  };
  add(0, 75);
  const std::string shorter = folder.Write("shorter.csv", text);
  add(75, 90);
  const std::string whole = folder.Write("whole.csv", text);
  const uint32_t shares = GENERATE(1, 3);
  for (uint64_t batches = 17; batches <= 23; ++batches) {
    Seen seen;
    DataPosition position(Division{.batch_size = 4, .piece_batches = 1, .shares = shares});
    position.SetWindow(64);
    position = Train({.files = {whole}, .seed = 3}, position, batches, seen);
    INFO(position.ToText());
    position.ForgetPlaces();
    position = position.ContinueWith(Division{4, 1, 2});
    const auto open = [&](DataConfig::OnChange on_change, uint32_t share) {
      DataConfig config = LabelAndNumber();
      config.on_change = on_change;
      auto reader = OpenBatchReader(config, {}, {shorter}, 4,
                                    {.seed = 3, .share = share, .shares = 2, .read = &position});
      REQUIRE(reader.ok());
      return *std::move(reader);
    };
    for (const uint32_t share : {0, 1}) {
      const auto reader = open(DataConfig::OnChange::kWarn, share);
      for (auto batch = reader->Next(); batch.ok() && batch->has_value(); batch = reader->Next()) {
        seen.samples.insert(seen.samples.end(), (*batch)->dense.values.begin(),
                            (*batch)->dense.values.end());
      }
    }
    std::erase_if(seen.samples, [](float row) { return row >= 75; });
    seen.Sort();
    CHECK(seen.samples.size() == 75);
    CHECK(std::ranges::adjacent_find(seen.samples) == seen.samples.end());
    if (position.first().row == 90) continue;  // No row of the window is read.
    CHECK_FALSE(open(DataConfig::OnChange::kFail, 0)->Next().ok());
  }
}

TEST_CASE("A position keeps divisions until a later one has passed them") {
  const Division two{.batch_size = 4, .piece_batches = 1, .shares = 2};
  const Division one{.batch_size = 4, .piece_batches = 1, .shares = 1};
  DataPosition position(two);
  position.Advance({.share = 0,
                    .files = 1,
                    .next = {0, 12},
                    .place = {.row = 10, .file = 1, .at = {2, 3, 4, 5}}});
  position.Advance({.share = 1, .files = 2, .next = {0, 40}});
  CHECK(position.turn() == 0);
  CHECK(position.first() == RowNumber{0, 12});
  CHECK(position.EndOfRead(0) == 40);
  CHECK(position.EndOfRead(1) == 0);
  CHECK(position.IsRead({0, 11}));
  CHECK_FALSE(position.IsRead({0, 16}));  // Of share 0.
  CHECK(position.IsRead({0, 36}));        // Of share 1.
  CHECK(position.ToText() ==
        "version=2 files=2 turn=0\nbatch_size=4 piece_batches=1 next=0:12,0:40 "
        "places=10:1:2:3:4:5,0:0:0:0:0:0");
  DataPosition next = position.ContinueWith(one);
  CHECK(next.next(0) == RowNumber{0, 12});
  CHECK(next.ToText() ==
        "version=2 files=2 turn=0\nbatch_size=4 piece_batches=1 next=0:12,0:40 "
        "places=10:1:2:3:4:5,0:0:0:0:0:0\n"
        "batch_size=4 piece_batches=1 next=0:12 places=10:1:2:3:4:5");
  CHECK(next.PlaceOf(one, 0, 0).row == 10);
  CHECK(next.PlaceOf(one, 0, 1) == ReadPlace());
  CHECK(next.PlaceOf(two, 1, 0).row == 10);
  CHECK(next.IsRead({0, 36}));
  // Back: the first division goes on, and leaves out what the second one has read.
  next.Advance({.share = 0, .files = 2, .next = {0, 20}});
  const DataPosition back = next.ContinueWith(two);
  CHECK(back.next(0) == RowNumber{0, 20});
  CHECK(back.next(1) == RowNumber{0, 40});
  next.Advance({.share = 0, .files = 2, .next = {0, 40}});
  next.Merge(next.Numbers());
  CHECK(next.ToText() ==
        "version=2 files=2 turn=0\nbatch_size=4 piece_batches=1 next=0:40 places=0:0:0:0:0:0");
  next.ForgetPlaces();
  CHECK(next.next(0) == RowNumber{0, 40});
  // Ranks that have read other shares.
  DataPosition rank(two);
  rank.Advance({.share = 0, .files = 1, .next = {0, 8}});
  DataPosition other(two);
  other.Advance({.share = 1, .files = 3, .next = {1, 0}, .place = {.at = {0, 0, 0, 7}}});
  rank.Merge(other.Numbers());
  CHECK(rank.ToText() ==
        "version=2 files=3 turn=1\nbatch_size=4 piece_batches=1 next=0:8,1:0 "
        "places=0:0:0:0:0:0,0:0:0:0:0:7");
  CHECK(rank.EndOfRead(0) == ~uint64_t{0});
}

TEST_CASE("Texts that are no position are refused") {
  const std::string valid =
      "version=2 files=2 turn=1\nbatch_size=4 piece_batches=1 next=0:12,0:40 "
      "places=10:1:2:3:4:5,30:0:0:0:0:18446744073709551615";
  REQUIRE(DataPosition::FromText(valid).ok());
  // Version 1.
  const std::string old = "files=2 turn=1\nbatch_size=4 piece_batches=1 next=0:12,0:40";
  DataPosition without = *DataPosition::FromText(valid);
  without.ForgetPlaces();
  CHECK(*DataPosition::FromText(old) == without);
  for (size_t bytes = 0; bytes < valid.size(); ++bytes) {
    const auto position = DataPosition::FromText(valid.substr(0, bytes));
    if (position.ok()) CHECK(position->ToText() == valid.substr(0, bytes));
  }
  for (const std::string text :
       {"", "epoch=1 batches=2", "files=2 turn=0",
        ("files=2 turn=2\nbatch_size=4 piece_batches=1 "
         "next=0:12,0:40"),
        "files=2 turn=0 \nbatch_size=4 piece_batches=1 next=0:1",
        "files=2 turn=0\nbatch_size=0 piece_batches=1 next=0:1",
        "files=2 turn=0\nbatch_size=1 piece_batches=0 next=0:1",
        "files=2 turn=0\nbatch_size=1 piece_batches=1 next=",
        "files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:-1",
        "files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:1,",
        "files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:1 places=0:0:0:0:0:0",
        "version=2 files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:1",
        "version=3 files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:1 places=0:0:0:0:0:0",
        "version=2 files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:1 places=0:0:0:0:0",
        "version=2 files=2 turn=0\nbatch_size=1 piece_batches=1 next=0:1 places="}) {
    CAPTURE(text);
    CHECK(absl::IsDataLoss(DataPosition::FromText(text).status()));
  }
}

TEST_CASE("A position has the windows of its epochs") {
  DataPosition position(Division{.batch_size = 4, .piece_batches = 1, .shares = 1});
  const std::string plain = position.ToText();
  position.SetWindow(0);
  CHECK(position.ToText() == plain);
  position.SetWindow(100);
  CHECK(position.window(0) == 100);
  CHECK(position.ToText() ==
        "version=2 files=0 turn=0 shuffle=0:100\n"
        "batch_size=4 piece_batches=1 next=0:0 places=0:0:0:0:0:0");
  position.Advance({.files = 1, .next = {2, 30}, .place = {.row = 0, .file = 1, .window = 40}});
  position.SetWindow(100);
  CHECK(position.ToText() ==
        "version=2 files=1 turn=0 shuffle=0:100\n"
        "batch_size=4 piece_batches=1 next=2:30 places=0:1:0:0:0:0:40");
  position.SetWindow(7);
  position.SetWindow(0);
  CHECK(position.window(2) == 100);
  CHECK(position.window(3) == 0);
  CHECK(position.ToText().starts_with("version=2 files=1 turn=0 shuffle=0:100,3:0\n"));
  const auto restored = DataPosition::FromText(position.ToText());
  REQUIRE(restored.ok());
  CHECK(*restored == position);
  DataPosition merged(Division{.batch_size = 4, .piece_batches = 1, .shares = 1});
  merged.Merge(position.Numbers());
  CHECK(merged.PlaceOf(merged.division(), 0, 2).window == 40);
  // A model of an earlier version ends its epoch without a shuffle.
  DataPosition old =
      *DataPosition::FromText("files=1 turn=0\nbatch_size=4 piece_batches=1 next=1:12");
  old.SetWindow(50);
  CHECK(old.window(1) == 0);
  CHECK(old.window(2) == 50);
  for (const char* wrong :
       {"shuffle=", "shuffle=0", "shuffle=0:1,", "shuffle=0:1,0:2", "shuffle=0:-1"}) {
    CHECK(absl::IsDataLoss(
        DataPosition::FromText(absl::StrCat("version=2 files=2 turn=0 ", wrong,
                                            "\nbatch_size=1 piece_batches=1 next=0:1 "
                                            "places=0:0:0:0:0:0"))
            .status()));
  }
}

TEST_CASE("A stopped reader ends while it skips rows") {
  const TemporaryFolder folder;
  std::string text;
  for (int row = 0; row < 10'000; ++row) text += "1," + std::to_string(row) + "\n";
  const std::vector<std::string> files = {folder.Write("a.csv", text)};
  DataPosition position;
  position.Advance({.next = {0, 9'999}});
  const auto reader = OpenBatchReader(LabelAndNumber(), {}, files, 1, {.read = &position});
  REQUIRE(reader.ok());
  (*reader)->Stop();
  CHECK(absl::IsCancelled((*reader)->Next().status()));
}

}  // namespace
}  // namespace simurgh
