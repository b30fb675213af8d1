#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/reading/byte_stream.h"

namespace simurgh {
namespace {

// A string, handed out in pieces of random size.
class PiecewiseStream final : public ByteStream {
 public:
  PiecewiseStream(std::string text, uint64_t seed, size_t largest_piece)
      : text_(std::move(text)), random_(seed), largest_piece_(largest_piece) {}

  StatusOr<size_t> Read(char* data, size_t size) override {
    const size_t piece = 1 + random_.Below(largest_piece_);
    const size_t count = std::min({size, piece, text_.size() - position_});
    std::memcpy(data, text_.data() + position_, count);
    position_ += count;
    return count;
  }

 private:
  std::string text_;
  Random random_;
  size_t largest_piece_;
  size_t position_ = 0;
};

const std::string kTooLong = "too long";  // In place of such a line.

StatusOr<std::vector<std::string>> Lines(const std::string& text, uint64_t seed = 1,
                                         size_t largest_piece = 1 << 20) {
  LineReader reader(std::make_unique<PiecewiseStream>(text, seed, largest_piece));
  std::vector<std::string> lines;
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, reader.Next());
    if (!line.has_value()) return lines;
    lines.emplace_back(line->whole ? std::string(line->text) : kTooLong);
    REQUIRE(reader.line_number() == lines.size());
  }
}

TEST_CASE("Lines end in LF, CRLF or the end of the stream") {
  using Expected = std::vector<std::string>;
  CHECK(*Lines("") == Expected{});
  CHECK(*Lines("\n") == Expected{""});
  CHECK(*Lines("a") == Expected{"a"});
  CHECK(*Lines("a\nb\r\n\nc") == Expected{"a", "b", "", "c"});
  CHECK(*Lines("a\r\n\r\n") == Expected{"a", ""});
  CHECK(*Lines("a\rb\nc\r") == Expected{"a\rb", "c"});
}

TEST_CASE("A text whose lines all end in CR is refused with a remedy") {
  for (const std::string& text :
       {std::string("a,y\r1,0\r2,1\r"), std::string("a\rb"),
        std::string(kMaxLineBytes, 'a') + "\r" + std::string(kMaxLineBytes, 'b')}) {
    const auto lines = Lines(text);
    CHECK(lines.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK(lines.status().message() ==
          "lines end in CR only, which is not supported; convert it: tr '\\r' '\\n' < in.csv > "
          "out.csv");
  }
}

TEST_CASE("A line is extended by the next ones, and shortened again") {
  const std::string lines = "a\"\r\nb\n\r\nc\n" + std::string(kMaxLineBytes, 'd') + "\ne";
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{1} << 20}) {
    LineReader reader(std::make_unique<PiecewiseStream>(lines, 1, piece));
    CHECK((*reader.Next())->text == "a\"");
    CHECK((*reader.Extend())->text == "a\"\r\nb");
    CHECK((*reader.Extend())->text == "a\"\r\nb\n");
    CHECK(reader.Shorten().text == "a\"");
    CHECK((*reader.Extend())->text == "a\"\r\nb");
    CHECK(reader.line_number() == 1);
    CHECK((*reader.Next())->text.empty());
    CHECK(reader.line_number() == 3);
    CHECK((*reader.Extend())->text == "\r\nc");
    CHECK_FALSE(reader.Extend()->has_value());  // Too long.
    CHECK((*reader.Next())->text.size() == kMaxLineBytes);
    CHECK(reader.line_number() == 5);
    CHECK((*reader.Next())->text == "e");
    CHECK_FALSE(reader.Extend()->has_value());
    CHECK(reader.Shorten().text == "e");
    CHECK_FALSE(reader.Next()->has_value());
  }
}

TEST_CASE("A byte order mark is left out at the beginning, and nowhere else") {
  using Expected = std::vector<std::string>;
  const std::string mark = "\xef\xbb\xbf";
  const size_t piece = GENERATE(1, 1 << 20);
  CHECK(*Lines(mark + "a\nb", 1, piece) == Expected{"a", "b"});
  CHECK(*Lines(mark + "\r\nb", 1, piece) == Expected{"", "b"});
  CHECK(*Lines(mark, 1, piece) == Expected{""});
  CHECK(*Lines("a\n" + mark + "b", 1, piece) == Expected{"a", mark + "b"});
  CHECK(*Lines(mark + mark + "a", 1, piece) == Expected{mark + "a"});
  CHECK(*Lines("\xef\xbb", 1, piece) == Expected{"\xef\xbb"});
}

TEST_CASE("Lines do not depend on how the stream is cut") {
  const uint64_t seed = GENERATE(range(1, 31));
  INFO("seed " << seed);
  Random random(seed);
  std::vector<std::string> expected;
  std::string text;
  for (size_t count = 0; count < 200; ++count) {
    const size_t longest = random.Below(20) == 0 ? 20'000 : 100;
    expected.push_back(
        std::string(random.Below(longest), static_cast<char>('a' + random.Below(26))));
    text += expected.back() + (random.Below(2) == 0 ? "\n" : "\r\n");
  }
  CHECK(*Lines(text, seed, 1 + random.Below(5'000)) == expected);
}

TEST_CASE("The longest line is there, one byte more is not, and the lines behind it are") {
  using Expected = std::vector<std::string>;
  const std::string end = GENERATE(as<std::string>(), "\n", "\r\n", "");
  const size_t piece = GENERATE(40'000, 10'000'000);
  const std::string longest(kMaxLineBytes, 'x');
  const std::string mark = "\xef\xbb\xbf";
  // Not CHECK(a == b), which would print them.
  const auto are = [&](const std::string& text, const Expected& expected) {
    const auto lines = Lines(text, 1, piece);
    return lines.ok() && *lines == expected;
  };
  CHECK(are(longest + end, {longest}));
  CHECK(are(mark + longest + end, {longest}));
  const size_t excess = GENERATE(1, 2, 3, 4, 5, 6, 200'000, 3'000'000);
  CAPTURE(excess);
  const std::string beyond = longest + std::string(excess, 'x');
  CHECK(are(beyond + end, {kTooLong}));
  CHECK(are(mark + beyond + end, {kTooLong}));
  CHECK(are("a\n" + beyond + "\nb\n" + beyond + "\r\n\n" + longest + end,
            {"a", kTooLong, "b", kTooLong, "", longest}));
}

}  // namespace
}  // namespace simurgh
