// Arrow arrays: buffers have the sizes that Arrow requires, all else may be anything.

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "data/reading/arrow_rows.h"
#include "tests/fuzz/targets.h"
#include "tests/support/arrow_arrays.h"

namespace simurgh::fuzz {
namespace {

using testing::HandMade;

constexpr int64_t kMaxCount = 40;
constexpr int64_t kMaxBytes = 4'096;

// The bytes of `count` elements of `width` bytes.
std::string Elements(SeedReader& in, int64_t count, int64_t width) {
  std::string bytes(static_cast<size_t>(count * width), '\0');
  for (char& byte : bytes) byte = static_cast<char>(in.Value<uint8_t>());
  return bytes;
}

template <typename Number>
Number LastOf(const std::string& numbers) {
  Number last;
  std::memcpy(&last, numbers.data() + numbers.size() - sizeof(last), sizeof(last));
  return last;
}

// Nothing: Arrow itself would need more memory than is tried.
std::optional<HandMade> MakeArray(SeedReader& in, int depth);

bool AddTexts(SeedReader& in, int64_t end, int64_t width, HandMade& made) {
  std::string offsets = Elements(in, end + 1, width);
  const int64_t bytes = width == 4 ? LastOf<int32_t>(offsets) : LastOf<int64_t>(offsets);
  made.buffers.emplace_back(std::move(offsets));
  if (bytes > kMaxBytes) return false;
  made.buffers.emplace_back(std::string(static_cast<size_t>(std::max<int64_t>(bytes, 0)), 'x'));
  return true;
}

bool AddContent(SeedReader& in, int64_t end, int depth, HandMade& made) {
  const std::string_view format = made.format;
  if (format == "u") return AddTexts(in, end, 4, made);
  if (format == "Z") return AddTexts(in, end, 8, made);
  if (format == "vu") {
    made.buffers.emplace_back(Elements(in, end, 16));
    made.buffers.emplace_back(std::string(20, 'x'));
    made.buffers.emplace_back(testing::BytesOf<int64_t>({20}));
    return true;
  }
  if (format.front() == '+') {
    if (format == "+l") made.buffers.emplace_back(Elements(in, end + 1, 4));
    if (format == "+L") made.buffers.emplace_back(Elements(in, end + 1, 8));
    for (int child = format == "+s" ? 2 : 1; child > 0; --child) {
      std::optional<HandMade> one = MakeArray(in, depth + 1);
      if (!one) return false;
      made.children.push_back(*std::move(one));
    }
    return true;
  }
  const std::string_view wide = "lLg";
  const int64_t width = format == "n"                    ? 0
                        : format == "w:3"                ? 3
                        : wide.find(format) != wide.npos ? 8
                        : format == "c" || format == "b" ? 1
                                                         : 4;
  if (width > 0) made.buffers.emplace_back(Elements(in, end, width));
  return true;
}

std::optional<HandMade> MakeArray(SeedReader& in, int depth) {
  static constexpr std::array<const char*, 16> kFormats{
      "n", "b", "c", "i", "l", "L", "f", "g", "u", "Z", "vu", "w:3", "+l", "+L", "+w:2", "+s"};
  if (depth > 3) return std::nullopt;
  HandMade made{.format = kFormats[in.Value<uint8_t>() % kFormats.size()]};
  made.length = in.Value<uint8_t>() % kMaxCount;
  made.offset = in.Value<uint8_t>() % 4;
  const auto options = in.Value<uint8_t>();
  const int64_t end = made.length + made.offset;
  const bool has_validity = (options & 1) != 0;
  made.null_count = (options & 2) != 0 ? 0 : -1;
  if (made.format != "n") {
    made.buffers.emplace_back(has_validity ? std::optional(Elements(in, (end + 7) / 8, 1))
                                           : std::nullopt);
  }
  if (!AddContent(in, end, depth, made)) return std::nullopt;
  if ((options & 4) != 0) {
    std::optional<HandMade> dictionary = MakeArray(in, depth + 1);
    if (!dictionary) return std::nullopt;
    made.dictionary.push_back(*std::move(dictionary));
  }
  if ((options & 8) != 0 && !made.buffers.empty()) made.buffers.pop_back();
  return made;
}

template <typename Struct>
ArrowOwner<Struct> Owned(const HandMade& made) {
  ArrowOwner<Struct> owner;
  *owner.get() = testing::Export<Struct>(made);
  return owner;
}

void RunArrowRows(Input input) {
  SeedReader in(input);
  const auto kind = static_cast<ColumnConfig::Kind>(in.Value<uint8_t>() % 4);
  std::optional<HandMade> column = MakeArray(in, 0);
  if (!column) return;
  const HandMade rows{.format = "+s",
                      .length = std::max<int64_t>(column->length - in.Value<uint8_t>() % 3, 0),
                      .buffers = {std::nullopt},
                      .children = {*std::move(column)}};
  auto reader = ArrowRows::Create(*Owned<ArrowSchema>(rows).get(), {{.name = "x", .kind = kind}});
  if (!reader.ok()) {
    SIMURGH_CHECK(absl::IsInvalidArgument(reader.status())) << reader.status();
    return;
  }
  const auto batch = std::make_shared<const ArrowOwner<ArrowArray>>(Owned<ArrowArray>(rows));
  const Status taken = reader->Take(batch, 0, static_cast<size_t>(batch->get()->length));
  SIMURGH_CHECK(taken.ok() || absl::IsDataLoss(taken)) << taken;
  if (!taken.ok()) return;
  Cell cell;
  Cell* const cells[] = {&cell};
  size_t bytes = 0;  // Touches all texts.
  const auto touch = [&](std::string_view text) {
    bytes += static_cast<size_t>(std::accumulate(text.begin(), text.end(), 0) & 1);
  };
  for (size_t row = 0; row < reader->rows(); ++row) {
    const Status read = reader->Read(row, cells);
    SIMURGH_CHECK(read.ok() || absl::IsDataLoss(read)) << read;
    if (!read.ok()) continue;
    if (cell.kind == Cell::Kind::kText) touch(cell.text);
    if (cell.kind != Cell::Kind::kList) continue;
    for (const std::string_view id : cell.list) touch(id);
    SIMURGH_CHECK(cell.weights.empty() || cell.weights.size() == cell.list.size());
  }
  SIMURGH_CHECK_LE(bytes, size_t{1} << 40);
}

std::vector<Bytes> ArrowRowsSeeds() {
  const auto seed = [](const std::vector<uint8_t>& bytes) {
    return SeedWriter().Rest(std::as_bytes(std::span(bytes))).bytes();
  };
  // An id column: int64 without nulls; texts; places in a dictionary of texts; lists of int32.
  return {seed({2, 4, 1, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0}),
          seed({2, 8, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0}),
          seed({2, 2, 1, 0, 6, 0, 8, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}),
          seed({2, 12, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 3, 1, 0, 0, 5, 0, 0, 0})};
}

}  // namespace

std::vector<Target> ArrowTargets() { return {{"arrow_rows", RunArrowRows, ArrowRowsSeeds}}; }

}  // namespace simurgh::fuzz
