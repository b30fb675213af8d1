// Writes generated data; simurgh/data/generator.h describes it.

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <numeric>
#include <optional>

#include "services/datagen/options.h"
#include "services/datagen/report.h"
#include "services/runtime/exit_code.h"
#include "simurgh/data/file_writer.h"

namespace simurgh {
namespace {

constexpr uint64_t kBlockSamples = 16'384;  // A thread's piece of work: some 8 MB of text.

struct Block {
  uint64_t samples = 0;
  uint64_t positives = 0;
  std::string text;
  Verdicts verdicts;
};

// Samples [first, first + count), the first `reported` of them with their verdicts.
Block Generate(const Generator& generator, uint64_t first, uint64_t count, uint64_t reported) {
  Block block;
  block.samples = count;
  for (uint64_t n = 0; n < count; ++n) {
    const GeneratedSample sample = generator.Sample(first + n);
    generator.AppendLine(sample, block.text);
    block.positives += sample.label == 1.0F ? 1 : 0;
    if (n < reported) block.verdicts.Add(sample);
  }
  return block;
}

// Blocks in the order of their numbers, generated ahead by several threads.
class BlockQueue {
 public:
  BlockQueue(const Generator& generator, const DatagenOptions& options)
      : generator_(generator), options_(options) {}

  bool empty() const { return started_ == options_.samples && waiting_.empty(); }

  Block Next() {
    while (waiting_.size() < options_.threads && started_ < options_.samples) {
      const uint64_t count = std::min(kBlockSamples, options_.samples - started_);
      const uint64_t reported =
          options_.report_samples - std::min(options_.report_samples, started_);
      waiting_.push_back(std::async(std::launch::async, Generate, std::cref(generator_),
                                    options_.first + started_, count, reported));
      started_ += count;
    }
    Block block = waiting_.front().get();
    waiting_.pop_front();
    return block;
  }

 private:
  const Generator& generator_;
  const DatagenOptions& options_;
  uint64_t started_ = 0;  // Samples of blocks that are, or were, waiting.
  std::deque<std::future<Block>> waiting_;
};

// Prints the progress to stderr, about once a second.
class Progress {
 public:
  explicit Progress(uint64_t samples) : samples_(samples) {}

  void Show(uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (done < samples_ && now - shown_ < std::chrono::seconds(1)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    std::cerr << "datagen: " << done << " of " << samples_ << " samples, "
              << static_cast<uint64_t>(static_cast<double>(done) / seconds) << " a second\n";
  }

 private:
  uint64_t samples_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = start_;
};

Status Run(const Generator& generator, const DatagenOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(options.output));
  BlockQueue blocks(generator, options);
  Progress progress(options.samples);
  Verdicts verdicts;
  uint64_t written = 0;
  uint64_t positives = 0;
  while (!blocks.empty()) {
    const Block block = blocks.Next();
    SIMURGH_RETURN_IF_ERROR(file.Append(block.text));
    verdicts.Append(block.verdicts);
    written += block.samples;
    positives += block.positives;
    progress.Show(written);
  }
  SIMURGH_RETURN_IF_ERROR(file.Commit());
  const auto& cardinalities = generator.cardinalities();
  const uint64_t ids = std::accumulate(cardinalities.begin(), cardinalities.end(), uint64_t{0});
  std::cout << Report(verdicts, written, positives, ids, options.json) << std::flush;
  return std::cout.good() ? absl::OkStatus() : absl::DataLossError("cannot write to stdout");
}

int Fail(const Status& status, ExitCode code) {
  std::cerr << "datagen: " << status.message() << "\n";
  return static_cast<int>(code);
}

int Main(int argc, const char* const* argv) {
  const auto parsed = ParseDatagenOptions(argc, argv, std::cout);
  if (!parsed.ok()) return Fail(parsed.status(), ExitCode::kBadConfiguration);
  const std::optional<DatagenOptions>& options = *parsed;
  if (!options.has_value()) return static_cast<int>(ExitCode::kOk);
  const auto generator = Generator::Create(options->generator);
  if (!generator.ok()) return Fail(generator.status(), ExitCode::kBadConfiguration);
  const Status done = Run(*generator, *options);
  return done.ok() ? static_cast<int>(ExitCode::kOk) : Fail(done, ExitCode::kRuntimeFailure);
}

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  try {
    return simurgh::Main(argc, argv);
  } catch (const std::exception& error) {  // Out of memory or threads.
    std::cerr << "datagen: " << error.what() << "\n";
    return static_cast<int>(simurgh::ExitCode::kRuntimeFailure);
  }
}
