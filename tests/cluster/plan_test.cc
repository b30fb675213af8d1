// simurgh plan against what real daemons take, send and write.

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "services/simurgh/scrape.h"
#include "tests/support/daemon_process.h"
#include "tests/support/http_get.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

constexpr std::chrono::seconds kDeadline{120};

struct Outcome {
  int code = -1;
  std::string out;
  std::string errors;
};

Outcome RunPlan(std::vector<std::string> words) {
  const TemporaryFolder folder;
  words.insert(words.begin(), "plan");
  DaemonProcess process("simurgh", words, folder.Path("log"));
  Outcome outcome{.code = process.Wait(kDeadline).value_or(-1)};
  outcome.out = process.output();
  outcome.errors = process.log();
  return outcome;
}

MetricsText Scrape(const DaemonProcess& daemon) {
  const std::string answer = HttpGet(daemon.metrics_address(), "/metrics");
  const size_t body = answer.find("\r\n\r\n");
  REQUIRE(body != answer.npos);
  return MetricsText::Parse(std::string_view(answer).substr(body + 4)).value();
}

std::vector<std::string> AsWords(const std::string& config,
                                 const std::vector<std::string>& overrides) {
  std::vector<std::string> words{config};
  for (const std::string& override : overrides) words.insert(words.end(), {"--set", override});
  return words;
}

Json PlanOf(const TestClusterOptions& options, const TestCluster& cluster, double ids) {
  std::vector<std::string> words = AsWords(options.config, cluster.Overrides());
  words.insert(words.end(), {"--json", "--ids", absl::StrCat(static_cast<int64_t>(ids))});
  const Outcome outcome = RunPlan(words);
  CAPTURE(outcome.errors);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

// Trains to the end. Without test data, only training makes calls, and the probe of a save.
void Train(TestCluster& cluster) {
  const auto trainer = cluster.StartTrainer();
  const int code = Finish(*trainer).exit_code;
  CAPTURE(trainer->log());
  REQUIRE(code == 0);
}

// Compares the bytes of a step, in which a method has `calls` calls at this end.
void CompareBytes(const Json& plan, const MetricsText& metrics, const std::string& method,
                  const std::string& side, double calls = 1) {
  const auto sum = [&](const std::string& name) {
    double total = *metrics.Sum(name, {{"method", method}, {"side", side}});
    // Pulls of rows have two names.
    if (method == "pull_rows") {
      total += metrics.Sum(name, {{"method", "await_rows"}, {"side", side}}).value_or(0);
    }
    return total;
  };
  for (const std::string kind : {"request", "response"}) {
    CAPTURE(method, kind);
    const double mean =
        sum("simurgh_rpc_" + kind + "_bytes_total") / sum("simurgh_rpc_calls_total");
    // Two numbers of a request are not sent if they are 0. Which steps are acknowledged at a pull
    // depends on times.
    CHECK(plan["network_per_step"][method][kind].get<double>() ==
          Approx(calls * mean).epsilon(0.05).margin(16 * calls));
  }
}

void CompareBytes(const Json& plan, TestCluster& cluster, size_t servers) {
  const MetricsText worker = Scrape(cluster.worker(0));
  for (const char* method : {"submit_batch", "pull_batch", "push_batch"}) {
    CompareBytes(plan, worker, method, "server");
  }
  for (const char* method : {"pull_rows", "push_rows"}) {
    CompareBytes(plan, worker, method, "client", static_cast<double>(servers));
  }
}

// Trains on a cluster of real daemons, and compares each estimate with what they report.
void CompareWithTraining(TestClusterOptions options, const std::string& folder) {
  const bool saves = GENERATE(false, true);
  CAPTURE(saves);
  if (saves) options.overrides.push_back("checkpoint.directory=" + folder + "/model");
  options.overrides.push_back("data.test=[]");
  TestCluster cluster(options);
  Train(cluster);
  std::vector<MetricsText> servers;
  double rows = 0;
  for (size_t s = 0; s < options.servers; ++s) {
    rows += *servers.emplace_back(Scrape(cluster.server(s))).Sum("simurgh_ps_table_rows");
  }
  const Json plan = PlanOf(options, cluster, rows);
  INFO(plan.dump(1));

  for (const MetricsText& server : servers) {
    double bytes = 0;
    for (const Json& table : plan["tables"]) {
      const MetricsText::Labels labels{{"table", table["table"]}};
      CAPTURE(table);
      const double of_table = table["bytes_per_server"].get<double>();
      CHECK(of_table == Approx(*server.Sum("simurgh_ps_table_bytes", labels)).epsilon(0.2));
      bytes += of_table;
    }
    CHECK(bytes == Approx(*server.Sum("simurgh_ps_table_bytes")).epsilon(0.1));
    // A save takes more, up to checkpoint.memory. The plan measures an empty server in simurgh,
    // which maps more libraries than embedding-ps.
    const auto total = plan["memory_of_each_embedding_ps"]["total"].get<double>();
    const double resident = *server.Sum("simurgh_process_resident_bytes");
    if (!saves) CHECK(total == Approx(resident).epsilon(0.1).margin(5e6));
  }
  CompareBytes(plan, cluster, options.servers);
  if (!saves) return;
  double files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/model")) {
    if (entry.is_regular_file()) files += static_cast<double>(entry.file_size());
  }
  CHECK(plan["checkpoint"]["total"].get<double>() == Approx(files).epsilon(0.1));
}

TEST_CASE("A plan is what a training takes: pooled f32 rows with Adam") {
  const TemporaryFolder folder;
  DaemonProcess datagen("datagen",
                        {"--output", folder.Path("train.tsv"), "--samples", "250000",
                         "--distinct-ids", "300000", "--report-samples", "1"},
                        folder.Path("datagen.log"));
  REQUIRE(datagen.Wait(kDeadline) == 0);
  CompareWithTraining({.config = "config/criteo-synthetic.yaml",
                       .overrides = {"data.train=[" + folder.Path("train.tsv") + "]",
                                     "tables.0.optimizer={kind: adam}",
                                     "model.towers=[{name: top, input: [dense, embeddings], "
                                     "layers: [{linear: 8}, relu, {linear: 1}]}]"}},
                      folder.path());
}

// Rows of a label, 0 to 6 tags, and a site, of which most occur a few times.
void WriteClicks(const std::string& path, int rows) {
  std::mt19937_64 random(1);
  std::ofstream file(path);
  for (int i = 0; i < rows; ++i) {
    file << random() % 2 << ",";
    for (uint64_t tag = random() % 7; tag > 0; --tag) {
      file << "t" << random() % 100'000 << (tag > 1 ? "/" : "");
    }
    file << ",s" << random() % 20'000 << "\n";
  }
}

constexpr char kClicks[] = R"(
cluster: {name: clicks}
embedding_ps: {partitions: 3, instances: [{address: "127.0.0.1:1"}]}
embedding_worker:
  instances: [{address: "127.0.0.1:2"}]
  row_precision: bf16
  row_gradient_precision: f16
nn_worker: {instances: [{}]}
tables:
  - {name: tags, dim: 12, precision: bf16, optimizer: {kind: sgd}}
  - {name: site, dim: 5, optimizer: {kind: adagrad}, admission: {kind: occurrences, occurrences: 2}}
features:
  - {name: sequence, column: tags, table: tags, pooling: raw, max_length: 4}
  - {name: tags, pooling: max}
  - {name: site}
data:
  train: [clicks.csv]
  columns: [{name: clicked, kind: label}, {name: tags, kind: id, separator: "/"}, {name: site, kind: id}]
model:
  towers: [{name: top, input: embeddings, layers: [{linear: 4}, relu, {linear: 1}]}]
training: {batch_size: 512, epochs: 3, embedding_precision: int8, gradient_precision: f16}
)";

TEST_CASE("A plan is what a training takes: sequences, 16 bits and admission") {
  const TemporaryFolder folder;
  WriteClicks(folder.Path("clicks.csv"), 60'000);
  std::ofstream(folder.Path("clicks.yaml")) << kClicks;
  CompareWithTraining({.config = folder.Path("clicks.yaml"), .servers = 1}, folder.path());
}

TEST_CASE("A plan counts what a row cache saves") {
  const TestClusterOptions options{.overrides = {"data.test=[]", "training.staleness=4",
                                                 "training.row_age_steps=3",
                                                 "embedding_worker.row_cache_bytes=1000000"}};
  TestCluster cluster(options);
  Train(cluster);
  const Json plan = PlanOf(options, cluster, 100);
  CompareBytes(plan, cluster, options.servers);
  TestClusterOptions without = options;
  without.overrides = {"data.test=[]"};
  CHECK(PlanOf(without, TestCluster(without), 100)["rows_per_step"].get<double>() >
        1.2 * plan["rows_per_step"].get<double>());
}

TEST_CASE("A plan counts dense weights on servers") {
  const TestClusterOptions options{.overrides = {"data.test=[]", "training.mode=async"}};
  TestCluster cluster(options);
  Train(cluster);
  const Json plan = PlanOf(options, cluster, 100);
  CompareBytes(plan, cluster, options.servers);
  CompareBytes(plan, Scrape(cluster.server(0)), "push_dense", "server",
               static_cast<double>(options.servers));
  // The towers of adult-persia.yaml, in f32: 5 x 16, 64 x 128, 144 x 256, 256 x 128 and 128 x 1,
  // with biases, and scales and shifts of batch norm.
  const uint64_t weights =
      5 * 16 + 3 * 16 + 64 * 128 + 3 * 128 + 144 * 256 + 256 + 256 * 128 + 128 + 128 + 1;
  CHECK(plan["memory_of_each_embedding_ps"]["dense_weights"] == weights * 4 / 2);
}

TEST_CASE("A plan recommends as many servers as the memory needs") {
  const std::vector<std::string> words{"config/criteo-synthetic.yaml", "--set",
                                       "data.train=[/nowhere.tsv]", "--json"};
  const auto plan = [&](const std::string& ids, const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--ids", ids, "--set", "tables.0.capacity_rows=1000000000"});
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = RunPlan(all);
    CAPTURE(outcome.errors);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  };
  const Json one = plan("1000000000", {"--memory-per-server", "64G"});
  CHECK(one["sampled_steps"] == 0);
  CHECK_THAT(one["notes"][0].get<std::string>(), Contains("/nowhere.tsv"));
  const int servers = one["recommended"]["embedding_ps"];
  // 16 weights and 16 sums of squares, a header and the index: at least 152 bytes, at most 180.
  CHECK(servers >= 3);
  CHECK(servers <= 4);
  CHECK(plan("1000000000", {"--set", "embedding_ps.memory_budget=68719476736"})["recommended"] ==
        one["recommended"]);
  // An upper bound: every id of the 26 features differs.
  CHECK(one["rows_per_step"] == 26 * 2048);
  CHECK(plan("26", {})["rows_per_step"] == 26);
  CHECK(!plan("26", {})["recommended"].contains("embedding_ps"));
  // 19 batches are in flight or read ahead, and a worker has room for 4.
  CHECK(plan("26",
             {"--set",
              "embedding_worker.forward_buffer_batches=4"})["recommended"]["embedding_worker"] ==
        5);
}

TEST_CASE("Tables of the same columns have the same ids") {
  const Outcome outcome =
      RunPlan({"config/adult-persia.yaml", "--set", "model=deepfm", "--ids", "9M", "--json"});
  REQUIRE(outcome.code == 0);
  std::map<std::string, double> ids;
  const Json plan = Json::parse(outcome.out);
  for (const Json& table : plan["tables"]) ids[table["table"]] = table["ids"];
  REQUIRE(ids.size() == 16);
  double all = 0;
  for (const auto& [table, count] : ids) {
    if (table.ends_with("_weight")) continue;
    CHECK(ids.at(table + "_weight") == count);
    all += count;
  }
  CHECK(all == Approx(9'000'000).margin(16));
}

TEST_CASE("A plan says what is wrong with its arguments") {
  const std::string config = "config/adult-persia.yaml";
  const auto fails = [](const std::vector<std::string>& words, const std::string& what) {
    const Outcome outcome = RunPlan(words);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.errors, Contains(what));
  };
  fails({}, "--ids is missing");
  fails({config}, "--ids is missing");
  fails({config, "--ids", "0"}, "'0' is not a number of ids");
  fails({config, "--ids", "many"}, "'many' is not a number of ids");
  fails({config, "--ids", "M"}, "'M' is not a number of ids");
  fails({config, "--ids", "-1k"}, "'-1k' is not a number of ids");
  fails({config, "--ids", "1000000G"}, "'1000000G' is not a number of ids");
  fails({config, "--ids", "5", "--ids", "6"}, "the total is given twice");
  fails({config, "--ids", "race=5"}, "no number for table 'workclass'");
  fails({config, "--ids", "9", "--ids", "country=5"}, "'country' is not a table");
  fails({config, "--ids", "4", "--ids", "race=5"}, "the total is less than");
  fails({config, "--ids", "5", "--memory-per-server", "2X"}, "'2X' is not a size");
  fails({config, "--ids", "5", "--memory-per-server", "1M"}, "raise the memory");
  fails({config, "--ids", "900", "--ids", "race=50", "--set", "features.5.modulo=4"},
        "table 'race' can have at most 4 ids");
  fails({"nowhere.yaml", "--ids", "5"}, "nowhere.yaml");
  const Outcome text = RunPlan({config, "--ids", "100", "--ids", "race=5"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("memory of each of 2 embedding-ps") &&
                           Contains("push rows request") && Contains("a full checkpoint"));
}

}  // namespace
}  // namespace simurgh::testing
