#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

StatusOr<ClusterConfig> With(const std::vector<std::string>& overrides) {
  return ParseClusterConfig(kSample, kSamplePath, overrides);
}

std::string ErrorOf(const std::vector<std::string>& overrides) {
  const StatusOr<ClusterConfig> config = With(overrides);
  REQUIRE_FALSE(config.ok());
  const std::string message(config.status().message());
  return message.substr(message.find(": ") + 2);
}

}  // namespace

TEST_CASE("Early stopping requires validation data", "[config]") {
  const std::string patience = "training.early_stopping.patience=2";
  const std::string files = "data.validation=[CMakeLists.txt]";
  CHECK(With({patience, files, "training.evaluate_every_epochs=1"}).ok());
  CHECK(With({patience, files, "training.evaluate_every_steps=1"}).ok());
  CHECK(ErrorOf({patience, "training.evaluate_every_epochs=1"}) ==
        "training.early_stopping: requires data.validation; list files there; the test "
        "files must not influence training");
  CHECK(ErrorOf({patience, files, "training.evaluate_every_epochs=0"}) ==
        "training.early_stopping: requires evaluations during training; set "
        "training.evaluate_every_steps or evaluate_every_epochs");
  CHECK(ErrorOf({"training.early_stopping.metric=log_loss"}) ==
        "training.early_stopping.metric: has no effect; remove it, or set patience above 0");
}

TEST_CASE("The best checkpoints are kept where evaluations are compared", "[config]") {
  const std::string directory = "checkpoint.directory=/model";
  const std::string files = "data.validation=[CMakeLists.txt]";
  const std::string steps = "training.evaluate_every_steps=9";
  const std::string patience = "training.early_stopping.patience=2";
  const std::string by_loss = "training.early_stopping.metric=log_loss";
  const auto kept = [](const std::vector<std::string>& overrides) {
    return With(overrides).value().checkpoint.keep_best;
  };
  CHECK(kept({directory, files, steps}) == 1);
  CHECK(kept({directory, files, "training.evaluate_every_epochs=1", "checkpoint.keep_best=3"}) ==
        3);
  CHECK(kept({"checkpoint={keep_best: 2}", files, steps}) == 0);
  CHECK(kept({directory, steps}) == 0);
  CHECK(kept({directory, files}) == 1);
  CHECK(kept({directory, files, "training.evaluate_every_epochs=0"}) == 0);
  CHECK(kept({directory, files, steps, "training.mode=async"}) == 0);
  const auto metric = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides{directory, files, steps};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return With(overrides).value().checkpoint.best_by;
  };
  CHECK(metric({}) == EvaluationMetric::kAuc);
  CHECK(metric({"checkpoint.best_by=log_loss"}) == EvaluationMetric::kLogLoss);
  CHECK(metric({patience, by_loss}) == EvaluationMetric::kLogLoss);
  CHECK(metric({patience, by_loss, "checkpoint.best_by=log_loss"}) == EvaluationMetric::kLogLoss);
  CHECK(ErrorOf({directory, files, steps, patience, by_loss, "checkpoint.best_by=auc"}) ==
        "checkpoint.best_by: differs from training.early_stopping.metric; remove it, or choose the "
        "same metric");
}

TEST_CASE("Modes refuse what they do not keep", "[config]") {
  CHECK(With({"training.mode=sync", "training.staleness=1", "training.reproducible=true"}).ok());
  CHECK(With({"training.mode=naive_hybrid", "training.staleness=4"}).ok());
  CHECK(ErrorOf({"training.mode=naive_hybrid", "training.reproducible=true"}) ==
        "training.reproducible: is not supported by mode: naive_hybrid; choose mode: hybrid, or "
        "set it to "
        "false");
  CHECK(ErrorOf({"training.mode=asink"}) ==
        "training.mode: 'asink' is unknown; expected: one of sync, hybrid, naive_hybrid, "
        "async");
}

TEST_CASE("Training that repeats, or has dense weights on servers, does not lose a server in part",
          "[config]") {
  const std::string directory = "checkpoint.directory=/model";
  const std::string partial = "checkpoint.on_server_loss=partial";
  CHECK(With({directory, partial, "training.staleness=4"}).ok());
  CHECK_THAT(
      ErrorOf({"checkpoint={on_server_loss: partial}"}),
      Catch::Contains("checkpoint.on_server_loss: has no effect; remove it, or set directory"));
  for (const std::string with :
       {"training.reproducible=true", "training.mode=sync", "training.mode=async"}) {
    CHECK_THAT(ErrorOf({directory, partial, with}),
               Catch::Contains("checkpoint.on_server_loss: partial is not supported with " +
                               with.substr(0, with.find('='))));
  }
}

TEST_CASE("Mode async refuses what needs all weights or all ranks at once", "[config]") {
  const std::string async = "training.mode=async";
  CHECK(With({async, "training.staleness=4", "training.evaluate_every_steps=10"}).ok());
  for (const std::string optimizer : {"kind: lamb", "max_gradient_norm: 1", "average_decay: 0.9"}) {
    CHECK_THAT(
        ErrorOf({async, "training.dense_optimizer={" + optimizer + "}"}),
        Catch::Contains("training.dense_optimizer." + optimizer.substr(0, optimizer.find(':'))) &&
            Catch::Contains("is not supported by mode: async: servers update separate "
                            "ranges of the dense weights"));
  }
  const std::string ranks = "nn_worker.instances=[{address: 'a:1'}, {address: 'a:2'}]";
  CHECK(ErrorOf({async, "training.row_age_steps=1", "embedding_worker.row_cache_bytes=1000"})
            .starts_with("training.row_age_steps: is not supported by mode: async: only the "
                         "forward buffer bounds the age of its rows; remove it and "
                         "embedding_worker.row_cache_bytes"));
  for (const std::string setting :
       {"reproducible=true", "sync_batch_norm=true", "allreduce.precision=bf16",
        "evaluate_every_steps=10", "evaluate_every_epochs=1"}) {
    CAPTURE(setting);
    const std::string key = "training." + setting.substr(0, setting.find('='));
    CHECK_THAT(ErrorOf({async, ranks, "training." + setting}),
               Catch::Contains(key + ": is not supported by mode: async: "));
  }
}

TEST_CASE("Batch norm needs two samples in a batch", "[config]") {
  const std::string one = "training.batch_size=1";
  const std::string norm =
      "model.towers=[{name: top, input: [dense, embeddings], layers: [batch_norm, {linear: 1}]}]";
  const std::string plain =
      "model.towers=[{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]";
  const std::string ranks = "nn_worker.instances=[{address: 'a:1'}, {address: 'a:2'}]";
  const std::string sync = "training.sync_batch_norm=true";
  const std::string error =
      "training.batch_size: 1 is too small for batch_norm in tower 'top', which learns nothing "
      "from one sample; use 2 or more, remove batch_norm, or set training.sync_batch_norm with "
      "several nn-workers";
  CHECK(ErrorOf({norm, one}) == error);
  CHECK(ErrorOf({norm, one, sync}) == error);
  CHECK(ErrorOf({norm, one, ranks}) == error);
  CHECK(With({norm, one, ranks, sync}).ok());
  CHECK(With({norm, "training.batch_size=2"}).ok());
  CHECK(With({plain, one}).ok());
}

TEST_CASE("One key switches to sync, regardless of staleness", "[config]") {
  const auto config =
      With({"training.mode=sync", "training.staleness=4",
            "embedding_worker.row_cache_bytes=1000000", "training.row_age_steps=3"});
  REQUIRE(config.ok());
  CHECK(config->training.staleness == 1);
  CHECK(config->training.row_age_steps == 0);
  CHECK(config->embedding_worker.row_cache_bytes == 0);
}

TEST_CASE("Rows may only be used again where that fits the staleness", "[config]") {
  const std::string bytes = "embedding_worker.row_cache_bytes=1000000";
  const std::string age = "training.row_age_steps=3";
  const auto config = With({bytes, age});
  REQUIRE(config.ok());
  CHECK(config->embedding_worker.row_cache_bytes == 1'000'000);
  CHECK(config->training.row_age_steps == 3);
  CHECK(ErrorOf({age}) ==
        "training.row_age_steps: has no effect alone; set embedding_worker.row_cache_bytes and "
        "training.row_age_steps, or neither");
  CHECK(
      ErrorOf({bytes}) ==
      "embedding_worker.row_cache_bytes: has no effect alone; set embedding_worker.row_cache_bytes "
      "and training.row_age_steps, or neither");
  const std::string ruled_out =
      "training.row_age_steps: cached rows make pulls depend on timing, which reproducible: true "
      "forbids; remove it and embedding_worker.row_cache_bytes";
  CHECK(ErrorOf({bytes, age, "training.reproducible=true"}) == ruled_out);
  CHECK(ErrorOf({bytes, "training.row_age_steps=4"}) ==
        "training.row_age_steps: 4 is out of range; use a value below training.staleness, "
        "4");
  CHECK(ErrorOf({bytes, age, "tables.0.eviction.idle_steps=3"}) ==
        "tables.0.eviction.idle_steps: 3 is out of range with a row cache; use a value above "
        "training.row_age_steps, 3");
  CHECK(With({bytes, age, "tables.0.eviction.idle_steps=4"}).ok());
  for (const std::string rule : {"low_use", "small_norm"}) {
    const std::string key = "tables.0.eviction." + rule;
    CHECK(ErrorOf({bytes, age, key + ".below=1", key + ".idle_steps=3"}) ==
          key +
              ".idle_steps: 3 is out of range with a row cache; use a value above "
              "training.row_age_steps, 3");
    CHECK(With({bytes, age, key + ".below=1", key + ".idle_steps=4"}).ok());
  }
}

TEST_CASE("A trainer pools rows in every way but by max", "[config]") {
  const std::string rows = "training.embeddings=rows";
  REQUIRE(With({rows}).ok());
  CHECK(With({rows})->training.embeddings == TrainingConfig::Embeddings::kRows);
  CHECK(ErrorOf({rows, "features.1.pooling=max"}) ==
        "features.1.pooling: is max, which training.embeddings: rows does not support; choose "
        "another pooling, or "
        "training.embeddings: pooled");
}

TEST_CASE("Room for a batch of rows is for rows", "[config]") {
  const std::string room = "nn_worker.batch_row_bytes=1000000";
  CHECK(With({room, "training.embeddings=rows"})->nn_worker.batch_row_bytes == 1'000'000);
  CHECK(ErrorOf({room}) ==
        "nn_worker.batch_row_bytes: requires training.embeddings: rows; remove it, or set "
        "that");
}

TEST_CASE("Every label column is a task", "[config]") {
  const std::string second = "data.columns.4={name: liked, kind: label}";
  const std::string logits = "model.towers.1.layers.3={linear: 2}";
  REQUIRE(With({}).ok());
  CHECK(With({})->model.tasks.size() == 1);

  const auto config = With({second, logits, "model.loss={positive_weight: 2}",
                            "model.tasks=[{label: sold, weight: 0.5, loss: {kind: focal}}]"});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  const std::vector<TaskConfig>& tasks = config->model.tasks;
  REQUIRE(tasks.size() == 2);  // In the order of the columns.
  CHECK(tasks[0].label == "liked");
  CHECK(tasks[0].weight == 1.0F);
  CHECK(tasks[0].loss.kind == LossConfig::Kind::kBce);
  CHECK(tasks[0].loss.positive_weight == 2.0F);
  CHECK(tasks[1].label == "sold");
  CHECK(tasks[1].weight == 0.5F);
  CHECK(tasks[1].loss.kind == LossConfig::Kind::kFocal);
  CHECK(tasks[1].loss.positive_weight == 2.0F);

  CHECK(With({second, "model.towers.1.layers.3={sum: 2}"}).ok());  // Reads 32 columns.
  CHECK(ErrorOf({second}) ==
        "model.towers.1.layers.3: the last tower must output 2 numbers, one per label; end its "
        "layers "
        "with {linear: 2}, or {sum: 2} of as many towers; the loss applies sigmoid or exp");
  CHECK_THAT(ErrorOf({second, "model.towers.1.layers.3={sum: 4}"}),
             Catch::Contains("model.towers.1.layers.3: the last tower must output 2 numbers"));
  CHECK_THAT(ErrorOf({second, logits, "model.tasks=[{label: solt}]"}),
             Catch::Contains("model.tasks.0.label: no label column is named 'solt'; the nearest "
                             "label column is 'sold'"));
  CHECK_THAT(ErrorOf({second, logits, "model.tasks=[{label: sold}, {label: sold}]"}),
             Catch::Contains("model.tasks.1.label: 'sold' repeats model.tasks.0.label"));
  CHECK_THAT(ErrorOf({second, logits, "model.tasks=[{label: sold, weight: -1}]"}),
             Catch::Contains("model.tasks.0.weight: -1 is out of range"));
  CHECK_THAT(ErrorOf({second, logits, "training.keep_negatives=0.5"}),
             Catch::Contains("training.keep_negatives: requires a single label"));
}

TEST_CASE("Labels of regressions are numbers", "[config]") {
  using Values = ColumnConfig::LabelValues;
  const std::string number = "data.columns.5={name: sold, kind: label}";
  const auto values = [&](const std::string& loss) {
    return With({number, loss}).value().data.columns[5].label_values;
  };
  CHECK(values("model.loss={kind: focal}") == Values::kBinary);
  CHECK(values("model.loss={kind: squared_error}") == Values::kNumbers);
  CHECK(values("model.loss={kind: poisson}") == Values::kCounts);
  CHECK(values("model.tasks=[{label: sold, loss: {kind: poisson}}]") == Values::kCounts);
  CHECK(ErrorOf({"model.loss={kind: squared_error}"}) ==
        "data.columns.5.positive: label 'sold' is a number, as its loss is squared_error; "
        "remove it, or set model.loss.kind to bce or focal");
  CHECK_THAT(ErrorOf({"model.tasks=[{label: sold, loss: {kind: poisson}}]"}),
             Catch::EndsWith("or set model.tasks.0.loss.kind to bce or focal"));
  CHECK_THAT(ErrorOf({number, "model.loss={kind: poisson, positive_weight: 2}"}),
             Catch::EndsWith("model.loss.positive_weight: has no effect with kind: poisson; remove "
                             "it, or set kind: bce or focal"));
  CHECK(ErrorOf({number, "model.loss={kind: poisson}", "training.keep_negatives=0.5"}) ==
        "training.keep_negatives: requires a binary label; the loss is poisson; set it to 1");
}

TEST_CASE("A metric is one of the first label's kind", "[config]") {
  const std::string number = "data.columns.5={name: sold, kind: label}";
  const std::string loss = "model.loss={kind: squared_error}";
  const auto metric = [&](const std::vector<std::string>& overrides) {
    return With(overrides).value().checkpoint.best_by;
  };
  CHECK(metric({number, loss}) == EvaluationMetric::kLoss);
  CHECK(metric({number, loss, "checkpoint.best_by=rmse"}) == EvaluationMetric::kRmse);
  CHECK(metric({"checkpoint.best_by=loss"}) == EvaluationMetric::kLoss);
  CHECK(metric({"checkpoint.best_by=group_auc", "training.auc_group_feature=seen"}) ==
        EvaluationMetric::kGroupAuc);
  CHECK(ErrorOf({number, loss, "checkpoint.best_by=auc"}) ==
        "checkpoint.best_by: auc is no metric of label 'sold', whose loss is squared_error; choose "
        "rmse or loss");
  CHECK(ErrorOf({"checkpoint.best_by=rmse"}) ==
        "checkpoint.best_by: rmse is no metric of label 'sold', whose loss is bce; choose auc, "
        "log_loss, group_auc or loss");
  CHECK(ErrorOf({"checkpoint.best_by=group_auc"}) ==
        "checkpoint.best_by: group_auc requires groups; give a column kind: group, or set "
        "training.auc_group_feature");
  const std::string group = "data.columns.4={name: note, kind: group}";
  CHECK(metric({"checkpoint.best_by=group_auc", group}) == EvaluationMetric::kGroupAuc);
  CHECK(ErrorOf({group, "training.auc_group_feature=seen"}) ==
        "training.auc_group_feature: a column of kind: group groups samples, too; remove one of "
        "them");
}

TEST_CASE("One column may have the weights of samples", "[config]") {
  const std::string first = "data.columns.4={name: note, kind: weight}";
  CHECK(With({first})->data.columns[4].kind == ColumnConfig::Kind::kWeight);
  CHECK_THAT(
      ErrorOf({first, "data.columns.0={name: age, kind: weight}"}),
      Catch::EndsWith("data.columns.4.kind: a second column of this kind; keep one, and give "
                      "the other kind: skip"));
}

TEST_CASE("Models that support one label refuse more", "[config]") {
  const auto with_two = [](const std::string& file) {
    return LoadClusterConfig(file,
                             {"data.columns.2={name: fnlwgt, kind: label, positive: [\"1\"]}"});
  };
  for (const char* file : {"config/adult-dlrm.yaml", "config/adult-dcn-v2.yaml"}) {
    const auto config = with_two(file);
    INFO(file << ": " << config.status().ToString());
    REQUIRE(config.ok());
    CHECK(config->model.towers.back().layers.back().width == 2);
  }
  for (const char* file : {"config/adult-deepfm.yaml", "config/adult-wide-deep.yaml"}) {
    CHECK_THAT(std::string(with_two(file).status().message()),
               Catch::Contains("supports one label only"));
  }
}

TEST_CASE("Groups of an evaluation are a feature's ids", "[config]") {
  CHECK(With({"training.auc_group_feature=seen"})->training.auc_group_feature == "seen");
  CHECK(ErrorOf({"training.auc_group_feature=sean"}) ==
        "training.auc_group_feature: no feature is named 'sean'; the nearest feature is 'seen'");
}

TEST_CASE("Keys of one dense optimizer are refused with another", "[config]") {
  CHECK_THAT(ErrorOf({"training.dense_optimizer={kind: adagrad, momentum: 0.9}"}),
             Catch::EndsWith("training.dense_optimizer.momentum: has no effect with kind: adagrad; "
                             "remove it, or set kind: sgd"));
  CHECK_THAT(
      ErrorOf({"training.dense_optimizer={kind: sgd, epsilon: 0.1}"}),
      Catch::EndsWith(
          "training.dense_optimizer.epsilon: has no effect with kind: sgd; remove it, or set "
          "kind: adam, adagrad or lamb"));
  CHECK_THAT(
      ErrorOf({"training.dense_optimizer={kind: sgd, nesterov: true}"}),
      Catch::EndsWith(
          "training.dense_optimizer.nesterov: has no effect; remove it, or set momentum above 0"));
  const auto config =
      With({"training.dense_optimizer={kind: lamb, schedule: {kind: linear, end_factor: 0.5}}"});
  REQUIRE(config.ok());
  CHECK(config->training.dense_optimizer.schedule.kind == LearningRateSchedule::Kind::kLinear);
  CHECK(config->training.dense_optimizer.schedule.end_factor == 0.5F);
}

TEST_CASE("Topics of Kafka take the place of training files", "[config]") {
  const std::string stream =
      "data={kafka: {brokers: 'localhost:9092', topics: [a.b]}, columns: "
      "[{name: y, kind: label}, {name: city, kind: id}, {name: items, kind: "
      "id}, {name: shop, kind: id}, {name: x, kind: dense, fit: false}]}";
  const std::string endless = "training.epochs=0";
  const auto config = With({stream, endless});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  CHECK(config->data.streams());
  CHECK(config->loaders.instances.size() == 1);
  CHECK(config->nn_worker.instances[0].address == "127.0.0.1:7421");
  CHECK(config->data.kafka.brokers == std::vector<std::string>{"localhost:9092"});
  CHECK(With({stream, "data.kafka.stop_at_end=true"}).ok());
  CHECK(ErrorOf({stream}) ==
        "training.epochs: 1 is not supported with data.kafka; set 0 to train until training is "
        "stopped, or data.kafka.stop_at_end: true");
  CHECK(ErrorOf({stream, endless, "data.train=[CMakeLists.txt]"}) ==
        "data.train: has no effect; remove it, or remove data.kafka");
  CHECK(ErrorOf({stream, endless, "data.columns.4.fit=true"}) ==
        "data.columns.4.fit: needs a first reading of the data, which data.kafka does not have; "
        "give mean and stddev, or fit: false");
  CHECK(ErrorOf({stream, endless, "data.kafka.topics=['a b']"}) ==
        "data.kafka.topics.0: 'a b' is not the name of a topic; expected: names of topics");
  CHECK(With({endless}).ok());
}

TEST_CASE("Properties of librdkafka are texts by name, and no peer gets them", "[config]") {
  const std::string data =
      "data={kafka: {brokers: [a:1, b:2], topics: [t], properties: "
      "{security.protocol: SASL_SSL, sasl.password: hunter2, a: 1}}, columns: "
      "[{name: y, kind: label}, {name: city, kind: id}, {name: items, kind: "
      "id}, {name: shop, kind: id}, {name: x, kind: dense, fit: false}]}";
  const auto config = With({data, "training.epochs=0"});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  CHECK(config->data.kafka.properties ==
        std::map<std::string, std::string>{
            {"a", "1"}, {"sasl.password", "hunter2"}, {"security.protocol", "SASL_SSL"}});
  for (const std::string& agreement :
       {InputAgreement(*config), TrainingAgreement(*config), ModelAgreement(*config)}) {
    CHECK_THAT(agreement, !Catch::Contains("hunter2"));
  }
}

}  // namespace simurgh
