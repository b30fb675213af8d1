#include "report/page.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "config/training_config.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/page_style.h"

namespace simurgh {
namespace {

// Points of a curve of the training.
constexpr size_t kCurvePoints = 400;
// Rows of tables behind curves of the training.
constexpr size_t kTableRows = 100;
// Columns in the chart of importance.
constexpr size_t kMostBars = 20;

std::string TimeText(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  if (seconds <= 0 || gmtime_r(&time, &utc) == nullptr) return "";
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d UTC", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min);
}

std::string BytesText(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
}

std::string IntervalHtml(const Interval& interval) {
  if (!interval.is_known()) return "–";
  return absl::StrCat(NumberHtml(interval.low), " to ", NumberHtml(interval.high));
}

std::string Paragraph(const std::string& text) {
  return absl::StrCat("<p>", Escaped(text), "</p>\n");
}

// A chart with its title, how to read it, and its table.
std::string Figure(const std::string& title, const std::string& reading, const std::string& svg,
                   const HtmlTable& table) {
  if (svg.empty()) return "";
  return absl::StrCat("<figure><h3>", Escaped(title), "</h3><figcaption>", Escaped(reading),
                      "</figcaption>\n", svg, "<details><summary>Table</summary>", table.Finish(),
                      "</details></figure>\n");
}

std::string Plots(const std::string& figures) {
  return figures.empty() ? "" : absl::StrCat("<div class=\"plots\">\n", figures, "</div>\n");
}

// Writes the sections of a page.
class Page {
 public:
  explicit Page(const Report& report) : report_(report) {}

  std::string Write() {
    html_ = absl::StrCat(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
        Escaped(absl::StrCat("Report of ", report_.folder)), "</title>\n<style>", kPageStyle,
        "</style>\n</head>\n<body>\n<main>\n");
    Summary();
    Training();
    Importances();
    Rankings();
    for (const LabelReport& label : report_.labels) Quality(label);
    Unlabelled();
    Segments();
    Tables();
    Throughput();
    Configuration();
    html_ += "</main>\n</body>\n</html>\n";
    return std::move(html_);
  }

 private:
  void Add(const std::string& html) { html_ += html; }
  void Head(const std::string& title) {
    absl::StrAppend(&html_, "<h2>", Escaped(title), "</h2>\n");
  }
  // Returns a title, with the label's name if there are several.
  std::string Titled(const std::string& title, const std::string& label) const {
    return report_.labels.size() > 1 ? absl::StrCat(title, " of ", label) : title;
  }

  void Summary();
  void Facts(const LabelReport& label);
  void Facts(const RankingReport& ranking);
  void Fact(const std::string& name, const std::string& value, const std::string& more);
  void Compared();
  void NextSteps();
  void Training();
  std::string CurveOf(const std::string& title, const std::string& metric,
                      double TrainingHistory::Progress::* of_training);
  void Importances();
  std::string ImportanceOf(size_t label);
  void Rankings();
  void Quality(const LabelReport& label);
  void Unlabelled();
  std::string CalibrationOf(const LabelReport& label);
  std::string ScoresOf(const LabelReport& label);
  std::string CurvesOf(const LabelReport& label);
  std::string ResidualsOf(const LabelReport& label);
  void Segments();
  void Tables();
  void Throughput();
  void Configuration();

  const Report& report_;
  std::string html_;
};

void Page::Summary() {
  absl::StrAppend(&html_, "<h1>", Escaped(report_.folder), "</h1>\n");
  std::string line = absl::StrCat("Model of step ", CountText(report_.step));
  if (report_.samples > 0) {
    absl::StrAppend(&line, ", trained on ", CountText(report_.samples), " samples");
  }
  if (const std::string time = TimeText(report_.step_time); !time.empty()) {
    absl::StrAppend(&line, ", ", time);
  }
  if (report_.input) {
    const InputReport& input = *report_.input;
    absl::StrAppend(&line, ". Rows: ", CountText(input.rows), " of ", input.name);
    if (input.bad_rows > 0) {
      absl::StrAppend(&line, ", of which ", CountText(input.bad_rows), " could not be parsed");
    }
  }
  absl::StrAppend(&html_, "<p class=\"soft\">", Escaped(line), ".</p>\n");
  absl::StrAppend(&html_, "<p class=\"headline\">", Escaped(report_.headline), "</p>\n");
  if (!report_.course.empty()) Add(Paragraph(report_.course));
  if (!report_.input_problem.empty()) Add(Paragraph(report_.input_problem));
  for (const LabelReport& label : report_.labels) Facts(label);
  if (report_.ranking) Facts(*report_.ranking);
  if (report_.input && report_.input->has_labels) {
    const InputReport& input = *report_.input;
    std::string note =
        absl::StrCat("Intervals have a confidence of 95 %: bootstrap over ",
                     report_.ranking    ? "users."
                     : input.has_groups ? "groups of rows, since rows of a group are alike."
                                        : "rows.");
    if (input.has_weights) note += " All numbers count rows by their weights.";
    if (input.sampled_rows < input.rows - input.bad_rows) {
      absl::StrAppend(&note, " AUC, curves, deciles and intervals are from a uniform sample of ",
                      CountText(input.sampled_rows), " rows. Losses and means are from all rows.");
    }
    absl::StrAppend(&html_, "<p class=\"soft\">", Escaped(note), "</p>\n");
  }
  Compared();
  NextSteps();
}

void Page::Fact(const std::string& name, const std::string& value, const std::string& more) {
  absl::StrAppend(&html_, "<div><dt>", name, "</dt><dd>", value, "<small>", more,
                  "</small></dd></div>\n");
}

void Page::Facts(const RankingReport& ranking) {
  html_ += "<dl class=\"facts\">\n";
  const auto fact = [&](const std::string& title, const std::string& name) {
    const RankingReport::Metric& metric = ranking.metric(name);
    Fact(title, NumberHtml(metric.value), IntervalHtml(metric.interval));
  };
  fact(absl::StrCat("Recall@", kComparedItems), absl::StrCat("recall@", kComparedItems));
  fact(absl::StrCat("NDCG@", kComparedItems), absl::StrCat("ndcg@", kComparedItems));
  fact("MRR", "mrr");
  Fact("Users", CountHtml(ranking.users), "with items in the rows");
  Fact("Items", CountHtml(ranking.items), "all are ranked");
  html_ += "</dl>\n";
}

void Page::Rankings() {
  if (!report_.ranking) return;
  const RankingReport& ranking = *report_.ranking;
  Head("Rankings");
  Add(Paragraph(
      "For each user, all items are in the order of their scores. Recall@k is the share of the "
      "user's items that are among the first k. The hit rate is the share of users with one or "
      "more of them there. NDCG@k also counts the places. MRR is the mean of 1 over the place of "
      "the first one."));
  if (ranking.unknown_items > 0) {
    Add(Paragraph(absl::StrCat("Of the users' items, ", CountText(ranking.unknown_items),
                               " are not in the file of items. They count as not found.")));
  }
  HtmlTable table({"Metric", "Value", "95 % interval"});
  for (const RankingReport::Metric& metric : ranking.metrics) {
    table.AddRow({Escaped(metric.name), NumberHtml(metric.value), IntervalHtml(metric.interval)});
  }
  Add(table.Finish());
}

void Page::Facts(const LabelReport& label) {
  if (report_.labels.size() > 1) absl::StrAppend(&html_, "<h3>", Escaped(label.label), "</h3>\n");
  html_ += "<dl class=\"facts\">\n";
  const auto fact = [&](const char* name, const std::string& value, const std::string& more) {
    Fact(name, value, more);
  };
  const MetricIntervals& intervals = label.intervals;
  if (label.is_regression()) {
    fact("RMSE", NumberHtml(label.metrics.rmse), IntervalHtml(intervals.rmse));
    fact("RMSE of a constant", NumberHtml(label.metrics.constant_rmse), "the mean label");
    fact("Mean prediction", NumberHtml(label.mean_prediction),
         absl::StrCat("mean label ", NumberHtml(label.mean_label)));
    fact("Rows", CountHtml(label.rows), "with this label");
  } else {
    fact("AUC", NumberHtml(label.metrics.auc), IntervalHtml(intervals.auc));
    fact("Log loss", NumberHtml(label.metrics.log_loss), IntervalHtml(intervals.log_loss));
    fact("Log loss of a constant", NumberHtml(label.metrics.constant_log_loss),
         "that predicts the share of positives");
    fact("Mean prediction / share of positives", NumberHtml(label.metrics.calibration),
         IntervalHtml(intervals.calibration));
    fact("Rows", CountHtml(label.rows), absl::StrCat(PercentHtml(label.mean_label), " positive"));
  }
  html_ += "</dl>\n";
}

void Page::Compared() {
  if (!report_.compared) return;
  const ComparedModel& other = *report_.compared;
  Head("Compared with another model");
  Add(Paragraph(absl::StrCat(
      "The other model is ", other.folder, " of step ", CountText(other.step),
      ". Both predict the same rows. A difference is clear if its interval does not hold 0.")));
  for (size_t i = 0; i < other.labels.size(); ++i) {
    const LabelReport& mine = report_.labels[i];
    const LabelReport& its = other.labels[i];
    const MetricIntervals& differences = other.differences[i];
    HtmlTable table({Titled("Metric", mine.label), "This model", "Other model", "Difference",
                     "95 % interval", "Verdict"});
    const auto add = [&](const char* name, double a, double b, const Interval& interval,
                         bool more_is_better) {
      const char* const verdict = !interval.is_known()        ? "unknown"
                                  : interval.Holds(0)         ? "no clear difference"
                                  : (a > b) == more_is_better ? "this one is better"
                                                              : "the other one is better";
      table.AddRow(
          {name, NumberHtml(a), NumberHtml(b), NumberHtml(a - b), IntervalHtml(interval), verdict});
    };
    if (mine.is_regression()) {
      add("RMSE", mine.metrics.rmse, its.metrics.rmse, differences.rmse, false);
    } else {
      add("AUC", mine.metrics.auc, its.metrics.auc, differences.auc, true);
      add("Log loss", mine.metrics.log_loss, its.metrics.log_loss, differences.log_loss, false);
    }
    Add(table.Finish());
  }
}

void Page::NextSteps() {
  Head("What to do next");
  if (report_.findings.empty()) {
    Add(Paragraph("Nothing stands out."));
    return;
  }
  html_ += "<ol class=\"next\">\n";
  for (const Finding& finding : report_.findings) {
    absl::StrAppend(&html_, "<li id=\"", Escaped(finding.id), "\"><strong>", Escaped(finding.what),
                    "</strong> ", Escaped(finding.evidence), " ", Escaped(finding.remedy));
    if (!finding.command.empty()) {
      absl::StrAppend(&html_, " <code>", Escaped(finding.command), "</code>");
    }
    html_ += "</li>\n";
  }
  html_ += "</ol>\n";
}

// Returns vertical lines where epochs begin, as far as the history shows it.
std::vector<ChartMark> EpochMarks(const TrainingHistory& history) {
  std::vector<ChartMark> marks;
  double epoch = TrainingHistory::kUnknown;
  for (const TrainingHistory::Progress& one : history.progress) {
    // Lines that are more than an epoch apart do not show where epochs begin.
    if (one.epoch == epoch + 1) {
      marks.push_back(
          {static_cast<double>(one.step), absl::StrFormat("epoch %.0f has begun", one.epoch)});
    }
    epoch = one.epoch;
  }
  return marks.size() > 40 ? std::vector<ChartMark>() : marks;
}

// Returns a chart of the dense learning rate, if it has changed.
std::string RatesOf(const TrainingHistory& history) {
  ChartSeries series{.name = "dense network", .colour = 'a', .points = {}};
  HtmlTable table({"Step", "Learning rate"});
  for (const auto& one : Thinned(history.progress, kTableRows)) {
    if (std::isnan(one.rate)) continue;
    series.points.push_back({static_cast<double>(one.step), one.rate,
                             absl::StrFormat("step %d: %.4g", one.step, one.rate)});
    table.AddRow({CountHtml(one.step), NumberHtml(one.rate)});
  }
  const auto differs = [&](const ChartPoint& point) { return point.y != series.points.front().y; };
  if (std::ranges::none_of(series.points, differs)) return "";
  return Figure("Learning rate of the dense network",
                "The step of each update. A training often ends best with a small one.",
                ChartSvg({.title = "Learning rate by step",
                          .x = {.title = "step"},
                          .y = {.title = "learning rate", .low = 0},
                          .series = {series},
                          .marks = EpochMarks(history)}),
                table);
}

// Removes the first points, at most a tenth, as long as they are far from all others: they would
// leave no room for these. Returns whether there were any.
bool LeaveOutStart(std::vector<ChartPoint>& points) {
  constexpr double kFar = 0.5;  // Share of the range of the others.
  const size_t most = (points.size() + 9) / 10;
  if (points.size() < 5) return false;
  const auto rest = std::span(points).subspan(most);
  const auto [low, high] = std::ranges::minmax(rest, {}, &ChartPoint::y);
  const double reach = kFar * (high.y - low.y);
  size_t far = 0;
  while (far < most && (points[far].y > high.y + reach || points[far].y < low.y - reach)) {
    ++far;
  }
  points.erase(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(far));
  return far > 0;
}

std::string Page::CurveOf(const std::string& title, const std::string& metric,
                          double TrainingHistory::Progress::* of_training) {
  ChartSeries training{.name = "training", .colour = 'a', .points = {}};
  for (const auto& one : Thinned(report_.history.progress, kCurvePoints)) {
    if (of_training == nullptr) break;
    training.points.push_back(
        {static_cast<double>(one.step), one.*of_training,
         absl::StrFormat("step %d: %s in training", one.step, NumberText(one.*of_training))});
  }
  std::erase_if(training.points, [](const ChartPoint& point) { return std::isnan(point.y); });
  training.has_marks = training.points.size() == 1;  // A line needs two.
  ChartSeries validation{.name = "validation", .colour = 'b', .has_marks = true, .points = {}};
  ChartSeries test{
      .name = "test", .colour = 'c', .has_line = false, .has_marks = true, .points = {}};
  HtmlTable table({"Step", "Rows", title});
  const auto add_row = [&](double step, const char* rows, double value) {
    table.AddRow({CountHtml(static_cast<uint64_t>(step)), rows, NumberHtml(value)});
  };
  for (const ChartPoint& point : Thinned(training.points, kTableRows)) {
    add_row(point.x, "training", point.y);
  }
  for (const TrainingHistory::Evaluation& one : report_.history.evaluations) {
    const auto found = one.metrics.find(metric);
    if (found == one.metrics.end()) continue;
    const char* const rows = one.is_test ? "test" : "validation";
    (one.is_test ? test : validation)
        .points.push_back(
            {static_cast<double>(one.step), found->second,
             absl::StrFormat("step %d: %s of %s rows", one.step, NumberText(found->second), rows)});
    add_row(static_cast<double>(one.step), rows, found->second);
  }
  const bool leaves_out = LeaveOutStart(training.points);
  Chart chart{.title = absl::StrCat(title, " by step"),
              .x = {.title = "step"},
              .y = {.title = title},
              .series = {},
              .marks = EpochMarks(report_.history)};
  const bool has_epochs = !chart.marks.empty();
  const std::optional<uint64_t> best =
      report_.history.end ? report_.history.end->best_step : std::optional<uint64_t>();
  if (best) {
    chart.marks.push_back({.x = static_cast<double>(*best),
                           .title = absl::StrCat("step ", *best, " was best"),
                           .is_chosen = true});
  }
  for (ChartSeries& series : std::vector<ChartSeries>{training, validation, test}) {
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  // A chart of a single point says nothing.
  if (training.points.size() < 2 && validation.points.size() < 2) return "";
  return Figure(title,
                absl::StrCat("Training is measured on rows that the model has not learned in this "
                             "epoch. Where validation gets worse, the model learns rows by heart.",
                             has_epochs ? " Dotted lines: an epoch begins." : "",
                             best ? " Dashed line: the best step." : "",
                             leaves_out ? " The first values are in the table alone." : ""),
                ChartSvg(chart), table);
}

void Page::Training() {
  Head("Training");
  const TrainingHistory& history = report_.history;
  if (history.empty()) {
    Add(Paragraph("The model's folder has no history of its training."));
    return;
  }
  std::string text;
  if (!report_.trial.empty()) {
    absl::StrAppend(&text, "The curves are of the first training, ", report_.trial,
                    ", which found the number of epochs. A second one read all rows as often, and "
                    "gave this model. ");
  }
  if (history.end) {
    static const std::map<std::string, std::string> kReasons = {
        {"epochs", "all epochs were done"},
        {"max_steps", "training.max_steps was reached"},
        {"early_stopping", "validation got no better"},
        {"stopped", "it was stopped"}};
    const auto reason = kReasons.find(history.end->reason);
    absl::StrAppend(&text, "Training ended at step ", CountText(history.end->step), ", because ",
                    reason == kReasons.end() ? history.end->reason : reason->second, ".");
    if (history.end->best_step) {
      absl::StrAppend(&text, " The best validation was at step ",
                      CountText(*history.end->best_step), ".");
    }
  } else if (!history.progress.empty()) {
    absl::StrAppend(&text, "The last report is of step ", CountText(history.progress.back().step),
                    ".");
  }
  if (report_.trial.empty() && !history.progress.empty() &&
      report_.step < history.progress.back().step) {
    absl::StrAppend(&text, " The model of step ", CountText(report_.step), " predicts.");
  }
  if (!text.empty()) Add(Paragraph(text));
  // Losses of a label of numbers have other units in training, where the label is scaled.
  std::string figures = CurveOf("Loss", "logloss", &TrainingHistory::Progress::loss);
  figures += CurveOf("AUC", "auc", &TrainingHistory::Progress::auc);
  figures += CurveOf("RMSE", "rmse", &TrainingHistory::Progress::rmse);
  for (const char* const metric : {"recall", "ndcg"}) {
    const std::string name = absl::StrCat(metric, "@", kComparedItems);
    figures += CurveOf(name, name, /*of_training=*/nullptr);
  }
  figures += RatesOf(history);
  if (figures.empty()) Add(Paragraph("The training was too short for a curve."));
  Add(Plots(figures));
}

std::string Page::ImportanceOf(size_t label) {
  const Importance& importance = *report_.importance;
  const LabelReport& of = report_.labels[label];
  const std::string metric = of.is_regression() ? "RMSE" : "log loss";
  std::vector<ChartBar> bars;
  HtmlTable table({"Column", absl::StrCat("Increase of ", metric), "95 % interval",
                   "Decrease of AUC", "95 % interval"});
  for (const ColumnImportance& column : importance.columns) {
    const std::string name = absl::StrJoin(column.columns, " + ");
    const PermutationEffect& loss = column.effects[label].loss;
    const PermutationEffect& auc = column.effects[label].auc;
    table.AddRow({Escaped(name), NumberHtml(loss.mean), IntervalHtml(loss.interval),
                  NumberHtml(auc.mean), IntervalHtml(auc.interval)});
    if (bars.size() == kMostBars) continue;
    bars.push_back(
        {name, loss.mean, loss.interval,
         absl::StrCat(name, ": ", NumberText(loss.mean), ", from ", NumberText(loss.interval.low),
                      " to ", NumberText(loss.interval.high))});
  }
  return Figure(
      Titled("Importance of columns", of.label),
      absl::StrCat(
          "Each bar is the increase of the ", metric,
          " when the column's cells are permuted among the rows. A line is the interval of "
          "95 %. If it holds 0, the column may tell nothing new."),
      BarsSvg("Importance of columns", absl::StrCat("increase of ", metric), bars), table);
}

void Page::Importances() {
  if (!report_.importance || report_.labels.empty()) return;
  const Importance& importance = *report_.importance;
  Head("What the model uses");
  Add(Paragraph(absl::StrCat(
      "Measured on ", CountText(importance.rows), " rows with ", importance.repeats,
      " permutations of each column. Columns that tell the same share their importance: each alone "
      "seems to matter less.")));
  std::string figures;
  for (size_t label = 0; label < report_.labels.size(); ++label) figures += ImportanceOf(label);
  Add(Plots(figures));
}

std::string Page::CalibrationOf(const LabelReport& label) {
  const bool is_regression = label.is_regression();
  const char* const of_label = is_regression ? "Mean label" : "Share of positives";
  ChartSeries series{.name = of_label, .colour = 'a', .has_marks = true, .points = {}};
  std::vector<std::string> heads = {"Predictions", "Rows", "Mean prediction", of_label,
                                    "95 % interval"};
  if (is_regression) heads.insert(heads.end(), {"10 % of labels below", "10 % above"});
  HtmlTable table(heads);
  for (const PredictionBin& bin : label.deciles) {
    series.points.push_back({bin.prediction, bin.label,
                             absl::StrFormat("mean prediction %.4g, mean label %.4g, %d rows",
                                             bin.prediction, bin.label, bin.rows),
                             bin.interval});
    std::vector<std::string> cells = {
        absl::StrCat(NumberHtml(bin.lowest), " to ", NumberHtml(bin.highest)), CountHtml(bin.rows),
        NumberHtml(bin.prediction), NumberHtml(bin.label), IntervalHtml(bin.interval)};
    if (is_regression) {
      cells.insert(cells.end(), {NumberHtml(bin.low_label), NumberHtml(bin.high_label)});
    }
    table.AddRow(cells);
  }
  return Figure(
      is_regression ? "Predicted and actual" : "Calibration",
      "Each point is a tenth of the rows, by prediction. On the diagonal, predictions are "
      "right on average; below it they are too high.",
      ChartSvg({.title = "Mean label by prediction",
                .x = {.title = "mean prediction"},
                .y = {.title = is_regression ? "mean label" : "share of positives"},
                .series = {series},
                .marks = {},
                .has_diagonal = true}),
      table);
}

std::string Page::ScoresOf(const LabelReport& label) {
  const BinnedCounts& counts = label.scores;
  const auto total = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  };
  const double positives = total(counts.first);
  const double negatives = total(counts.second);
  ChartSeries of_1{.name = "label 1", .colour = 'b', .is_filled = true, .points = {}};
  ChartSeries of_0{
      .name = "label 0", .colour = 'a', .is_filled = true, .is_dashed = true, .points = {}};
  HtmlTable table({"Predictions from", "Weight of label 1", "Weight of label 0"});
  for (size_t bin = 0; bin < counts.first.size(); ++bin) {
    const double low = counts.low + counts.width * static_cast<double>(bin);
    table.AddRow({NumberHtml(low), NumberHtml(counts.first[bin]), NumberHtml(counts.second[bin])});
    const auto add = [&](ChartSeries& series, double part, double all) {
      if (!(all > 0)) return;
      const double share = part / all;
      const std::string title = absl::StrFormat("%s from %.4g to %.4g: %s", series.name, low,
                                                low + counts.width, PercentText(share));
      series.points.push_back({low, share, ""});
      series.points.push_back({low + counts.width / 2, share, title});
      series.points.push_back({low + counts.width, share, ""});
    };
    add(of_1, counts.first[bin], positives);
    add(of_0, counts.second[bin], negatives);
  }
  Chart chart{.title = "Predictions by label",
              .x = {.title = "prediction"},
              .y = {.title = "share of the label's rows", .low = 0, .is_percent = true},
              .series = {},
              .marks = {}};
  for (ChartSeries& series : std::vector<ChartSeries>{of_1, of_0}) {
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return Figure("Predictions by label",
                "The less the two overlap, the better the model tells the labels apart.",
                ChartSvg(chart), table);
}

std::string Page::CurvesOf(const LabelReport& label) {
  if (label.curves.points.empty()) return "";
  ChartSeries roc{.name = "ROC", .colour = 'a', .points = {{0, 0, ""}}};
  ChartSeries precision{.name = "precision", .colour = 'a', .points = {}};
  HtmlTable points({"Threshold", "Rows selected", "Recall", "False positives", "Precision"});
  const auto row_of = [](const OperatingPoint& point) {
    return std::vector<std::string>{NumberHtml(point.threshold), PercentHtml(point.share),
                                    PercentHtml(point.recall), PercentHtml(point.fall_out),
                                    PercentHtml(point.precision)};
  };
  for (const OperatingPoint& point : label.curves.points) {
    const std::string title = absl::StrFormat(
        "threshold %.4g: recall %s, false positives %s, precision %s", point.threshold,
        PercentText(point.recall), PercentText(point.fall_out), PercentText(point.precision));
    roc.points.push_back({point.fall_out, point.recall, title});
    // The first rows may have no positive, which says nothing of those behind them.
    if (point.recall > 0) precision.points.push_back({point.recall, point.precision, title});
    points.AddRow(row_of(point));
  }
  HtmlTable thresholds({"Threshold", "Rows selected", "Recall", "False positives", "Precision"});
  for (const OperatingPoint& point : label.curves.choices) thresholds.AddRow(row_of(point));
  std::string html = Figure(
      "ROC curve",
      absl::StrFormat("For each threshold: the share of positives and of negatives above it. The "
                      "area below is the AUC, %.4f. On the diagonal, the order is that of chance.",
                      label.metrics.auc),
      ChartSvg({.title = "ROC curve",
                .x = {.title = "negatives selected", .low = 0, .high = 1, .is_percent = true},
                .y = {.title = "positives selected", .low = 0, .high = 1, .is_percent = true},
                .series = {roc},
                .marks = {},
                .has_diagonal = true}),
      points);
  html += Figure(
      "Precision and recall",
      absl::StrFormat("For each threshold: the share of positives among the selected rows. The "
                      "average precision is %.4f. Rows selected by chance would have %s.",
                      label.curves.average_precision, PercentText(label.mean_label)),
      ChartSvg({.title = "Precision and recall",
                .x = {.title = "recall", .low = 0, .high = 1, .is_percent = true},
                .y = {.title = "precision", .low = 0, .high = 1, .is_percent = true},
                .series = {precision},
                .marks = {}}),
      thresholds);
  return html;
}

// Returns a series of the outline of bins.
ChartSeries OutlineOf(const BinnedCounts& counts) {
  ChartSeries series{.name = "rows", .colour = 'a', .is_filled = true, .points = {}};
  for (size_t bin = 0; bin < counts.first.size(); ++bin) {
    const double low = counts.low + counts.width * static_cast<double>(bin);
    series.points.push_back({low, counts.first[bin], ""});
    series.points.push_back({low + counts.width / 2, counts.first[bin],
                             absl::StrFormat("from %.4g to %.4g: %.0f rows", low,
                                             low + counts.width, counts.first[bin])});
    series.points.push_back({low + counts.width, counts.first[bin], ""});
  }
  return series;
}

void AddPercentiles(const std::vector<double>& percentiles, HtmlTable& table) {
  const char* const names[] = {"1 % are below",  "5 % are below",  "25 % are below",
                               "50 % are below", "75 % are below", "95 % are below",
                               "99 % are below"};
  for (size_t i = 0; i < percentiles.size(); ++i) {
    table.AddRow({names[i], NumberHtml(percentiles[i])});
  }
}

std::string Page::ResidualsOf(const LabelReport& label) {
  if (!label.residuals) return "";
  const Residuals& residuals = *label.residuals;
  HtmlTable table({"Residual", "Value"});
  table.AddRow({"mean", NumberHtml(residuals.mean)});
  table.AddRow({"mean absolute", NumberHtml(residuals.mean_absolute)});
  table.AddRow({"R squared", NumberHtml(residuals.r_squared)});
  AddPercentiles(residuals.percentiles, table);
  return Figure("Residuals",
                "Label less prediction. A narrow peak at 0 is good; a tail to one side means large "
                "errors of one sign.",
                ChartSvg({.title = "Residuals",
                          .x = {.title = "label less prediction"},
                          .y = {.title = "rows", .low = 0},
                          .series = {OutlineOf(residuals.histogram)},
                          .marks = {}}),
                table);
}

void Page::Unlabelled() {
  if (report_.unlabelled.empty()) return;
  Head("Predictions");
  std::string figures;
  for (const PredictionSummary& summary : report_.unlabelled) {
    HtmlTable table({"Prediction", "Value"});
    table.AddRow({"mean", NumberHtml(summary.mean)});
    AddPercentiles(summary.percentiles, table);
    figures += Figure(absl::StrCat("Predictions of ", summary.label),
                      "The rows have no labels. Compare the mean with the share that you expect.",
                      ChartSvg({.title = "Predictions",
                                .x = {.title = "prediction"},
                                .y = {.title = "rows", .low = 0},
                                .series = {OutlineOf(summary.histogram)},
                                .marks = {}}),
                      table);
  }
  Add(Plots(figures));
}

void Page::Quality(const LabelReport& label) {
  Head(Titled("Predictions", label.label));
  Add(Plots(label.is_regression() ? CalibrationOf(label) + ResidualsOf(label)
                                  : CalibrationOf(label) + ScoresOf(label) + CurvesOf(label)));
  if (label.curves.choices.empty()) return;
  Add("<h3>If the highest predictions are selected</h3>\n");
  HtmlTable table(
      {"Threshold", "Rows selected", "Positives among them", "Times chance", "Of all positives"});
  for (const OperatingPoint& point : label.curves.choices) {
    table.AddRow(
        {NumberHtml(point.threshold), PercentHtml(point.share), PercentHtml(point.precision),
         absl::StrFormat("%.2f", point.precision / label.mean_label), PercentHtml(point.recall)});
  }
  Add(table.Finish());
}

void Page::Segments() {
  if (report_.segments.empty()) return;
  Head("Parts of the rows");
  Add(
      Paragraph("Compare the mean prediction of a part with its labels, and its loss with that of "
                "others. Small parts differ by chance."));
  for (const SegmentsReport& column : report_.segments) {
    absl::StrAppend(&html_, "<h3>By ", Escaped(column.column), "</h3>\n");
    if (column.has_dropped) {
      Add(
          Paragraph("The column has very many values. Rows of rare values are counted as others, "
                    "so that counts are lower bounds."));
    }
    for (size_t i = 0; i < report_.labels.size(); ++i) {
      const LabelReport& label = report_.labels[i];
      const bool is_regression = label.is_regression();
      std::vector<std::string> heads = {Titled(column.column, label.label), "Rows",
                                        is_regression ? "Mean label" : "Positive",
                                        "Mean prediction"};
      if (is_regression) {
        heads.insert(heads.end(), {"RMSE", "RMSE of a constant"});
      } else {
        heads.insert(heads.end(), {"AUC", "Log loss", "Log loss of a constant"});
      }
      HtmlTable table(heads);
      for (const SegmentReport& segment : column.segments) {
        const SegmentReport::OfLabel& of = segment.labels[i];
        std::vector<std::string> cells = {Escaped(segment.name), CountHtml(of.rows)};
        if (is_regression) {
          cells.insert(cells.end(),
                       {NumberHtml(of.mean_label), NumberHtml(of.mean_prediction),
                        NumberHtml(of.metrics.rmse), NumberHtml(of.metrics.constant_rmse)});
        } else {
          cells.insert(cells.end(), {PercentHtml(of.mean_label), PercentHtml(of.mean_prediction),
                                     NumberHtml(of.metrics.auc), NumberHtml(of.metrics.log_loss),
                                     NumberHtml(of.metrics.constant_log_loss)});
        }
        table.AddRow(cells);
      }
      Add(table.Finish());
    }
  }
}

void Page::Tables() {
  if (report_.tables.empty() && report_.numbers.empty() && report_.ids.empty()) return;
  Head("Tables and columns");
  if (!report_.tables.empty()) {
    Add("<h3>Tables of embeddings</h3>\n");
    HtmlTable table({"Table", "Rows", "Evicted", "Dim", "Size", "Mean norm", "Median norm",
                     "1 % of norms above"});
    for (const TableReport& one : report_.tables) {
      table.AddRow({Escaped(one.name), CountHtml(one.rows),
                    one.evicted ? CountHtml(*one.evicted) : "–", CountHtml(one.dim),
                    BytesText(static_cast<double>(one.bytes)), NumberHtml(one.mean_norm),
                    NumberHtml(one.median_norm), NumberHtml(one.high_norm)});
    }
    Add(table.Finish());
    Add("<p class=\"soft\">A table evicts rows that it has no room for, and rows whose "
        "time is over. Evicted rows count since the servers' start. The size has the state of the "
        "optimizer. Norms near 0 are rows that training has hardly changed.</p>\n");
  }
  if (!report_.ids.empty()) {
    Add("<h3>Ids of the rows</h3>\n");
    HtmlTable table({"Column", "Ids", "Without a row in the model", "Rows without an id"});
    for (const IdDrift& one : report_.ids) {
      table.AddRow({Escaped(one.column), CountHtml(one.ids), PercentHtml(one.unseen),
                    PercentHtml(one.empty)});
    }
    Add(table.Finish());
  }
  if (!report_.numbers.empty()) {
    Add("<h3>Numbers of the rows</h3>\n");
    HtmlTable table({"Column", "Mean", "Deviation", "Mean in training", "Deviation in training",
                     "Shift in deviations"});
    for (const NumberDrift& one : report_.numbers) {
      const std::string unknown = "–";
      table.AddRow({Escaped(one.column), NumberHtml(one.mean), NumberHtml(one.deviation),
                    one.is_fitted ? NumberHtml(one.training_mean) : unknown,
                    one.is_fitted ? NumberHtml(one.training_deviation) : unknown,
                    one.is_fitted ? NumberHtml(one.shift()) : unknown});
    }
    Add(table.Finish());
    Add("<p class=\"soft\">Numbers are as the network reads them, before scaling: with "
        "<code>transform: log1p</code> they are logarithms.</p>\n");
  }
}

void Page::Throughput() {
  const TrainingHistory& history = report_.history;
  ChartSeries speed{.name = "samples per second", .colour = 'a', .points = {}};
  ChartSeries waited{.name = "waiting", .colour = 'b', .points = {}};
  HtmlTable table({"Seconds", "Samples per second", "Waiting for embeddings", "Memory, MiB"});
  double waited_sum = 0;
  const auto points = Thinned(history.progress, kTableRows);
  for (const TrainingHistory::Progress& one : points) {
    if (std::isnan(one.seconds) || std::isnan(one.samples_per_s)) continue;
    table.AddRow({NumberHtml(one.seconds), NumberHtml(one.samples_per_s), PercentHtml(one.waited),
                  NumberHtml(one.memory_mib)});
    speed.points.push_back({one.seconds, one.samples_per_s,
                            absl::StrFormat("%.4g s: %s samples per second", one.seconds,
                                            NumberText(one.samples_per_s))});
    if (std::isnan(one.waited)) continue;
    waited_sum += one.waited;
    waited.points.push_back({one.seconds, one.waited,
                             absl::StrFormat("%.4g s: %s", one.seconds, PercentText(one.waited))});
  }
  if (speed.points.size() < 2) return;
  Head("Speed of the training");
  const TrainingHistory::Progress& last = history.progress.back();
  std::string text = absl::StrFormat(
      "%s took %s s for %s samples: %s a second, without evaluations.",
      report_.trial.empty() ? "Training" : "The first training", NumberText(last.seconds),
      NumberText(last.samples), NumberText(last.samples / last.seconds));
  if (!waited.points.empty()) {
    const double share = waited_sum / static_cast<double>(waited.points.size());
    absl::StrAppend(
        &text,
        absl::StrFormat(" It waited for embeddings for %s of the time, so that %s "
                        "bounded it.",
                        PercentText(share),
                        share > 0.4 ? "reading and embeddings" : "the network's computation"));
  }
  Add(Paragraph(text));
  std::string figures =
      Figure("Samples per second", "A dip is a pause, such as a checkpoint or a busy machine.",
             ChartSvg({.title = "Samples per second",
                       .x = {.title = "seconds of training"},
                       .y = {.title = "samples per second", .low = 0},
                       .series = {speed},
                       .marks = {}}),
             table);
  if (waited.points.size() > 1) {
    figures += Figure("Waiting for embeddings",
                      "The share of the time in which the network had nothing to compute.",
                      ChartSvg({.title = "Waiting for embeddings",
                                .x = {.title = "seconds of training"},
                                .y = {.title = "share", .low = 0, .high = 1, .is_percent = true},
                                .series = {waited},
                                .marks = {}}),
                      table);
  }
  Add(Plots(figures));
}

void Page::Configuration() {
  Head("Configuration and files");
  absl::StrAppend(&html_, "<p>", "Written by Simurgh ", Escaped(report_.version), ".</p>\n");
  std::string files = "<details><summary>Files of the checkpoint</summary>";
  HtmlTable table({"File", "Size"});
  for (const auto& [path, bytes] : report_.files) {
    table.AddRow({Escaped(path), BytesText(static_cast<double>(bytes))});
  }
  absl::StrAppend(&html_, files, table.Finish(), "</details>\n");
  if (report_.config.empty()) return;
  html_ +=
      "<details><summary>Keys of the configuration</summary><div class=\"wide\">"
      "<table class=\"texts\"><tbody>";
  for (const auto& [key, value] : report_.config) {
    absl::StrAppend(&html_, "<tr><th scope=\"row\">", Escaped(key), "</th><td>", Escaped(value),
                    "</td></tr>\n");
  }
  html_ += "</tbody></table></div></details>\n";
}

}  // namespace

std::string ReportPage(const Report& report) { return Page(report).Write(); }

}  // namespace simurgh
