#include "report/history.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

TrainingHistory Read(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder.Path("history.jsonl")) << text;
  return ReadHistory(folder.path()).value();
}

TEST_CASE("A history has the events of its lines") {
  const TrainingHistory history = Read(
      R"({"event":"progress","step":10,"epoch":0.5,"time":1,"samples":100,"seconds":2,"loss":0.6,)"
      R"("auc":0.7,"samples_per_s":50,"staleness":1,"skipped_steps":3,"waited":0.25,)"
      R"("rate":0.001,"table_rates":{"site":0.05},"memory_mib":12})"
      "\n"
      R"({"event":"validation","step":10,"time":2,"samples":20,"auc":0.71,"logloss":0.5})"
      "\n"
      R"({"event":"checkpoint","step":10,"time":3,"seconds":0.5,"bytes":1000,"rows":{"site":7},)"
      R"("evicted":{"site":3}})"
      "\n"
      R"({"event":"test","step":20,"time":4,"samples":20,"rmse":2.5})"
      "\n"
      R"({"event":"end","step":20,"time":5,"reason":"early_stopping","best_step":10})"
      "\n");
  REQUIRE(history.progress.size() == 1);
  const TrainingHistory::Progress& progress = history.progress.front();
  CHECK(progress.step == 10);
  CHECK(progress.epoch == 0.5);
  CHECK(progress.waited == 0.25);
  CHECK(progress.rate == 0.001);
  CHECK(progress.table_rates.at("site") == 0.05);
  CHECK(progress.memory_mib == 12);
  CHECK(std::isnan(progress.rmse));
  REQUIRE(history.EvaluationsOf(/*tests=*/false).size() == 1);
  CHECK(history.EvaluationsOf(false).front().loss() == 0.5);
  CHECK(history.EvaluationsOf(true).front().loss() == 2.5);
  REQUIRE(history.saves.size() == 1);
  CHECK(history.saves.front().bytes == 1000);
  CHECK(history.saves.front().rows.at("site") == 7);
  CHECK(history.saves.front().evicted.at("site") == 3);
  REQUIRE(history.end);
  CHECK(history.end->reason == "early_stopping");
  CHECK(history.end->best_step == 10);
}

TEST_CASE("A line of progress lacks what is equal before, and starts count anew") {
  const TrainingHistory history = Read(
      R"({"event":"start","step":0})"
      "\n"
      R"({"event":"progress","step":1,"epoch":1,"samples":10,"seconds":1,"loss":0.6,"rate":0.1})"
      "\n"
      R"({"event":"progress","step":2,"samples":20,"seconds":2,"loss":null})"
      "\n"
      R"({"event":"start","step":2})"
      "\n"
      R"({"event":"progress","step":3,"epoch":2,"samples":10,"seconds":1.5,"loss":0.5})"
      "\n"
      R"({"event":"end","step":3,"reason":"stopped"})"
      "\n"
      R"({"event":"start","step":3})"
      "\n"
      R"({"event":"progress","step":7,"samples":40,"seconds":4})"
      "\n");
  REQUIRE(history.progress.size() == 4);
  CHECK(history.progress[3].samples == 70);
  CHECK(history.progress[3].seconds == 7.5);
  CHECK_FALSE(history.end);
  CHECK(history.progress[1].epoch == 1);
  CHECK(history.progress[1].rate == 0.1);
  CHECK(std::isnan(history.progress[1].loss));
  CHECK(history.progress[2].samples == 30);
  CHECK(history.progress[2].seconds == 3.5);
  CHECK(history.progress[2].loss == 0.5);
}

TEST_CASE("Lines of other programs and damaged lines are left out") {
  const TrainingHistory history = Read(
      "\n[1]\nnull\n{\"event\":\"other\",\"step\":1}\n{\"event\":7}\n{\"step\":-5}\n"
      R"({"event":"progress","step":"x","loss":null,"rates":[1],"auc":"0.5"})"
      "\n"
      R"({"event":"end"})"
      "\n"
      R"({"event":"progress","step":3,"lo)");
  REQUIRE(history.progress.size() == 1);
  CHECK(history.progress.front().step == 0);
  CHECK(std::isnan(history.progress.front().loss));
  CHECK(std::isnan(history.progress.front().auc));
  REQUIRE(history.end);
  CHECK(history.end->reason.empty());
  CHECK_FALSE(history.end->best_step);
}

TEST_CASE("A missing history is empty") { CHECK(ReadHistory("/no/such/folder").value().empty()); }

TEST_CASE("Thinned lists keep both ends") {
  std::vector<int> all(1'000);
  for (int i = 0; i < 1'000; ++i) all[static_cast<size_t>(i)] = i;
  const std::vector<int> kept = Thinned(all, 10);
  REQUIRE(kept.size() == 10);
  CHECK(kept.front() == 0);
  CHECK(kept.back() == 999);
  CHECK(Thinned(kept, 10) == kept);
}

}  // namespace
}  // namespace simurgh
