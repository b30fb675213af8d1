// Time of writing and loading the rows of a server. See --help.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "bench/support/flags.h"
#include "config/cluster_config.h"
#include "config/uri.h"
#include "embedding/bucket_map.h"
#include "model/model_directory.h"
#include "model/tensor_file.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/runtime/io_thread.h"
#include "table/table.h"
#include "telemetry/logging.h"
#include "telemetry/metrics.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_checkpoint: rows of a parameter server to disk and back

Usage: bench_checkpoint [options]

Loads a generated checkpoint of a table with Adagrad into a parameter server in this process. Saves
the server's rows, pulls 1 % of them and saves a delta. Loads take turns with a program that reads
the same files in order. Saves take turns with one that writes equally many bytes to one file and
syncs it. No file is in the page cache when it is read. share: time of that program over time
of the server. In a bucket, that program uploads and reads an object in parts, several at once.

Exit codes: 0 done, 1 failed, 2 bad options.
)";

constexpr uint64_t kRowsPerChange = 100;   // A delta has one row of these.
constexpr size_t kPlainBytes = 1 << 20;    // Size of one read or write.
constexpr size_t kBucketBytes = 32 << 20;  // Size of one read in a bucket, by several requests.

struct Options {
  uint64_t rows;
  size_t dim;
  size_t partitions;
  size_t turns;
  std::string folder;
  bool json;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("bench_checkpoint", kAbout);
  flags.Number("rows", options.rows, 1, 1e9, {"10000000", "1000000"}, "rows of the table");
  flags.Number("dim", options.dim, 1, 1024, {"16"}, "weights of a row");
  flags.Number("partitions", options.partitions, 1, 64, {"2"}, "partitions of the server");
  flags.Number("turns", options.turns, 1, 1'000, {"5", "2"}, "repetitions of each measurement");
  flags.File("folder", options.folder,
             "folder or bucket for some GB of files (default: build/bench/files)");
  flags.Parse(argc, argv);
  if (options.folder.empty()) options.folder = "build/bench/files";
  options.json = flags.json();
  return options;
}

double Seconds(const std::function<Status()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = work();
  SIMURGH_CHECK(status.ok()) << status.ToString();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ClusterConfig ConfigOf(const Options& options) {
  TableConfig table;
  table.name = "t";
  table.dim = static_cast<uint32_t>(options.dim);
  // Shares of partitions differ a little.
  table.capacity_rows = options.rows + options.rows / 4 + 1'000;
  table.optimizer.kind = SparseOptimizerConfig::Kind::kAdagrad;
  ClusterConfig config;
  config.tables = {table};
  config.embedding_ps.partitions = static_cast<uint32_t>(options.partitions);
  config.embedding_ps.instances.resize(1);
  config.checkpoint.directory = AbsoluteFolder(options.folder + "/model");
  config.checkpoint.full_every = 2;
  return config;
}

Status WriteRows(const TableConfig& table, const std::string& path, uint64_t rows,
                 FileSystem& files) {
  const std::vector<TensorSpec> tensors = Table::FileTensors(table, rows);
  SIMURGH_ASSIGN_OR_RETURN(
      TensorFileWriter writer,
      TensorFileWriter::Create(path, tensors, Table::FileMetadata(table), files));
  constexpr uint64_t kPiece = 65'536;
  Random random(1);
  std::vector<float> numbers(kPiece * table.dim);
  for (float& number : numbers) number = static_cast<float>(random.Uniform());
  for (uint64_t row = 0; row < rows; row += kPiece) {
    const uint64_t count = std::min(kPiece, rows - row);
    std::vector<uint64_t> ids(count);
    for (uint64_t i = 0; i < count; ++i) ids[i] = Mix64(row + i);
    std::vector<std::span<const std::byte>> parts;
    for (const TensorSpec& tensor : tensors) {
      const std::span<const std::byte> bytes = tensor.dtype == DType::kU64
                                                   ? std::as_bytes(std::span(ids))
                                                   : std::as_bytes(std::span(numbers));
      parts.push_back(bytes.first(count * tensor.row_bytes()));
    }
    // Any stamps will do, but not hashes.
    std::vector<uint64_t> stamps(count, row / kPiece + 1);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name == "recency") parts[i] = std::as_bytes(std::span(stamps));
    }
    SIMURGH_RETURN_IF_ERROR(writer.Append(count, parts));
  }
  return writer.Finish().status();
}

StatusOr<Checkpoint> Generate(const Options& options, const ClusterConfig& config,
                              ModelDirectory& model) {
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt, model.Begin(1, 1));
  SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path("rows/t/0.safetensors"));
  SIMURGH_RETURN_IF_ERROR(WriteRows(config.tables[0], path, options.rows, model.files()));
  return attempt.Publish({});
}

// Pulls some of the rows, as training does.
Status PullSome(const Options& options, const ClusterConfig& config, ParameterServer& server) {
  const BucketMap map(1, config.embedding_ps.partitions);
  std::vector<std::vector<uint64_t>> by_slot(map.slots());
  for (uint64_t row = 0; row < options.rows; row += kRowsPerChange) {
    by_slot[map.SlotOf(Mix64(row))].push_back(Mix64(row));
  }
  RowGroup group{0, static_cast<uint32_t>(options.dim), {}};
  std::vector<uint64_t> ids;
  for (const std::vector<uint64_t>& own : by_slot) {
    group.counts.push_back(static_cast<uint32_t>(own.size()));
    ids.insert(ids.end(), own.begin(), own.end());
  }
  std::vector<float> rows(ids.size() * options.dim);
  const std::vector<RowGroup> groups = {group};
  IoThread io("bench");
  const auto call = [&]() -> rpc::awaitable<StatusOr<PullReport>> {
    const PullRowsCall pull{.step_id = {.run = 1, .step = 1},
                            .groups = groups,
                            .ids = ids,
                            .rows = std::as_writable_bytes(std::span(rows))};
    co_return co_await server.Pull(pull, {rpc::Clock::now() + std::chrono::hours(1)});
  };
  return rpc::asio::co_spawn(io.executor(), call, rpc::asio::use_future).get().status();
}

// parent: the last one, for a delta; null for a full checkpoint.
StatusOr<Checkpoint> Save(ParameterServer& server, ModelDirectory& model, uint64_t step,
                          const Checkpoint* parent = nullptr) {
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt, model.Begin(step, 1));
  const std::string folder = attempt.folder().substr(attempt.folder().rfind('/') + 1);
  const std::string continued =
      parent == nullptr ? "" : absl::StrCat("step-", parent->manifest.step, ".tmp-1");
  IoThread io("bench");
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(
        SaveProgress progress,
        rpc::asio::co_spawn(io.executor(),
                            server.SaveRows({.folder = folder, .parent = continued},
                                            {rpc::Clock::now() + std::chrono::hours(1)}),
                            rpc::asio::use_future)
            .get());
    if (progress.done) {
      Manifest manifest{.files = std::move(progress.files)};
      if (parent != nullptr) manifest.parent = {parent->manifest.step, parent->checksum};
      return attempt.Publish(std::move(manifest));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

uint64_t BytesOf(const Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const ModelFile& file : checkpoint.manifest.files) bytes += file.bytes;
  return bytes;
}

void DropFromCache(const Checkpoint& checkpoint) {
  if (IsUri(checkpoint.folder)) return;
  for (const ModelFile& file : checkpoint.manifest.files) {
    const int fd = open(checkpoint.Path(file.path).c_str(), O_RDONLY);
    SIMURGH_CHECK(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(fd);
  }
}

Status ReadPlainly(const Checkpoint& checkpoint) {
  std::vector<char> buffer(kPlainBytes);
  for (const ModelFile& file : checkpoint.manifest.files) {
    if (IsUri(checkpoint.folder)) {
      buffer.resize(kBucketBytes);
      SIMURGH_ASSIGN_OR_RETURN(const auto object,
                               checkpoint.files->Open(checkpoint.Path(file.path)));
      for (uint64_t at = 0; at < file.bytes; at += buffer.size()) {
        buffer.resize(std::min<uint64_t>(buffer.size(), file.bytes - at));
        SIMURGH_RETURN_IF_ERROR(object->Read(at, std::as_writable_bytes(std::span(buffer))));
      }
      continue;
    }
    const int fd = open(checkpoint.Path(file.path).c_str(), O_RDONLY);
    SIMURGH_CHECK(fd >= 0);
    while (read(fd, buffer.data(), buffer.size()) > 0) {
    }
    close(fd);
  }
  return absl::OkStatus();
}

Status WritePlainly(const std::string& path, uint64_t bytes) {
  const std::vector<char> buffer(kPlainBytes, 'x');
  if (IsUri(path)) {
    SIMURGH_ASSIGN_OR_RETURN(const auto object,
                             FileSystem::For(path.substr(0, path.rfind('/'))).Create(path));
    for (uint64_t at = 0; at < bytes; at += buffer.size()) {
      const auto piece = std::as_bytes(std::span(buffer));
      SIMURGH_RETURN_IF_ERROR(
          object->Write(at, piece.first(std::min<uint64_t>(buffer.size(), bytes - at))));
    }
    return object->Sync();
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  SIMURGH_CHECK(fd >= 0);
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const auto count = static_cast<ssize_t>(std::min<uint64_t>(buffer.size(), bytes - at));
    SIMURGH_CHECK(write(fd, buffer.data(), static_cast<size_t>(count)) == count);
  }
  SIMURGH_CHECK(fsync(fd) == 0);
  close(fd);
  return absl::OkStatus();
}

void Print(const Options& options, const char* work, uint64_t bytes, double seconds,
           double plain_seconds) {
  std::printf(options.json ? "{\"work\":\"%s\",\"rows\":%lu,\"dim\":%zu,\"partitions\":%zu,"
                             "\"bytes\":%lu,\"seconds\":%.3f,\"plain_seconds\":%.3f,"
                             "\"rows_per_s\":%.0f,\"share\":%.3f}\n"
                           : "%-6s %11lu %5zu %10zu %11lu %8.3f %13.3f %11.0f %6.3f\n",
              work, options.rows, options.dim, options.partitions, bytes, seconds, plain_seconds,
              static_cast<double>(options.rows) / seconds, plain_seconds / seconds);
  std::fflush(stdout);
}

Status Measure(const Options& options) {
  const ClusterConfig config = ConfigOf(options);
  ModelDirectory model(config.checkpoint.directory);
  FileSystem& files = model.files();
  SIMURGH_RETURN_IF_ERROR(files.Remove(model.path()));
  SIMURGH_RETURN_IF_ERROR(model.NewGeneration().status());
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint generated, Generate(options, config, model));
  const std::string plain_path = model.path() + "/plain";
  for (size_t turn = 0; turn < options.turns; ++turn) {
    MetricRegistry registry;
    ServerMetrics metrics(registry, config);
    SIMURGH_ASSIGN_OR_RETURN(const auto server, ParameterServer::Create(config, metrics));
    const auto load = [&] {
      DropFromCache(generated);
      return Seconds([&] {
        return server->LoadRows(generated, 0, [](uint64_t, uint64_t) { return absl::OkStatus(); });
      });
    };
    const auto read = [&] {
      DropFromCache(generated);
      return Seconds([&] { return ReadPlainly(generated); });
    };
    const uint64_t step = 2 * turn + 2;
    StatusOr<Checkpoint> saved = generated;
    const auto save = [&] {
      return Seconds([&] { return (saved = Save(*server, model, step)).status(); });
    };
    const auto write = [&](const Checkpoint& checkpoint) {
      return Seconds([&] { return WritePlainly(plain_path, BytesOf(checkpoint)); });
    };
    // The order changes each turn.
    const bool server_first = turn % 2 == 0;
    double plain = server_first ? 0 : read();
    double own = load();
    if (server_first) plain = read();
    Print(options, "load", BytesOf(generated), own, plain);
    plain = server_first ? 0 : write(generated);
    own = save();
    if (server_first) plain = write(generated);
    Print(options, "save", BytesOf(*saved), own, plain);
    SIMURGH_RETURN_IF_ERROR(PullSome(options, config, *server));
    StatusOr<Checkpoint> delta = generated;
    own = Seconds([&] { return (delta = Save(*server, model, step + 1, &*saved)).status(); });
    Print(options, "delta", BytesOf(*delta), own, write(*delta));
    for (const uint64_t one : {step + 1, step}) {
      SIMURGH_RETURN_IF_ERROR(files.Remove(model.path() + "/step-" + std::to_string(one)));
    }
    SIMURGH_RETURN_IF_ERROR(files.Remove(plain_path));
  }
  return files.Remove(model.path());
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  SIMURGH_CHECK(InitLogging("bench_checkpoint", "warn").ok());
  if (!options.json) {
    std::printf("%-6s %11s %5s %10s %11s %8s %13s %11s %6s\n", "work", "rows", "dim", "partitions",
                "bytes", "seconds", "plain_seconds", "rows_per_s", "share");
  }
  const Status status = Measure(options);
  if (status.ok()) return 0;
  std::cerr << "bench_checkpoint: " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
