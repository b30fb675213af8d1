// Files of a split: the order of their lines.

#include "data/guess/part_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

constexpr int kLines = 20'000;

// The numbers of the lines, in the order of the file.
std::vector<int> Written(PartFile::Order order, uint64_t memory) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("a.csv");
  StatusOr<PartFile> part = PartFile::Create(path, "number,text\n", order, memory);
  REQUIRE(part.ok());
  for (int i = 0; i < kLines; ++i) {
    REQUIRE(part->Add(absl::StrCat(i, ",\"", std::string(i % 7, 'x'), "\n\"")).ok());
  }
  CHECK(part->lines() == kLines);
  REQUIRE(part->Commit().ok());
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  CHECK(line == "number,text");
  std::vector<int> numbers;
  while (std::getline(file, line)) {
    int number = 0;
    REQUIRE(absl::SimpleAtoi(line.substr(0, line.find(',')), &number));
    CHECK(line == absl::StrCat(number, ",\"", std::string(number % 7, 'x')));
    std::getline(file, line);
    CHECK(line == "\"");
    numbers.push_back(number);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  return numbers;
}

TEST_CASE("Lines keep their order, or get a random one that memory does not change", "[guess]") {
  std::vector<int> sorted(kLines);
  for (int i = 0; i < kLines; ++i) sorted[i] = i;
  CHECK(Written(PartFile::Order::kKept, 0) == sorted);
  std::vector<int> shuffled = Written(PartFile::Order::kRandom, PartFile::kMemory);
  CHECK(Written(PartFile::Order::kRandom, 100'000) == shuffled);
  CHECK(Written(PartFile::Order::kRandom, 30) == shuffled);

  // The mean of n of N numbers without replacement has the variance (N + 1) (N - n) / 12 n.
  constexpr int kShare = 1'000;
  for (int begin = 0; begin < kLines; begin += kShare) {
    double sum = 0;
    for (int i = begin; i < begin + kShare; ++i) sum += shuffled[i];
    const double deviation = std::sqrt((kLines + 1.0) * (kLines - kShare) / (12.0 * kShare));
    CHECK(sum / kShare == Approx((kLines - 1) / 2.0).margin(4.5 * deviation));
  }
  // About one number follows its predecessor.
  int consecutive = 0;
  for (int i = 1; i < kLines; ++i) consecutive += shuffled[i] == shuffled[i - 1] + 1 ? 1 : 0;
  CHECK(consecutive < 10);
  std::ranges::sort(shuffled);
  CHECK(shuffled == sorted);
}

TEST_CASE("A file in a folder that is missing is an error", "[guess]") {
  const auto part = PartFile::Create("/nonexistent/a.csv", "a\n", PartFile::Order::kRandom);
  CHECK(absl::IsNotFound(part.status()));
}

}  // namespace
}  // namespace simurgh
