#include "bench/datagen/generator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "base/hash.h"
#include "base/invalid.h"
#include "base/random.h"
#include "bench/datagen/zipf.h"
#include "config/data_config.h"

namespace simurgh {
namespace {

// A sample with ids as ranks.
struct SampleDraw {
  static constexpr uint64_t kMissingRank = ~uint64_t{0};
  static constexpr int32_t kMissingDense = INT32_MIN;

  std::array<uint64_t, kCriteoIdColumns> ranks;
  std::array<int32_t, kCriteoDenseColumns> dense;
};

// The log-odds that labels are drawn from; see Generator.
//
// Threads: any; const after construction.
class Teacher {
 public:
  struct Logits {
    double full;
    double additive;  // Without the pairs.
    double dense;     // The dense part and the bias.
  };

  // Scales the sums and sets the bias. calibration: 10,000 or more independent samples.
  Teacher(uint64_t seed, const std::vector<SampleDraw>& calibration);

  Logits Score(const SampleDraw& draw) const;

 private:
  struct Parts {
    double dense = 0.0;
    double ids = 0.0;
    double pairs = 0.0;
  };

  double Latent(size_t feature, uint64_t rank) const;
  Parts Evaluate(const SampleDraw& draw) const;

  std::array<double, kCriteoDenseColumns> dense_weights_;
  std::array<uint64_t, kCriteoIdColumns> latent_keys_;
  std::array<double, kCriteoIdColumns> latent_means_{};
  Parts means_;   // Means of the unscaled sums.
  Parts scales_;  // Factors of the sums.
  double bias_ = 0.0;
};

// Standard deviations of the three sums, in log-odds. They give the teacher an AUC near 0.82, and
// each part an effect well above the noise of 100,000 samples.
constexpr double kDenseDeviation = 0.75;
constexpr double kIdDeviation = 1.2;
constexpr double kPairDeviation = 0.75;
constexpr double kPositiveRate = 0.25;

// The rank by which an id's effect has halved.
constexpr double kHalfEffectRank = 128.0;

// Pairs (C1, C2), (C5, C8), (C14, C25), (C17, C22). Their cardinalities, about 10 to 1,000, make
// combinations of ids frequent.
constexpr std::array<std::pair<size_t, size_t>, 4> kPairs = {{{0, 1}, {4, 7}, {13, 24}, {16, 21}}};

// Exact with log instead of log1p, at half the cost, because x is an integer.
double SignedLog1p(int32_t x) {
  const double magnitude = std::log(1.0 + std::abs(static_cast<double>(x)));
  return x < 0 ? -magnitude : magnitude;
}

double Uniform(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1.0p-53; }

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// The bias at which `logits` have a mean probability of kPositiveRate.
double SolveBias(const std::vector<double>& logits) {
  double low = -30.0;
  double high = 30.0;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2.0;
    double sum = 0.0;
    for (const double logit : logits) sum += Sigmoid(logit + middle);
    (sum < kPositiveRate * static_cast<double>(logits.size()) ? low : high) = middle;
  }
  return low;
}

Teacher::Teacher(uint64_t seed, const std::vector<SampleDraw>& calibration) {
  Random random(seed);
  for (double& weight : dense_weights_) {
    weight = (random.Below(2) == 0 ? 1.0 : -1.0) * (0.5 + random.Uniform() / 2.0);
  }
  for (uint64_t& key : latent_keys_) key = random();

  const auto count = static_cast<double>(calibration.size());
  for (const SampleDraw& draw : calibration) {
    for (size_t f = 0; f < draw.ranks.size(); ++f) {
      latent_means_[f] += Latent(f, draw.ranks[f]) / count;
    }
  }
  std::vector<Parts> parts;
  parts.reserve(calibration.size());
  for (const SampleDraw& draw : calibration) parts.push_back(Evaluate(draw));
  const auto calibrate = [&](double Parts::* part, double deviation) {
    double sum = 0.0;
    double squares = 0.0;
    for (const Parts& sample : parts) {
      sum += sample.*part;
      squares += sample.*part * sample.*part;
    }
    means_.*part = sum / count;
    scales_.*part = deviation / std::sqrt(squares / count - means_.*part * means_.*part);
  };
  calibrate(&Parts::dense, kDenseDeviation);
  calibrate(&Parts::ids, kIdDeviation);
  calibrate(&Parts::pairs, kPairDeviation);
  std::vector<double> logits;
  logits.reserve(calibration.size());
  for (const SampleDraw& draw : calibration) logits.push_back(Score(draw).full);
  bias_ = SolveBias(logits);
}

// Neighbouring ranks, about equally frequent, have opposite signs, so the mean is near 0 for every
// seed.
double Teacher::Latent(size_t feature, uint64_t rank) const {
  if (rank == SampleDraw::kMissingRank) return 0.0;
  const uint64_t hash = Mix64(latent_keys_[feature] + rank);
  const uint64_t sign = (Mix64(latent_keys_[feature] ^ (rank / 2)) ^ rank) & 1;
  const double size =
      (0.5 + Uniform(hash) / 2.0) / (1.0 + static_cast<double>(rank) / kHalfEffectRank);
  return sign == 0 ? size : -size;
}

Teacher::Parts Teacher::Evaluate(const SampleDraw& draw) const {
  Parts parts;
  for (size_t c = 0; c < draw.dense.size(); ++c) {
    if (draw.dense[c] == SampleDraw::kMissingDense) continue;
    parts.dense += dense_weights_[c] * SignedLog1p(draw.dense[c]);
  }
  std::array<double, kCriteoIdColumns> latents;
  for (size_t f = 0; f < latents.size(); ++f) {
    latents[f] = Latent(f, draw.ranks[f]);
    parts.ids += latents[f];
  }
  for (const auto& [f, g] : kPairs) {
    parts.pairs += (latents[f] - latent_means_[f]) * (latents[g] - latent_means_[g]);
  }
  return parts;
}

Teacher::Logits Teacher::Score(const SampleDraw& draw) const {
  const Parts parts = Evaluate(draw);
  const double dense = bias_ + scales_.dense * (parts.dense - means_.dense);
  const double additive = dense + scales_.ids * (parts.ids - means_.ids);
  const double full = additive + scales_.pairs * (parts.pairs - means_.pairs);
  return {.full = full, .additive = additive, .dense = dense};
}

using Cardinalities = std::array<uint64_t, Generator::kFeatures>;

// Distinct ids of C1 to C26 in the display advertising challenge.
constexpr Cardinalities kCriteoCardinalities = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};
constexpr uint64_t kSmallestCardinality = 3;
constexpr double kLargestScale = 100.0;  // Ranks stay within 32 bits, which 8 digits can number.

constexpr size_t kCalibrationSamples = 50'000;

// An integer column: floor of a log-normal value.
struct DenseDistribution {
  double log_median;
  double deviation;
};

// Medians approximate Criteo's data, where only I2 has negative values.
constexpr std::array<DenseDistribution, kCriteoDenseColumns> kDense = {{{0.5, 1.2},
                                                                        {1.3, 1.6},
                                                                        {1.9, 1.2},
                                                                        {1.5, 1.0},
                                                                        {7.8, 1.6},
                                                                        {3.5, 1.4},
                                                                        {1.3, 1.3},
                                                                        {2.0, 1.1},
                                                                        {3.7, 1.3},
                                                                        {0.3, 0.6},
                                                                        {0.8, 0.9},
                                                                        {0.2, 1.0},
                                                                        {1.5, 1.1}}};
constexpr size_t kNegativeColumn = 1;
constexpr double kMinusOne = 0.10;
constexpr double kMinusTwo = 0.02;

// Independent streams of random numbers.
enum class Stream : uint64_t { kSamples, kCalibration, kIds, kTeacher };

uint64_t StreamSeed(uint64_t seed, Stream stream) {
  return Mix64(Mix64(seed) + static_cast<uint64_t>(stream) + 1);
}

Cardinalities ScaleCardinalities(double scale) {
  Cardinalities scaled;
  for (size_t f = 0; f < scaled.size(); ++f) {
    const double wanted = std::round(static_cast<double>(kCriteoCardinalities[f]) * scale);
    scaled[f] = std::max(kSmallestCardinality, static_cast<uint64_t>(wanted));
  }
  return scaled;
}

uint64_t Sum(const Cardinalities& cardinalities) {
  return std::accumulate(cardinalities.begin(), cardinalities.end(), uint64_t{0});
}

// Scales to the largest sum not above `sum`, and adds the rest to the largest feature.
Cardinalities CardinalitiesOfSum(uint64_t sum) {
  double low = 0.0;
  double high = kLargestScale;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2.0;
    (Sum(ScaleCardinalities(middle)) <= sum ? low : high) = middle;
  }
  Cardinalities cardinalities = ScaleCardinalities(low);
  *std::max_element(cardinalities.begin(), cardinalities.end()) += sum - Sum(cardinalities);
  return cardinalities;
}

Status OutOfRange(std::string_view option, double value, std::string_view range) {
  return Invalid("--%s: %g is out of range; use %s", option, value, range);
}

Status CheckConfig(const GeneratorConfig& config) {
  if (!(config.cardinality_scale > 0.0 && config.cardinality_scale <= kLargestScale)) {
    return OutOfRange("cardinality-scale", config.cardinality_scale, "above 0, at most 100");
  }
  const uint64_t fewest = kSmallestCardinality * Generator::kFeatures;
  const uint64_t most = Sum(ScaleCardinalities(kLargestScale));
  if (config.distinct_ids != 0 && (config.distinct_ids < fewest || config.distinct_ids > most)) {
    return OutOfRange("distinct-ids", static_cast<double>(config.distinct_ids),
                      absl::StrFormat("%d to %d", fewest, most));
  }
  if (!(config.zipf_exponent > 0.0 && config.zipf_exponent <= 4.0)) {
    return OutOfRange("zipf-exponent", config.zipf_exponent, "above 0, at most 4");
  }
  if (!(config.missing >= 0.0 && config.missing <= 0.9)) {
    return OutOfRange("missing", config.missing, "0 to 0.9");
  }
  if (config.id_digits != 8 && config.id_digits != 16) {
    return OutOfRange("id-digits", config.id_digits, "8 or 16");
  }
  if (config.labels < 1 || config.labels > kMaxTasks) {
    return OutOfRange("labels", config.labels, absl::StrFormat("1 to %d", kMaxTasks));
  }
  return absl::OkStatus();
}

// A bijection of 32-bit words. Source: the finaliser of MurmurHash3 (Appleby).
uint32_t Mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

char* WriteHex(uint64_t value, int digits, char* out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    *out++ = "0123456789abcdef"[(value >> shift) & 15];
  }
  return out;
}

// Standard normal values, by Box and Muller, both of a pair.
std::array<double, kCriteoDenseColumns + 1> Normals(Random& random) {
  static_assert(kCriteoDenseColumns % 2 == 1, "one value of the last pair is left over");
  std::array<double, kCriteoDenseColumns + 1> normals;
  for (size_t n = 0; n < normals.size(); n += 2) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random.Uniform()));
    const double angle = 2.0 * std::numbers::pi * random.Uniform();
    normals[n] = radius * std::cos(angle);
    normals[n + 1] = radius * std::sin(angle);
  }
  return normals;
}

}  // namespace

struct Generator::State {
  GeneratorConfig config;
  Cardinalities cardinalities;
  std::vector<ZipfSampler> samplers;
  std::array<uint64_t, kFeatures> id_keys;
  std::vector<Teacher> teachers;  // One a label.

  SampleDraw Draw(Random& random) const;
  uint64_t Id(size_t feature, uint64_t rank) const;
};

SampleDraw Generator::State::Draw(Random& random) const {
  SampleDraw draw;
  const auto normals = Normals(random);
  for (size_t c = 0; c < kDenseColumns; ++c) {
    const double kind = random.Uniform();
    if (kind < config.missing) {
      draw.dense[c] = SampleDraw::kMissingDense;
    } else if (c == kNegativeColumn && kind > 1.0 - kMinusOne - kMinusTwo) {
      draw.dense[c] = kind > 1.0 - kMinusTwo ? -2 : -1;
    } else {
      const DenseDistribution& column = kDense[c];
      const double value = std::exp(column.log_median + column.deviation * normals[c]);
      draw.dense[c] = static_cast<int32_t>(value);  // 9 deviations off, still below 2^31.
    }
  }
  for (size_t f = 0; f < kFeatures; ++f) {
    const bool missing = config.missing > 0.0 && random.Uniform() < config.missing;
    draw.ranks[f] = missing ? SampleDraw::kMissingRank : samplers[f].Draw(random);
  }
  return draw;
}

uint64_t Generator::State::Id(size_t feature, uint64_t rank) const {
  const uint64_t key = id_keys[feature];
  if (config.id_digits == 16) return Mix64(key + rank);
  return Mix32(static_cast<uint32_t>(key + rank));  // Bijective too: ranks have 32 bits.
}

StatusOr<Generator> Generator::Create(const GeneratorConfig& config) {
  SIMURGH_RETURN_IF_ERROR(CheckConfig(config));
  auto state = std::make_shared<State>();
  state->config = config;
  state->cardinalities = config.distinct_ids == 0 ? ScaleCardinalities(config.cardinality_scale)
                                                  : CardinalitiesOfSum(config.distinct_ids);
  for (const uint64_t cardinality : state->cardinalities) {
    state->samplers.emplace_back(cardinality, config.zipf_exponent);
  }
  Random ids(StreamSeed(config.seed, Stream::kIds));
  for (uint64_t& key : state->id_keys) key = ids();

  Random random(StreamSeed(config.seed, Stream::kCalibration));
  std::vector<SampleDraw> calibration;
  calibration.reserve(kCalibrationSamples);
  for (size_t n = 0; n < kCalibrationSamples; ++n) calibration.push_back(state->Draw(random));
  for (uint32_t task = 0; task < config.labels; ++task) {
    const uint64_t seed = StreamSeed(config.seed, Stream::kTeacher);
    state->teachers.emplace_back(task == 0 ? seed : Mix64(seed + task), calibration);
  }
  return Generator(std::move(state));
}

GeneratedSample Generator::Sample(uint64_t number) const {
  Random random(Mix64(StreamSeed(state_->config.seed, Stream::kSamples) + number));
  const SampleDraw draw = state_->Draw(random);
  const Teacher::Logits first = state_->teachers.front().Score(draw);
  GeneratedSample sample{.additive_logit = first.additive, .dense_logit = first.dense};
  for (const Teacher& teacher : state_->teachers) {
    const bool is_first = &teacher == &state_->teachers.front();
    const double logit = is_first ? first.full : (first.full + teacher.Score(draw).full) / 2;
    sample.teacher_logits.push_back(logit);
    const bool positive = random.Uniform() * (1.0 + std::exp(-logit)) < 1.0;
    sample.labels.push_back(positive ? 1.0F : 0.0F);
  }
  for (size_t c = 0; c < kDenseColumns; ++c) {
    if (draw.dense[c] != SampleDraw::kMissingDense) sample.dense[c] = draw.dense[c];
  }
  for (size_t f = 0; f < kFeatures; ++f) {
    if (draw.ranks[f] != SampleDraw::kMissingRank) sample.ids[f] = state_->Id(f, draw.ranks[f]);
  }
  return sample;
}

const std::array<uint64_t, Generator::kFeatures>& Generator::cardinalities() const {
  return state_->cardinalities;
}

void Generator::AppendLine(const GeneratedSample& sample, std::string& text) const {
  constexpr size_t kLongestInteger = 11;
  constexpr size_t kLongestLine =
      1 + 2 * kMaxTasks + kDenseColumns * (1 + kLongestInteger) + kFeatures * (1 + 16);
  std::array<char, kLongestLine> line;
  char* next = line.data();
  for (const float label : sample.labels) {
    if (next != line.data()) *next++ = '\t';
    *next++ = label == 1.0F ? '1' : '0';
  }
  for (const std::optional<int32_t>& value : sample.dense) {
    *next++ = '\t';
    if (value.has_value()) next = std::to_chars(next, next + kLongestInteger, *value).ptr;
  }
  for (const std::optional<uint64_t>& id : sample.ids) {
    *next++ = '\t';
    if (id.has_value()) next = WriteHex(*id, state_->config.id_digits, next);
  }
  *next++ = '\n';
  text.append(line.data(), next - line.data());
}

}  // namespace simurgh
