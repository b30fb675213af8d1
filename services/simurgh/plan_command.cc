// simurgh plan: estimates memory, network and disk of a configuration, before any daemon runs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <nlohmann/json.hpp>

#include "base/aligned_buffer.h"
#include "data/batch/batch_builder.h"
#include "data/reading/batch_reader.h"
#include "embedding/bucket_map.h"
#include "nn/dense_optimizer.h"
#include "nn/item_frequency.h"
#include "services/api/batch_rpc.h"
#include "services/api/dense_rpc.h"
#include "services/api/row_rpc.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/plan.h"
#include "services/simurgh/step_meter.h"
#include "telemetry/logging.h"
#include "telemetry/metrics.h"
#include "train/dense_weights.h"

namespace simurgh {

namespace {

constexpr char kPlanNotes[] =
    R"(Prints the memory of each embedding-ps and the size of a full checkpoint. Prints the bytes of
calls in a step of all ranks, too. Needs no daemon. If the data can be read, the bytes are those
of the first 200,000 samples. Otherwise they are an upper bound, in which all ids of a batch
differ. Gradients between nn-workers and batches of loaders are not counted.

The number of ids is that of the distinct ids in the training data. A total is split over
tables: each gets the ids of the sample, then a part in proportion to those that the sample
has once. Without data tables get equal parts. Tables of the same columns have the same ids,
which count once; each table has a row for them. No table gets more ids than its features
can have. Without CONFIG there is one table with default keys, which --set changes.

Recommends servers if their memory has a limit. Recommends enough embedding workers for forward
buffers with room for all batches read ahead. `simurgh status` shows whether training needs more.

Examples:
  simurgh plan --ids 100M --set tables.0.dim=32
  simurgh plan clicks.yaml --ids 500M --memory-per-server 64G
  simurgh plan clicks.yaml --ids site=1000000 --ids ad=40000000

Exit codes:
  0  done
  2  bad arguments, configuration or data
  3  the data is damaged, or memory is short
)";

constexpr uint64_t kSampledRows = 200'000;
constexpr uint64_t kMostIds = uint64_t{1} << 48;

struct PlanOptions {
  ConfigArguments config;
  PlannedIds ids;
  uint64_t server_memory = 0;  // Bytes; 0: no limit.
  bool json = false;
};

// Parses a size: "64G", "64GiB" or bytes.
StatusOr<uint64_t> ParseSize(const std::string& text) {
  constexpr absl::string_view kUnits = "KMGT";
  absl::string_view number = text;
  absl::ConsumeSuffix(&number, "iB");
  const size_t unit = number.empty() ? kUnits.npos : kUnits.find(number.back());
  if (unit != kUnits.npos) number.remove_suffix(1);
  const size_t shift = unit == kUnits.npos ? 0 : 10 * (unit + 1);
  uint64_t value = 0;
  if (!absl::SimpleAtoi(number, &value) || value == 0 || value > (uint64_t{1} << 50) >> shift) {
    return OptionProblem(absl::StrCat("--memory-per-server: '", text,
                                      "' is not a size; use bytes up to 1024T, such as 64G"));
  }
  return value << shift;
}

// Returns the number of "500000000", "100M" or "1.5G"; 0 for another text.
uint64_t CountOf(absl::string_view text) {
  double factor = 1;
  for (const auto& [suffix, size] :
       {std::pair("k", 1e3), std::pair("M", 1e6), std::pair("G", 1e9)}) {
    if (absl::ConsumeSuffix(&text, suffix)) {
      factor = size;
      break;
    }
  }
  uint64_t whole = 0;
  if (factor == 1) return absl::SimpleAtoi(text, &whole) ? whole : 0;
  double number = 0;
  const bool is_number = text.find_first_not_of("0123456789.") == text.npos &&
                         absl::SimpleAtod(text, &number) && number * factor <= kMostIds;
  return is_number ? static_cast<uint64_t>(std::llround(number * factor)) : 0;
}

}  // namespace

Status PlannedIds::Add(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string table = equals == text.npos ? "" : text.substr(0, equals);
  const uint64_t ids = CountOf(equals == text.npos ? text : text.substr(equals + 1));
  if (ids == 0 || ids > kMostIds) {
    return OptionProblem(absl::StrCat("--ids: '", text,
                                      "' is not a number of ids; use N or TABLE=N, with N from 1 "
                                      "to 2^48, such as 500000, 100M or 1.5G"));
  }
  const bool is_first =
      equals == text.npos ? !std::exchange(all, ids) : tables.emplace(table, ids).second;
  if (is_first) return absl::OkStatus();
  return OptionProblem(
      absl::StrCat("--ids: ", table.empty() ? "the total" : table, " is given twice"));
}

namespace {

// --- Steps.

// Returns the largest number of ids that a feature can have.
double MostIdsOf(const FeatureConfig& feature) {
  const ProcessingConfig& processing = feature.processing;
  if (feature.hash_stack.rounds > 0) {
    return feature.hash_stack.rounds * static_cast<double>(feature.hash_stack.buckets);
  }
  double most = std::numeric_limits<double>::infinity();
  if (processing.quantiles > 0) most = processing.quantiles;
  if (!processing.boundaries.empty()) most = static_cast<double>(processing.boundaries.size()) + 1;
  if (!processing.vocabulary.empty()) {
    most = static_cast<double>(processing.vocabulary.size() + processing.oov_ids);
  }
  if (processing.modulo > 0) most = std::min(most, static_cast<double>(processing.modulo));
  const bool has_missing = processing.missing == ProcessingConfig::Missing::kId;
  return most + (has_missing || processing.pad ? 1 : 0);
}

// The ids of a table, in the sampled data and in all.
struct TableIds {
  double most = 0;  // Largest number that the table's features can have.
  double ids = 0;   // Estimated number.
  // Number of occurrences of each id in the sample, in any feature.
  absl::flat_hash_map<uint64_t, uint32_t> seen;
  // Number of ids that were seen once. Source: I. J. Good, Biometrika 40, 1953: the chance that the
  // next id is new is about the share of these.
  double singles = 0;
};

std::vector<TableIds> TablesOf(const ClusterConfig& config) {
  std::vector<TableIds> tables(config.tables.size());
  for (const FeatureConfig& feature : config.features) {
    tables[feature.table_index].most += MostIdsOf(feature);
  }
  return tables;
}

// Splits a total over tables, and moves the excess of one table to the others. Returns the number
// of ids that no table can have.
double Split(double total, std::vector<TableIds*> tables) {
  double seen = 0;
  double singles = 0;
  for (const TableIds* table : tables) {
    seen += static_cast<double>(table->seen.size());
    singles += table->singles;
  }
  const double share = seen == 0 ? 0 : std::min(1.0, total / seen);
  for (TableIds* table : tables) table->ids = static_cast<double>(table->seen.size()) * share;
  double rest = total - seen * share;
  while (rest >= 1 && !tables.empty()) {
    const auto weight = [&](const TableIds& table) { return singles > 0 ? table.singles : 1; };
    double weights = 0;
    for (const TableIds* table : tables) weights += weight(*table);
    if (weights == 0) break;
    const double part = rest / weights;
    for (TableIds* table : tables) {
      const double more = std::min(part * weight(*table), std::max(0.0, table->most - table->ids));
      table->ids += more;
      rest -= more;
    }
    std::erase_if(tables, [](const TableIds* table) { return table->ids >= table->most; });
  }
  return rest;
}

// Returns for each table the first one of the same columns, which has the same ids.
std::vector<size_t> FirstOfColumns(const ClusterConfig& config) {
  std::vector<std::multiset<std::string>> columns(config.tables.size());
  for (const FeatureConfig& feature : config.features) {
    columns[feature.table_index].insert(feature.column);
  }
  std::vector<size_t> firsts;
  for (const auto& own : columns) {
    firsts.push_back(static_cast<size_t>(std::ranges::find(columns, own) - columns.begin()));
  }
  return firsts;
}

// Sets the estimated numbers of the tables. Returns the number of ids that no table can have.
StatusOr<double> SetIds(const PlannedIds& planned, const ClusterConfig& config,
                        std::vector<TableIds>& tables) {
  const std::vector<size_t> firsts = FirstOfColumns(config);
  std::vector<size_t> copies;
  std::vector<TableIds*> rest;
  std::map<std::string, uint64_t> given = planned.tables;
  double left = static_cast<double>(planned.all.value_or(0));
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto own = given.extract(config.tables[t].name);
    if (own.empty() && firsts[t] != t) {
      copies.push_back(t);
      continue;
    }
    if (own.empty() && !planned.all) {
      return OptionProblem(absl::StrCat("--ids: no number for table '", config.tables[t].name,
                                        "'; add one, or a total of all tables"));
    }
    if (own.empty()) {
      rest.push_back(&tables[t]);
    } else {
      tables[t].ids = static_cast<double>(own.mapped());
      if (tables[t].ids > tables[t].most) {
        return OptionProblem(
            absl::StrFormat("--ids: table '%s' can have at most %.0f ids, because "
                            "of `modulo` or the like of its features",
                            config.tables[t].name, tables[t].most));
      }
      if (firsts[t] == t) left -= tables[t].ids;
    }
  }
  if (!given.empty()) {
    return OptionProblem(
        absl::StrCat("--ids: '", given.begin()->first, "' is not a table of ", config.source.path));
  }
  if (planned.all && left < 0) {
    return OptionProblem("--ids: the total is less than the numbers of the tables");
  }
  const double none_has = planned.all ? Split(left, std::move(rest)) : 0;
  for (const size_t t : copies) tables[t].ids = std::min(tables[firsts[t]].ids, tables[t].most);
  return none_has;
}

// Takes the first samples of the training data through a step, and notes their ids.
Status MeasureData(ClusterConfig config, StepMeter& meter, std::vector<TableIds>& tables) {
  // Statistics of dense columns would need all data, and change no id.
  for (ColumnConfig& column : config.data.columns) column.fit = false;
  config.data.criteo.fit = false;
  SIMURGH_RETURN_IF_ERROR(FitStatistics(config.data, config.features));
  const uint32_t size = config.training.batch_size;
  const ReadOptions options{.keep_negatives = config.training.keep_negatives,
                            .seed = config.seed,
                            .shares = static_cast<uint32_t>(config.nn_worker.instances.size())};
  SIMURGH_ASSIGN_OR_RETURN(const auto reader, OpenBatchReader(config.data, config.features,
                                                              config.data.train, size, options));
  uint64_t steps = 0;
  for (; steps * size < kSampledRows; ++steps) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Batch> batch, reader->Next());
    if (!batch || (batch->size() < size && (config.training.drop_last || steps > 0))) break;
    if (steps > 0 && steps == config.training.row_age_steps) meter.Forget();
    SIMURGH_RETURN_IF_ERROR(meter.Step(*batch->sparse));
    for (size_t f = 0; f < config.features.size(); ++f) {
      TableIds& table = tables[config.features[f].table_index];
      for (const uint64_t id : batch->sparse->feature(f).ids) {
        const uint32_t times = ++table.seen[id];
        table.singles += times == 1 ? 1 : times == 2 ? -1 : 0;
      }
    }
  }
  if (steps > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.train: the share of an nn-worker is less than a batch of ", size,
                   " samples; lower training.batch_size, or set training.drop_last: false"));
}

// Takes a batch through a step whose ids all differ, as far as the tables have enough ids.
Status MeasureBound(const ClusterConfig& config, StepMeter& meter,
                    const std::vector<TableIds>& tables) {
  BatchBuilder builder(config.features.size(), /*dense_width=*/0);
  std::vector<uint64_t> next(tables.size());
  for (uint32_t sample = 0; sample < config.training.batch_size; ++sample) {
    for (size_t f = 0; f < config.features.size(); ++f) {
      const FeatureConfig& feature = config.features[f];
      const uint32_t table = feature.table_index;
      const uint64_t count = uint64_t{std::max(feature.processing.max_length, 1U)} *
                             std::max(feature.hash_stack.rounds, 1U);
      const auto ids = static_cast<uint64_t>(std::max(tables[table].ids, 1.0));
      for (uint64_t i = 0; i < count; ++i) {
        builder.AddId(f, Mix64(next[table]++ % ids + 1),
                      feature.weight_separator == '\0' ? 1.0F : 0.5F);
      }
    }
    builder.EndSample();
  }
  SIMURGH_ASSIGN_OR_RETURN(const Batch batch, builder.Build());
  return meter.Step(*batch.sparse);
}

// --- The plan.

struct Dense {
  uint64_t weights = 0;  // Number of weights, of 4 bytes each.
  uint64_t state = 0;
  uint64_t file_bytes = 0;
};

struct Plan {
  bool is_sampled = false;
  std::vector<std::string> notes;
  StepTraffic traffic;   // Traffic of one rank.
  CallBytes push_dense;  // Pushes of a rank's step to all servers; only in mode async.
  Dense dense;
  uint64_t empty_server = 0;
  uint64_t recommended_servers = 0;  // 0: none.
  uint64_t recommended_workers = 0;
};

StatusOr<Dense> DenseOf(const ClusterConfig& config) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<DenseTensor> tensors,
                           PredictionTensors(config.model, InputsOf(config)));
  const DenseOptimizerConfig& optimizer = config.training.dense_optimizer;
  Dense dense;
  std::vector<TensorSpec> specs = SpecsOf(tensors);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (tensors[i].in_state) continue;
    dense.weights += specs[i].rows() * specs[i].row_bytes() / sizeof(float);
  }
  dense.state = DenseOptimizer::StateSize(optimizer, dense.weights);
  specs.push_back({"optimizer", DType::kF32, {dense.state}});
  if (optimizer.average_decay > 0) specs.push_back({"average", DType::kF32, {dense.weights + 1}});
  if (IsInBatch(config.model) &&
      TasksOf(config.model).front().loss.correction == LossConfig::Correction::kLogQ) {
    specs.push_back({"item_frequency", DType::kF32, {ItemFrequency::kStateSize}});
  }
  dense.file_bytes = TensorFileWriter::BytesOf(specs, {});
  return dense;
}

// The parts of a server's memory and their bytes, in the order of the output.
using Memory = std::vector<std::pair<std::string, uint64_t>>;

uint64_t TotalOf(const Memory& memory) {
  uint64_t total = 0;
  for (const auto& [name, bytes] : memory) total += bytes;
  return total;
}

// Returns the memory of one table on one server.
TableMemory TableOn(const ClusterConfig& config, const TableConfig& share, double ids) {
  const BucketMap map = MapOf(config);
  const auto own = static_cast<uint64_t>(std::ceil(ids / map.slots()));
  TableMemory sum;
  for (uint32_t p = 0; p < map.partitions(); ++p) {
    sum += Table::MemoryOf(share, own, BucketMap::kBuckets / map.slots());
  }
  return sum;
}

Memory MemoryOf(const ClusterConfig& config, const Plan& plan, std::span<const TableIds> tables) {
  const uint64_t servers = config.embedding_ps.instances.size();
  const std::vector<TableConfig> shares = SharesOf(config);
  TableMemory rows;
  for (size_t t = 0; t < shares.size(); ++t) rows += TableOn(config, shares[t], tables[t].ids);
  Memory memory = {{"weights", rows.weights},          {"optimizer_state", rows.state},
                   {"row_headers", rows.headers},      {"index", rows.index},
                   {"eviction_queue", rows.queue},     {"admission", rows.admission},
                   {"pages_ahead", rows.ahead},        {"cold_index", rows.cold},
                   {"empty_server", plan.empty_server}};
  if (!config.embedding_ps.cold_directory.empty()) {
    memory.emplace_back("cold_reads",
                        uint64_t{config.embedding_ps.partitions} * ColdDisk::kMostAhead);
  }
  if (config.training.mode == TrainingConfig::Mode::kAsync) {
    memory.emplace_back("dense_weights",
                        (plan.dense.weights + plan.dense.state) * sizeof(float) / servers);
  }
  if (config.embedding_ps.memory_budget > 0) {
    memory.emplace_back("kept_free", KeptFree(config));
    return memory;
  }
  if (!config.checkpoint.directory.empty() && config.checkpoint.full_every > 1) {
    memory.emplace_back("changes", kBytesPerChangedRow * rows.rows);
  }
  // Messages of all ranks' batches between pull and acknowledged push.
  const double messages = (plan.traffic.pull_rows.both() + plan.traffic.push_rows.both()) /
                          static_cast<double>(plan.traffic.steps * servers);
  memory.emplace_back("messages", static_cast<uint64_t>(messages) *
                                      config.nn_worker.instances.size() *
                                      config.training.batches_in_flight());
  return memory;
}

// Returns the least number of servers that each need at most `limit` bytes. 0: there is none.
uint64_t ServersFor(ClusterConfig config, uint64_t limit, const Plan& plan,
                    std::span<const TableIds> tables) {
  config.embedding_ps.memory_budget = limit;
  const auto fit = [&](uint64_t servers) {
    config.embedding_ps.instances.resize(servers);
    return TotalOf(MemoryOf(config, plan, tables)) <= limit;
  };
  uint64_t low = 1;
  uint64_t high = std::min<uint64_t>(1024, BucketMap::kBuckets / config.embedding_ps.partitions);
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    fit(middle) ? high = middle : low = middle + 1;
  }
  return fit(low) ? low : 0;
}

// Returns the memory of a server without rows, measured in this process.
StatusOr<uint64_t> EmptyServer(ClusterConfig config) {
  config.embedding_ps.memory_budget = 0;
  config.embedding_ps.numa_nodes.clear();
  config.embedding_ps.arena_directory.clear();
  config.embedding_ps.cold_directory.clear();  // It is on the servers.
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  SIMURGH_ASSIGN_OR_RETURN(const auto server, ParameterServer::Create(config, metrics));
  return ResidentBytes();
}

// Returns the bytes of a push of dense weights to all servers.
CallBytes PushDenseOf(uint64_t weights, uint64_t servers) {
  CallBytes bytes;
  std::vector<float> range((weights + servers - 1) / servers);
  for (uint64_t s = 0; s < servers; ++s) {
    bytes.Add(api::Encode(PushDenseCall{.run = 1,
                                        .number = 1,
                                        .base_version = 1,
                                        .learning_rate = 1,
                                        .gradients = range,
                                        .parameters = range}),
              api::EncodeWeights<api::PushDense>({.version = 1, .gap = 1}, {range}));
  }
  return bytes;
}

uint64_t WorkersFor(const ClusterConfig& config, const StepTraffic& traffic) {
  const TrainingConfig& training = config.training;
  const double batches = static_cast<double>(config.nn_worker.instances.size()) *
                         (training.loader_queue_batches + training.batches_in_flight() + 1.0);
  const double by_bytes = traffic.buffered_bytes * batches /
                          static_cast<double>(config.embedding_worker.forward_buffer_bytes);
  const double by_number = batches / config.embedding_worker.forward_buffer_batches;
  return static_cast<uint64_t>(std::max(1.0, std::ceil(std::max(by_bytes, by_number))));
}

StatusOr<Plan> MakePlan(const PlannedIds& ids, uint64_t server_memory, const ClusterConfig& config,
                        const Status& data_problem, std::vector<TableIds>& tables) {
  Plan plan;
  SIMURGH_ASSIGN_OR_RETURN(plan.empty_server, EmptyServer(config));
  SIMURGH_ASSIGN_OR_RETURN(plan.dense, DenseOf(config));
  StepMeter meter(config);
  plan.is_sampled = data_problem.ok();
  if (plan.is_sampled) SIMURGH_RETURN_IF_ERROR(MeasureData(config, meter, tables));
  SIMURGH_ASSIGN_OR_RETURN(const double none_has, SetIds(ids, config, tables));
  if (none_has >= 1) {
    plan.notes.push_back(
        absl::StrFormat("%.0f of the ids are not counted: the sample has shown all ids of some "
                        "features, and the others cannot have more; give the ids by table",
                        none_has));
  }
  if (!plan.is_sampled) {
    const absl::string_view message = data_problem.message();
    plan.notes.push_back(
        absl::StrCat("without data, network bytes are an upper bound; a feature has max_length "
                     "ids, or one: ",
                     message.substr(0, message.find('\n'))));
    SIMURGH_RETURN_IF_ERROR(MeasureBound(config, meter, tables));
  }
  plan.traffic = meter.traffic();
  const std::vector<TableConfig> shares = SharesOf(config);
  for (size_t t = 0; t < shares.size(); ++t) {
    const uint64_t capacity = shares[t].capacity_rows * MapOf(config).slots();
    if (tables[t].ids <= static_cast<double>(capacity)) continue;
    plan.notes.push_back(
        absl::StrFormat("table '%s' has room for %d of %.0f ids; raise its "
                        "capacity to keep all",
                        shares[t].name, capacity, tables[t].ids));
  }
  if (config.training.mode == TrainingConfig::Mode::kAsync) {
    plan.push_dense = PushDenseOf(plan.dense.weights, config.embedding_ps.instances.size());
  }
  const uint64_t limit = server_memory > 0 ? server_memory : config.embedding_ps.memory_budget;
  if (limit > 0) {
    plan.recommended_servers = ServersFor(config, limit, plan, tables);
    if (plan.recommended_servers == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: no number of servers of ", limit,
                       " bytes has room for the ids; raise the memory, or lower --ids"));
    }
  }
  plan.recommended_workers = WorkersFor(config, plan.traffic);
  return plan;
}

uint64_t RowFileBytes(const ClusterConfig& config, const TableConfig& table,
                      const TableMemory& on_server) {
  uint64_t bytes = TensorFileWriter::BytesOf(Table::FileTensors(table, on_server.rows),
                                             Table::FileMetadata(table));
  const auto sketches = Table::AdmissionTensors(table, on_server.sketches);
  if (!sketches.empty()) {
    bytes += TensorFileWriter::BytesOf(sketches, {{"table", table.name}});
  }
  return bytes * config.embedding_ps.instances.size();
}

nlohmann::ordered_json ToJson(const ClusterConfig& config, const Plan& plan,
                              std::span<const TableIds> tables) {
  using Json = nlohmann::ordered_json;
  const auto whole = [](double value) { return static_cast<uint64_t>(std::llround(value)); };
  const uint64_t servers = config.embedding_ps.instances.size();
  const auto workers = static_cast<double>(config.embedding_worker.instances.size());
  const auto ranks = static_cast<double>(config.nn_worker.instances.size());

  Json of_tables = Json::array();
  uint64_t row_files = 0;
  uint64_t disk = 0;
  double all_ids = 0;
  const std::vector<TableConfig> shares = SharesOf(config);
  for (size_t t = 0; t < shares.size(); ++t) {
    const TableMemory memory = TableOn(config, shares[t], tables[t].ids);
    row_files += RowFileBytes(config, shares[t], memory);
    all_ids += tables[t].ids;
    disk += memory.disk;
    of_tables.push_back({{"table", shares[t].name},
                         {"ids", whole(tables[t].ids)},
                         {"rows_per_server", memory.rows},
                         {"cold_rows_per_server", memory.cold_rows},
                         {"bytes_per_server", memory.bytes()}});
  }

  Json memory = Json::object();
  const Memory of_server = MemoryOf(config, plan, tables);
  for (const auto& [name, bytes] : of_server) memory[name] = bytes;
  memory["total"] = TotalOf(of_server);
  memory["more_during_checkpoint"] =
      config.checkpoint.directory.empty() ? 0 : config.checkpoint.memory;

  Json network = Json::object();
  double at_ranks = 0;
  double at_workers = 0;
  double at_servers = 0;
  const StepTraffic& traffic = plan.traffic;
  const auto steps = static_cast<double>(traffic.steps);
  const auto add = [&](std::string_view method, const CallBytes& sum, double divisor,
                       std::initializer_list<double*> ends) {
    const double factor = ranks / divisor;
    network[std::string(method)] = {{"request", whole(sum.request * factor)},
                                    {"response", whole(sum.response * factor)}};
    for (double* end : ends) *end += sum.both() * factor;
  };
  add(api::kSubmitBatch.name, traffic.submit, steps, {&at_ranks, &at_workers});
  add(api::kPullBatch.name, traffic.pull, steps, {&at_ranks, &at_workers});
  add(api::kPushBatch.name, traffic.push, steps, {&at_ranks, &at_workers});
  if (traffic.read_rows_ahead.request > 0) {
    add(api::kReadRowsAhead.name, traffic.read_rows_ahead, steps, {&at_workers, &at_servers});
  }
  add(api::kPullRows.name, traffic.pull_rows, steps, {&at_workers, &at_servers});
  add(api::kPushRows.name, traffic.push_rows, steps, {&at_workers, &at_servers});
  if (plan.push_dense.request > 0) {
    add(api::kPushDense.name, plan.push_dense, 1, {&at_ranks, &at_servers});
  }
  network["total"] = whole((at_ranks + at_workers + at_servers) / 2);
  network["each_nn_worker"] = whole(at_ranks / ranks);
  network["each_embedding_worker"] = whole(at_workers / workers);
  network["each_embedding_ps"] = whole(at_servers / static_cast<double>(servers));

  Json recommended = {{"embedding_worker", plan.recommended_workers}};
  if (plan.recommended_servers > 0) recommended["embedding_ps"] = plan.recommended_servers;
  return {{"servers", servers},
          {"ids", whole(all_ids)},
          {"sampled_steps", plan.is_sampled ? traffic.steps : 0},
          {"samples_per_step", whole(ranks * config.training.batch_size)},
          {"rows_per_step", whole(traffic.rows / steps * ranks)},
          {"memory_of_each_embedding_ps", memory},
          {"cold_directory_of_each_embedding_ps", disk},
          {"tables", of_tables},
          {"network_per_step", network},
          {"checkpoint",
           {{"rows", row_files},
            {"dense", plan.dense.file_bytes},
            {"total", row_files + plan.dense.file_bytes}}},
          {"recommended", recommended},
          {"notes", plan.notes}};
}

// Returns the plan as a text for people.
std::string ToText(const nlohmann::ordered_json& plan) {
  std::string out;
  const auto line = [&out](std::string name, const nlohmann::ordered_json& bytes) {
    std::ranges::replace(name, '_', ' ');
    absl::StrAppendFormat(&out, "  %-26s %10s\n", name, BytesText(bytes.get<double>()));
  };
  absl::StrAppend(&out, "memory of each of ", plan["servers"].get<uint64_t>(), " embedding-ps\n");
  for (const auto& [name, bytes] : plan["memory_of_each_embedding_ps"].items()) {
    if (bytes != 0) line(name, bytes);
  }
  if (const auto& disk = plan["cold_directory_of_each_embedding_ps"]; disk != 0) {
    line("cold_directory", disk);
  }
  absl::StrAppendFormat(&out, "\n%-24s %14s %16s %16s\n", "table", "ids", "rows per server",
                        "bytes per server");
  for (const auto& table : plan["tables"]) {
    absl::StrAppendFormat(&out, "%-24s %14d %16d %16s\n", table["table"].get<std::string>(),
                          table["ids"].get<uint64_t>(), table["rows_per_server"].get<uint64_t>(),
                          BytesText(table["bytes_per_server"].get<double>()));
  }
  const auto steps = plan["sampled_steps"].get<uint64_t>();
  absl::StrAppend(&out, "\nnetwork per step of ", plan["samples_per_step"].get<uint64_t>(),
                  " samples and ", plan["rows_per_step"].get<uint64_t>(), " rows, ",
                  steps == 0 ? "at most" : absl::StrCat("the mean of ", steps, " steps"), "\n");
  for (const auto& [name, bytes] : plan["network_per_step"].items()) {
    if (!bytes.is_object()) {
      line(name, bytes);
      continue;
    }
    line(name + " request", bytes["request"]);
    line(name + " response", bytes["response"]);
  }
  out += "\na full checkpoint\n";
  for (const auto& [name, bytes] : plan["checkpoint"].items()) line(name, bytes);
  const auto& recommended = plan["recommended"];
  const auto workers = recommended["embedding_worker"].get<uint64_t>();
  out += "\nrecommended: ";
  if (recommended.contains("embedding_ps")) {
    absl::StrAppend(&out, recommended["embedding_ps"].get<uint64_t>(), " embedding-ps, ");
  }
  absl::StrAppend(&out, workers, " or more embedding-workers\n");
  for (const auto& note : plan["notes"]) {
    absl::StrAppend(&out, "note: ", note.get<std::string>(), "\n");
  }
  return out;
}

// Loads CONFIG. Without CONFIG, returns one table with room for all ids.
StatusOr<ClusterConfig> LoadPlanned(const PlanOptions& options, InputFiles files) {
  if (!options.config.path.empty()) return options.config.Load(files);
  if (files == InputFiles::kCheck) return absl::NotFoundError("there is no CONFIG");
  constexpr uint64_t kFewRows = 1'000;
  const std::string text = absl::StrCat(
      "data: {train: [none.csv], columns: [{name: id, kind: id}, {name: label, kind: label}]}\n"
      "tables: [{name: id, dim: 16, capacity_rows: ",
      std::max(kFewRows, options.ids.all.value_or(0)), "}]\nmodel: dcn_v2\n");
  return ParseClusterConfig(text, "no CONFIG", options.config.overrides, files);
}

StatusOr<ExitCode> Run(const PlanOptions& options) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "error"));
  StatusOr<ClusterConfig> config = LoadPlanned(options, InputFiles::kCheck);
  Status data_problem = config.status();
  if (config.ok() && config->data.streams()) {
    data_problem = absl::UnavailableError("topics of Kafka are not read");
  }
  if (!config.ok()) config = LoadPlanned(options, InputFiles::kIgnore);
  SIMURGH_RETURN_IF_ERROR(config.status());
  SIMURGH_ASSIGN_OR_RETURN(const nlohmann::ordered_json json,
                           PlanOf(*config, data_problem, options.ids, options.server_memory));
  std::cout << (options.json ? json.dump() + "\n" : ToText(json));
  return ExitCode::kOk;
}

}  // namespace

StatusOr<nlohmann::ordered_json> PlanOf(const ClusterConfig& config, const Status& data_problem,
                                        const PlannedIds& ids, uint64_t server_memory) {
  std::vector<TableIds> tables = TablesOf(config);
  SIMURGH_ASSIGN_OR_RETURN(const Plan plan,
                           MakePlan(ids, server_memory, config, data_problem, tables));
  return ToJson(config, plan, tables);
}

ExitCode RunPlanCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  PlanOptions parsed;
  std::vector<std::string> ids;
  std::string memory;
  po::options_description options("Options");
  options.add_options()("ids", po::value(&ids)->value_name("N|TABLE=N")->composing(),
                        "set the number of distinct ids, of all tables or of one; k, M and G: "
                        "thousands, millions, billions; may repeat")(
      "memory-per-server", po::value(&memory)->value_name("SIZE"),
      "limit the memory of an embedding-ps; default: embedding_ps.memory_budget")(
      "set", po::value(&parsed.config.overrides)->value_name("KEY=VALUE")->composing(),
      "override a key of CONFIG; may be repeated")("json", po::bool_switch(&parsed.json),
                                                   "print one JSON object on a line, in bytes");
  const auto run = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (!words.empty()) parsed.config.path = words[0];
    if (ids.empty()) {
      return OptionProblem("plan: --ids is missing; give the number of distinct ids of the data");
    }
    for (const std::string& one : ids) SIMURGH_RETURN_IF_ERROR(parsed.ids.Add(one));
    if (!memory.empty()) {
      SIMURGH_ASSIGN_OR_RETURN(parsed.server_memory, ParseSize(memory));
    }
    return Run(parsed);
  };
  return RunCommand(argc, argv,
                    {"plan: estimates what a configuration needs", kPlanUsage, kPlanNotes}, options,
                    /*most_words=*/1, run);
}

}  // namespace simurgh
