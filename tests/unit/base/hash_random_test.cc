#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"

namespace simurgh {
namespace {

// The buffer of xxHash's own sanity test: byte i is the top byte of kPrime32 * kPrime64^i.
// Source: https://github.com/Cyan4973/xxHash, cli/xsum_sanity_check.c.
std::string SanityBuffer(size_t size) {
  constexpr uint64_t kPrime32 = 2654435761U;
  constexpr uint64_t kPrime64 = 11400714785074694797ULL;
  std::string buffer(size, '\0');
  uint64_t generator = kPrime32;
  for (char& c : buffer) {
    c = static_cast<char>(generator >> 56);
    generator *= kPrime64;
  }
  return buffer;
}

TEST_CASE("A hash of pieces is the hash of the whole") {
  const std::string buffer = SanityBuffer(10'000);
  ByteHasher hasher;
  for (const size_t piece : {1U, 7U, 240U, 241U, 1000U, 9999U, 10'000U}) {
    for (size_t at = 0; at < buffer.size(); at += piece) {
      hasher.Update(
          std::as_bytes(std::span(buffer).subspan(at).first(std::min(piece, buffer.size() - at))));
    }
    CHECK(hasher.Finish() == HashBytes(buffer));
  }
  CHECK(hasher.Finish() == HashBytes(""));
}

TEST_CASE("XXH3 gives the published values") {
  // Source: xxHash v0.8.1, cli/xsum_sanity_check.c, XSUM_XXH3_testdata.
  struct Vector {
    size_t size;
    uint64_t seed;
    uint64_t hash;
  };
  constexpr uint64_t kSeed = 0x9E3779B185EBCA8DULL;
  const Vector vector = GENERATE(values<Vector>({
      {0, 0, 0x2D06800538D394C2ULL},   {0, kSeed, 0xA8A6B918B2F0364AULL},
      {1, 0, 0xC44BDFF4074EECDBULL},   {1, kSeed, 0x032BE332DD766EF8ULL},
      {6, 0, 0x27B56A84CD2D7325ULL},   {6, kSeed, 0x84589C116AB59AB9ULL},
      {12, 0, 0xA713DAF0DFBB77E7ULL},  {12, kSeed, 0xE7303E1B2336DE0EULL},
      {24, 0, 0xA3FE70BF9D3510EBULL},  {24, kSeed, 0x850E80FC35BDD690ULL},
      {48, 0, 0x397DA259ECBA1F11ULL},  {48, kSeed, 0xADC2CBAA44ACC616ULL},
      {80, 0, 0xBCDEFBBB2C47C90AULL},  {80, kSeed, 0xC6DD0CB699532E73ULL},
      {195, 0, 0xCD94217EE362EC3AULL}, {195, kSeed, 0xBA68003D370CB3D9ULL},
      {403, 0, 0xCDEB804D65C6DEA4ULL}, {403, kSeed, 0x6259F6ECFD6443FDULL},
      {512, 0, 0x617E49599013CB6BULL}, {512, kSeed, 0x3CE457DE14C27708ULL},
  }));
  const std::string buffer = SanityBuffer(vector.size);
  CAPTURE(vector.size, vector.seed);
  CHECK(HashBytes(buffer, vector.seed) == vector.hash);
}

// Source: the outputs of splitmix64.c (Vigna, https://prng.di.unimi.it/splitmix64.c) for seed
// 1234567, as published on Rosetta Code, "Pseudo-random numbers/Splitmix64".
TEST_CASE("SplitMix64 gives the published sequence") {
  Random random(1234567);
  for (const uint64_t expected :
       {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
        4593380528125082431ULL, 16408922859458223821ULL}) {
    CHECK(random() == expected);
  }
}

TEST_CASE("Mix64 is a bijection that spreads every bit") {
  CHECK(Mix64(0) == 0);
  // Its inverse: the same steps backwards, with the multiplicative inverses.
  const auto unmix = [](uint64_t x) {
    x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3ULL;
    x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089ULL;
    return x ^ (x >> 30) ^ (x >> 60);
  };
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = random();
    REQUIRE(unmix(Mix64(x)) == x);
  }
  // Flipping one input bit flips each output bit about half of the time: 64 * 500 trials a bit, 32
  // +- 1 expected.
  double flipped = 0;
  for (int bit = 0; bit < 64; ++bit) {
    for (int i = 0; i < 500; ++i) {
      const uint64_t x = random();
      flipped += std::popcount(Mix64(x) ^ Mix64(x ^ (uint64_t{1} << bit)));
    }
  }
  CHECK(flipped / (64 * 500) == Approx(32.0).margin(0.2));
}

TEST_CASE("Below stays below and reaches everything evenly") {
  Random random(42);
  CHECK(random.Below(1) == 0);
  for (uint64_t bound : {uint64_t{2}, uint64_t{3}, uint64_t{1} << 63, ~uint64_t{0}}) {
    for (int i = 0; i < 1000; ++i) REQUIRE(random.Below(bound) < bound);
  }
  std::array<int, 7> counts{};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++counts[random.Below(counts.size())];
  // 10,000 each; the deviation of one count is below 93, and six of them is far out.
  for (const int count : counts) CHECK(std::abs(count - kDraws / 7) < 600);
}

TEST_CASE("Uniform is in [0, 1) and Normal has the moments of a normal") {
  Random random(7);
  constexpr int kDraws = 200'000;
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.Uniform();
    if (u < 0 || u >= 1) FAIL("out of range: " << u);
    const double n = random.Normal();
    if (!std::isfinite(n)) FAIL("not finite");
    sum += n;
    sum_of_squares += n * n;
  }
  CHECK(sum / kDraws == Approx(0.0).margin(0.015));  // More than six standard errors.
  CHECK(sum_of_squares / kDraws == Approx(1.0).margin(0.02));
}

TEST_CASE("sequences of a seed repeat, and seeds differ") {
  Random a(3), b(3), c(4);
  const uint64_t first = a();
  CHECK(b() == first);
  CHECK(c() != first);
}

}  // namespace
}  // namespace simurgh
