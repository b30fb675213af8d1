// Writes generated data; simurgh/data/generator.h and teachers.h describe them.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <numeric>
#include <optional>
#include <utility>

#include "services/datagen/options.h"
#include "services/datagen/report.h"
#include "services/datagen/teachers.h"
#include "services/runtime/command_line.h"
#include "simurgh/data/file_writer.h"

namespace simurgh {
namespace {

constexpr uint64_t kBlockSamples = 16'384;  // About 8 MB of text.

struct Block {
  uint64_t samples = 0;
  uint64_t positives = 0;
  std::string text;
  Verdicts verdicts;
};

// Samples [first, first + count), with verdicts of the first `reported`.
Block Generate(const SampleWriter& writer, uint64_t first, uint64_t count, uint64_t reported) {
  Block block;
  block.samples = count;
  for (uint64_t n = 0; n < count; ++n) {
    const GeneratedSample sample = writer.append(first + n, block.text);
    block.positives += sample.labels[0] == 1.0F ? 1 : 0;
    if (n < reported) block.verdicts.Add(sample);
  }
  return block;
}

// Several threads generate blocks ahead; the file has them in order.
Status Run(const SampleWriter& writer, const DatagenOptions& options, FileWriter file) {
  const auto start = std::chrono::steady_clock::now();
  auto shown = start;
  std::deque<std::future<Block>> ahead;
  Verdicts verdicts;
  uint64_t started = 0;
  uint64_t written = 0;
  uint64_t positives = 0;
  SIMURGH_RETURN_IF_ERROR(file.Append(writer.header));
  while (written < options.samples) {
    while (ahead.size() < options.threads && started < options.samples) {
      const uint64_t count = std::min(kBlockSamples, options.samples - started);
      const uint64_t reported = options.report_samples - std::min(options.report_samples, started);
      ahead.push_back(std::async(std::launch::async, Generate, std::cref(writer),
                                 options.first + started, count, reported));
      started += count;
    }
    const Block block = ahead.front().get();
    ahead.pop_front();
    SIMURGH_RETURN_IF_ERROR(file.Append(block.text));
    verdicts.Append(block.verdicts);
    written += block.samples;
    positives += block.positives;
    const auto now = std::chrono::steady_clock::now();
    if (written < options.samples && now - shown < std::chrono::seconds(1)) continue;
    shown = now;
    const double seconds = std::chrono::duration<double>(now - start).count();
    std::cerr << "datagen: " << written << " of " << options.samples << " samples, "
              << static_cast<uint64_t>(static_cast<double>(written) / seconds) << " per second\n";
  }
  SIMURGH_RETURN_IF_ERROR(file.Commit());
  std::cout << Report(verdicts, written, positives, writer.distinct_ids, options.json);
  return absl::OkStatus();
}

StatusOr<SampleWriter> WriterOf(const DatagenOptions& options) {
  switch (options.teacher) {
    case Teacher::kSequence:
      return SequenceTeacher(options.generator.seed);
    case Teacher::kExperts:
      return ExpertsTeacher(options.generator.seed);
    case Teacher::kClicks:
      break;
  }
  SIMURGH_ASSIGN_OR_RETURN(const Generator generator, Generator::Create(options.generator));
  const auto& cardinalities = generator.cardinalities();
  return SampleWriter{
      .distinct_ids = std::accumulate(cardinalities.begin(), cardinalities.end(), uint64_t{0}),
      .append = [generator](uint64_t number, std::string& text) {
        GeneratedSample sample = generator.Sample(number);
        generator.AppendLine(sample, text);
        return sample;
      }};
}

int Fail(const Status& status, ExitCode code) {
  std::cerr << "datagen: " << status.message() << "\n";
  return static_cast<int>(code);
}

int End(const Status& done) {
  return done.ok() ? static_cast<int>(ExitCode::kOk) : Fail(done, ExitCode::kRuntimeFailure);
}

int Main(int argc, const char* const* argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // A write beyond the limit of file sizes returns the error.
  const auto parsed = ParseDatagenOptions(argc, argv, std::cout);
  if (!parsed.ok()) return Fail(parsed.status(), ExitCode::kBadConfiguration);
  const std::optional<DatagenOptions>& options = *parsed;
  if (!options.has_value()) return End(FlushOutput());
  const StatusOr<SampleWriter> writer = WriterOf(*options);
  if (!writer.ok()) return Fail(writer.status(), ExitCode::kBadConfiguration);
  StatusOr<FileWriter> file = FileWriter::Create(options->output);
  if (!file.ok()) return Fail(Annotate(file.status(), "--output"), ExitCode::kBadConfiguration);
  Status done = Run(*writer, *options, *std::move(file));
  done.Update(FlushOutput());
  return End(done);
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
