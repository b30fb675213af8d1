// Reports of rankings: intervals of a bootstrap over users, and their page.

#include "report/ranking_report.h"

#include <cmath>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "report/findings.h"
#include "report/page.h"
#include "report/report_json.h"

namespace simurgh {
namespace {

using Catch::Contains;

// Half of the users have a hit; their reciprocal ranks are spread evenly.
RankingReport ReportOf(int users, uint64_t seed) {
  std::mt19937_64 random(seed);
  RankingBootstrap bootstrap;
  RankingResult sums{.users = static_cast<uint64_t>(users), .items = 500, .at = {{.k = 20}}};
  for (int user = 0; user < users; ++user) {
    RankingResult one{.users = 1, .items = 500, .at = {{.k = 20}}};
    one.at[0].hit_rate = one.at[0].recall = random() % 2 == 0 ? 1 : 0;
    one.at[0].ndcg = one.at[0].recall / 2;
    one.mrr = std::uniform_real_distribution<double>()(random);
    bootstrap.Add(one);
    sums.at[0].hit_rate += one.at[0].hit_rate / users;
    sums.at[0].recall += one.at[0].recall / users;
    sums.at[0].ndcg += one.at[0].ndcg / users;
    sums.mrr += one.mrr / users;
  }
  return bootstrap.ReportOf(sums);
}

TEST_CASE("Intervals of rankings have the width of their standard error") {
  const RankingReport report = ReportOf(2'000, 1);
  REQUIRE(report.metrics.size() == 4);
  CHECK(report.metrics.back().name == "mrr");
  const auto width = [&](const char* name) {
    const RankingReport::Metric& metric = report.metric(name);
    CHECK(metric.interval.Holds(metric.value));
    return metric.interval.high - metric.interval.low;
  };
  const double of_share = 2 * 1.96 * 0.5 / std::sqrt(2'000);
  const double of_uniform = 2 * 1.96 * std::sqrt(1.0 / 12) / std::sqrt(2'000);
  CHECK(width("recall@20") == Approx(of_share).epsilon(0.15));
  CHECK(width("hit_rate@20") == width("recall@20"));
  CHECK(width("ndcg@20") == Approx(width("recall@20") / 2));
  CHECK(width("mrr") == Approx(of_uniform).epsilon(0.15));
  CHECK_FALSE(ReportOf(29, 2).metric("mrr").interval.is_known());
  CHECK(ReportOf(30, 2).metric("mrr").interval.is_known());
}

TEST_CASE("A page of a ranking has its metrics") {
  Report report;
  report.folder = "towers";
  report.input =
      InputReport{.name = "test.csv", .rows = 2'000, .sampled_rows = 2'000, .has_labels = true};
  report.ranking = ReportOf(2'000, 1);
  report.ranking->unknown_items = 3;
  report.ranking->popular_recall = 0.25;
  report.findings = FindingsOf(report);
  report.headline = HeadlineOf(report);
  CHECK_THAT(report.headline,
             Contains("are among the first 20 of 500: recall@20 is 0.") && Contains("(95 %: 0.") &&
                 Contains("The most popular items, the same for every user, give 0.2500."));
  const std::string page = ReportPage(report);
  CHECK_THAT(page, Contains("<h2>Rankings</h2>") && Contains("hit_rate@20") &&
                       Contains("bootstrap over users") &&
                       Contains("3 are not in the file of items"));
  CHECK_THAT(page, !Contains("AUC") && !Contains("Log loss"));
  CHECK_THAT(ReportJson(report), Contains(R"("ranking":{)") && Contains(R"("mrr":{)") &&
                                     Contains(R"("unknown_items":3)") &&
                                     Contains(R"("popular_recall":0.25)"));
}

}  // namespace
}  // namespace simurgh
