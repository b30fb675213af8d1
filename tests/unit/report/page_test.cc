#include "report/page.h"

#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "report/chart.h"
#include "report/findings.h"
#include "report/html.h"
#include "report/report_json.h"
#include "tests/unit/report/good_report.h"

namespace simurgh {
namespace {

using Catch::Contains;
using testing::GoodReport;

// Requires that each element is closed in order, and returns the text without elements.
std::string TextOf(const std::string& html) {
  std::vector<std::string> open;
  std::string text;
  static const std::regex kTag("<(/?)([a-zA-Z0-9!]+)((?:[^<>\"]|\"[^\"<>]*\")*?)(/?)>");
  size_t end = 0;
  for (auto tag = std::sregex_iterator(html.begin(), html.end(), kTag);
       tag != std::sregex_iterator(); ++tag) {
    const std::string between = html.substr(end, static_cast<size_t>(tag->position()) - end);
    INFO("between: " << between);
    REQUIRE(between.find_first_of("<>") == std::string::npos);
    text += between + " ";
    end = static_cast<size_t>(tag->position() + tag->length());
    const std::string name = (*tag)[2];
    if (name == "!DOCTYPE" || (*tag)[4] == "/") continue;
    if ((*tag)[1] != "/") {
      open.push_back(name);
      continue;
    }
    REQUIRE_FALSE(open.empty());
    REQUIRE(open.back() == name);
    open.pop_back();
  }
  CHECK(open.empty());
  return text;
}

void CheckPage(const std::string& page) {
  const std::string text = TextOf(page);
  CHECK_THAT(text, !Contains("nan"));
  CHECK_THAT(page, !Contains("<script"));
  CHECK_THAT(page, !Contains("src="));
  CHECK_THAT(page, !Contains("href="));
  CHECK_THAT(page, !Contains("url("));
  CHECK_THAT(page, !Contains("@import"));
}

TEST_CASE("A page of a good report has all parts") {
  Report report = GoodReport();
  report.findings = FindingsOf(report);
  report.headline = HeadlineOf(report);
  const std::string page = ReportPage(report);
  CheckPage(page);
  for (const char* const part :
       {"What to do next", "Nothing stands out", "Training", "What the model uses", "Calibration",
        "ROC curve", "Precision and recall", "By site", "Tables and columns", "Speed of the",
        "Configuration", "validation got no better", "epoch 2 has begun", "step 300 was best"}) {
    CHECK_THAT(page, Contains(part));
  }
  CHECK_THAT(page, Contains("<data value=\"0.4\">0.4000</data>"));
  CHECK_THAT(page, Contains("prefers-color-scheme:dark"));
}

TEST_CASE("First values of a training that are far from all others are in the table alone") {
  Report report = GoodReport();
  report.history.progress.insert(report.history.progress.begin(), {.step = 10, .loss = 9.25});
  const std::string page = ReportPage(report);
  CHECK_THAT(page, Contains("<data value=\"9.25\">"));
  CHECK_THAT(page, !Contains("step 10: 9.2500 in training"));
  CHECK_THAT(page, Contains("The first values are in the table alone"));
  report.history.progress.front().loss = 0.5;
  CHECK_THAT(ReportPage(report), Contains("step 10: 0.5000 in training"));
}

TEST_CASE("Parts that are not known are left out") {
  Report report;
  report.folder = "model";
  report.input_problem = "The model's configuration names no test files.";
  CheckPage(ReportPage(report));
  CHECK_THAT(ReportPage(report), Contains("no history"));
  report = GoodReport();
  report.history = {};
  report.importance.reset();
  report.segments.clear();
  report.labels[0].curves = {};
  report.labels[0].metrics.auc = NAN;
  report.labels[0].intervals = {};
  CheckPage(ReportPage(report));
  report.labels[0].kind = LossConfig::Kind::kSquaredError;
  report.labels[0].metrics = {
      .auc = NAN, .log_loss = NAN, .rmse = 2, .constant_rmse = 3, .calibration = NAN};
  report.labels[0].residuals =
      Residuals{.percentiles = {1, 2, 3, 4, 5, 6, 7},
                .histogram = {.low = 0, .width = 1, .first = {1, 2}, .second = {}}};
  report.unlabelled = {{.label = "clicked",
                        .mean = 0.3,
                        .percentiles = {1, 2, 3, 4, 5, 6, 7},
                        .histogram = {.low = 0, .width = 1, .first = {1, 2}, .second = {}}}};
  CheckPage(ReportPage(report));
}

TEST_CASE("Texts of the data are escaped, wherever they are") {
  const std::string bad = "<script>alert(\"1\")</script>&'\x01\xff";
  Report report = GoodReport();
  report.folder = bad;
  report.labels[0].label = bad;
  report.labels.push_back(report.labels[0]);
  report.importance->metrics.push_back(report.importance->metrics[0]);
  for (ColumnImportance& column : report.importance->columns) {
    column.columns = {bad};
    column.effects.push_back(column.effects[0]);
  }
  report.segments[0].column = bad;
  for (SegmentReport& segment : report.segments[0].segments) {
    segment.name = bad;
    segment.labels.push_back(segment.labels[0]);
  }
  report.tables[0].name = report.ids[0].column = report.numbers[0].column = bad;
  report.input->name = bad;
  report.config = {{bad, bad}};
  report.files = {{bad, 1}};
  report.trial = bad;
  report.history.end->reason = bad;
  report.findings = {{bad, bad, bad, bad, bad}};
  report.headline = report.course = bad;
  report.input_problem = bad;
  report.compared =
      ComparedModel{.folder = bad,
                    .labels = report.labels,
                    .differences = {report.labels[0].intervals, report.labels[0].intervals}};
  CheckPage(ReportPage(report));
  CHECK_THAT(ReportJson(report), Contains("\\u0001"));
  CHECK_THAT(ReportJson(report), !Contains("\xff"));
}

TEST_CASE("Escaped texts are UTF-8 without marks of HTML") {
  CHECK(Escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(Escaped("Größe 漢字 🙂") == "Größe 漢字 🙂");
  CHECK(Escaped("\xff\xc3") == "\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(Escaped(std::string_view("\0\n\x7f", 3)) == "   ");
}

TEST_CASE("Numbers are short, and keep their digits in attributes") {
  CHECK(NumberText(0.123456) == "0.1235");
  CHECK(NumberText(1234567) == "1,234,567");
  CHECK(NumberText(-1234567) == "-1,234,567");
  CHECK(NumberText(NAN) == "–");
  CHECK(NumberText(HUGE_VAL) == "–");
  CHECK(NumberText(0.000123456) == "0.0001235");
  CHECK(NumberText(0) == "0");
  CHECK(NumberText(12.3456) == "12.35");
  CHECK(NumberText(1e300) == "1e+300");
  CHECK(PercentText(0.1234) == "12.3 %");
  CHECK(PercentText(0.00012) == "0.012 %");
  CHECK(CountText(1'234'567) == "1,234,567");
  CHECK(CountText(999) == "999");
  CHECK(NumberHtml(0.1 + 0.2) == "<data value=\"0.30000000000000004\">0.3000</data>");
  CHECK(NumberHtml(NAN) == "–");
}

TEST_CASE("Ticks are round numbers within the range") {
  CHECK(TicksOf(0, 1, 5) == std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1});
  CHECK(TicksOf(0, 97, 5) == std::vector<double>{0, 20, 40, 60, 80});
  CHECK(TicksOf(-3, 3, 5).size() >= 3);
}

TEST_CASE("Charts of odd points are drawn or left out") {
  Chart chart{.title = "t", .x = {.title = "x"}, .y = {.title = "y"}, .series = {}, .marks = {}};
  CHECK(ChartSvg(chart).empty());
  chart.series = {{.name = "a", .points = {{NAN, 1, ""}, {1, NAN, ""}}}};
  CHECK(ChartSvg(chart).empty());
  chart.series[0].points = {{1, 1, "one"}};
  TextOf(ChartSvg(chart));
  CHECK_THAT(ChartSvg(chart), !Contains("nan"));
  chart.series[0].points = {{1, 1e300, "one"}, {2, -1e300, "two", {-1e300, 1e300}}};
  TextOf(ChartSvg(chart));
  CHECK(BarsSvg("t", "x", {}).empty());
  const std::string bars = BarsSvg(
      "t", "x", {{.name = "very long names are cut at some place"}, {.name = "b", .value = NAN}});
  TextOf(bars);
  CHECK_THAT(bars, !Contains("nan"));
}

}  // namespace
}  // namespace simurgh
