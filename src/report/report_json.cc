#include "report/report_json.h"

#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOf(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json NumbersOf(const std::vector<double>& values) {
  Json all = Json::array();
  for (const double value : values) all.push_back(NumberOf(value));
  return all;
}

Json NumbersOf(const std::map<std::string, double>& values) {
  Json all = Json::object();
  for (const auto& [name, value] : values) all[name] = NumberOf(value);
  return all;
}

Json IntervalOf(const Interval& interval) {
  if (!interval.is_known()) return {};
  return Json::array({NumberOf(interval.low), NumberOf(interval.high)});
}

template <typename T, typename ToJson>
Json ListOf(const std::vector<T>& all, const ToJson& to_json) {
  Json list = Json::array();
  for (const T& one : all) list.push_back(to_json(one));
  return list;
}

Json MetricsJson(const Metrics& metrics, LossConfig::Kind kind) {
  Json json = Json::object();
  if (IsRegression(kind)) {
    json["rmse"] = NumberOf(metrics.rmse);
    json["constant_rmse"] = NumberOf(metrics.constant_rmse);
  } else {
    json["auc"] = NumberOf(metrics.auc);
    json["log_loss"] = NumberOf(metrics.log_loss);
    json["constant_log_loss"] = NumberOf(metrics.constant_log_loss);
  }
  json["calibration"] = NumberOf(metrics.calibration);
  return json;
}

Json IntervalsJson(const MetricIntervals& intervals, LossConfig::Kind kind) {
  Json json = Json::object();
  if (IsRegression(kind)) {
    json["rmse"] = IntervalOf(intervals.rmse);
  } else {
    json["auc"] = IntervalOf(intervals.auc);
    json["log_loss"] = IntervalOf(intervals.log_loss);
  }
  json["calibration"] = IntervalOf(intervals.calibration);
  json["gain"] = IntervalOf(intervals.gain);
  return json;
}

Json PointJson(const OperatingPoint& point) {
  return {{"threshold", NumberOf(point.threshold)},
          {"share", NumberOf(point.share)},
          {"recall", NumberOf(point.recall)},
          {"fall_out", NumberOf(point.fall_out)},
          {"precision", NumberOf(point.precision)}};
}

Json CountsJson(const BinnedCounts& counts) {
  Json json = {{"low", NumberOf(counts.low)},
               {"width", NumberOf(counts.width)},
               {"first", NumbersOf(counts.first)}};
  if (!counts.second.empty()) json["second"] = NumbersOf(counts.second);
  return json;
}

Json LabelJson(const LabelReport& label) {
  Json json = {{"label", label.label},
               {"loss", NameOf(label.kind)},
               {"rows", label.rows},
               {"mean_label", NumberOf(label.mean_label)},
               {"mean_prediction", NumberOf(label.mean_prediction)}};
  if (!label.is_regression()) json["positives"] = label.positives;
  json["metrics"] = MetricsJson(label.metrics, label.kind);
  json["intervals"] = IntervalsJson(label.intervals, label.kind);
  json["deciles"] = ListOf(label.deciles, [](const PredictionBin& bin) {
    return Json{{"rows", bin.rows},
                {"lowest", NumberOf(bin.lowest)},
                {"highest", NumberOf(bin.highest)},
                {"prediction", NumberOf(bin.prediction)},
                {"label", NumberOf(bin.label)},
                {"interval", IntervalOf(bin.interval)},
                {"low_label", NumberOf(bin.low_label)},
                {"high_label", NumberOf(bin.high_label)}};
  });
  if (label.residuals) {
    const Residuals& residuals = *label.residuals;
    json["residuals"] = {{"mean", NumberOf(residuals.mean)},
                         {"mean_absolute", NumberOf(residuals.mean_absolute)},
                         {"r_squared", NumberOf(residuals.r_squared)},
                         {"percentiles", NumbersOf(residuals.percentiles)},
                         {"histogram", CountsJson(residuals.histogram)}};
    return json;
  }
  json["scores"] = CountsJson(label.scores);
  if (label.curves.points.empty()) return json;
  json["average_precision"] = NumberOf(label.curves.average_precision);
  json["curve"] = ListOf(label.curves.points, PointJson);
  json["thresholds"] = ListOf(label.curves.choices, PointJson);
  return json;
}

Json EffectJson(const PermutationEffect& effect) {
  if (std::isnan(effect.mean)) return {};
  return {{"mean", NumberOf(effect.mean)},
          {"standard_error", NumberOf(effect.standard_error)},
          {"interval", IntervalOf(effect.interval)}};
}

Json ImportanceJsonOf(const Importance& importance, const std::vector<std::string>& labels) {
  Json json = {{"rows", importance.rows}, {"repeats", importance.repeats}};
  json["labels"] = Json::array();
  for (size_t label = 0; label < labels.size(); ++label) {
    const Metrics& metrics = importance.metrics[label];
    const bool is_regression = std::isnan(metrics.log_loss);
    json["labels"].push_back({{"label", labels[label]},
                              {"metric", is_regression ? "rmse" : "log_loss"},
                              {"auc", NumberOf(metrics.auc)},
                              {"loss", NumberOf(is_regression ? metrics.rmse : metrics.log_loss)}});
  }
  json["columns"] = ListOf(importance.columns, [&](const ColumnImportance& column) {
    Json one = {{"columns", column.columns}};
    one["effects"] = Json::array();
    for (size_t label = 0; label < column.effects.size(); ++label) {
      one["effects"].push_back({{"label", labels[label]},
                                {"loss_increase", EffectJson(column.effects[label].loss)},
                                {"auc_decrease", EffectJson(column.effects[label].auc)}});
    }
    return one;
  });
  return json;
}

Json HistoryJson(const TrainingHistory& history) {
  Json json = Json::object();
  json["progress"] = ListOf(history.progress, [](const TrainingHistory::Progress& one) {
    return Json{{"step", one.step},
                {"epoch", NumberOf(one.epoch)},
                {"seconds", NumberOf(one.seconds)},
                {"samples", NumberOf(one.samples)},
                {"loss", NumberOf(one.loss)},
                {"auc", NumberOf(one.auc)},
                {"rmse", NumberOf(one.rmse)},
                {"samples_per_s", NumberOf(one.samples_per_s)},
                {"skipped_steps", NumberOf(one.skipped_steps)},
                {"waited", NumberOf(one.waited)},
                {"memory_mib", NumberOf(one.memory_mib)},
                {"rate", NumberOf(one.rate)},
                {"table_rates", NumbersOf(one.table_rates)}};
  });
  json["evaluations"] = ListOf(history.evaluations, [](const TrainingHistory::Evaluation& one) {
    return Json{{"event", one.is_test ? "test" : "validation"},
                {"step", one.step},
                {"metrics", NumbersOf(one.metrics)}};
  });
  json["checkpoints"] = ListOf(history.saves, [](const TrainingHistory::Save& one) {
    return Json{{"step", one.step},
                {"seconds", NumberOf(one.seconds)},
                {"bytes", NumberOf(one.bytes)},
                {"rows", NumbersOf(one.rows)},
                {"evicted", NumbersOf(one.evicted)}};
  });
  if (history.end) {
    json["end"] = {{"step", history.end->step}, {"reason", history.end->reason}};
    if (history.end->best_step) json["end"]["best_step"] = *history.end->best_step;
  }
  return json;
}

std::vector<std::string> NamesOf(const std::vector<LabelReport>& labels) {
  std::vector<std::string> names;
  for (const LabelReport& label : labels) names.push_back(label.label);
  return names;
}

Json InputJson(const InputReport& input) {
  return {{"name", input.name},
          {"rows", input.rows},
          {"bad_rows", input.bad_rows},
          {"sampled_rows", input.sampled_rows},
          {"has_labels", input.has_labels},
          {"has_weights", input.has_weights},
          {"bootstrap_unit", input.has_groups ? "group" : "row"},
          {"unseen_ids", NumberOf(input.unseen_ids)}};
}

Json SegmentsJson(const SegmentsReport& segments, const std::vector<LabelReport>& labels) {
  Json json = {{"column", segments.column}, {"are_lower_bounds", segments.has_dropped}};
  json["segments"] = ListOf(segments.segments, [&](const SegmentReport& segment) {
    Json one = {{"name", segment.name}, {"is_rest", segment.is_rest}, {"rows", segment.rows}};
    one["labels"] = Json::array();
    for (size_t label = 0; label < segment.labels.size() && label < labels.size(); ++label) {
      const SegmentReport::OfLabel& of = segment.labels[label];
      one["labels"].push_back({{"label", labels[label].label},
                               {"rows", of.rows},
                               {"mean_label", NumberOf(of.mean_label)},
                               {"mean_prediction", NumberOf(of.mean_prediction)},
                               {"metrics", MetricsJson(of.metrics, labels[label].kind)}});
    }
    return one;
  });
  return json;
}

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ImportanceJson(const Importance& importance, const std::vector<std::string>& labels) {
  return TextOf(ImportanceJsonOf(importance, labels));
}

std::string ReportJson(const Report& report) {
  Json json = {{"model", report.folder},
               {"version", report.version},
               {"step", report.step},
               {"samples", report.samples},
               {"step_time", NumberOf(report.step_time)},
               {"headline", report.headline},
               {"course", report.course}};
  json["findings"] = ListOf(report.findings, [](const Finding& finding) {
    return Json{{"id", finding.id},
                {"what", finding.what},
                {"evidence", finding.evidence},
                {"remedy", finding.remedy},
                {"command", finding.command}};
  });
  if (report.input) json["input"] = InputJson(*report.input);
  if (!report.input_problem.empty()) json["input_problem"] = report.input_problem;
  json["labels"] = ListOf(report.labels, LabelJson);
  if (report.ranking) {
    Json& ranking =
        json["ranking"] = {{"users", report.ranking->users},
                           {"items", report.ranking->items},
                           {"unknown_items", report.ranking->unknown_items},
                           {"popular_recall", NumberOf(report.ranking->popular_recall)}};
    ranking["metrics"] = Json::object();
    for (const RankingReport::Metric& metric : report.ranking->metrics) {
      ranking["metrics"][metric.name] = {{"value", NumberOf(metric.value)},
                                         {"interval", IntervalOf(metric.interval)}};
    }
  }
  if (!report.unlabelled.empty()) {
    json["unlabelled"] = ListOf(report.unlabelled, [](const PredictionSummary& summary) {
      return Json{{"label", summary.label},
                  {"mean", NumberOf(summary.mean)},
                  {"percentiles", NumbersOf(summary.percentiles)},
                  {"histogram", CountsJson(summary.histogram)}};
    });
  }
  json["history"] = HistoryJson(report.history);
  if (!report.trial.empty()) json["history_of"] = report.trial;
  if (report.importance) {
    json["importance"] = ImportanceJsonOf(*report.importance, NamesOf(report.labels));
  }
  json["segments"] = ListOf(report.segments, [&](const SegmentsReport& segments) {
    return SegmentsJson(segments, report.labels);
  });
  json["tables"] = ListOf(report.tables, [](const TableReport& table) {
    Json one = {{"name", table.name},
                {"dim", table.dim},
                {"rows", table.rows},
                {"bytes", table.bytes},
                {"mean_norm", NumberOf(table.mean_norm)},
                {"median_norm", NumberOf(table.median_norm)},
                {"high_norm", NumberOf(table.high_norm)}};
    if (table.evicted) one["evicted"] = *table.evicted;
    return one;
  });
  json["numbers"] = ListOf(report.numbers, [](const NumberDrift& drift) {
    Json one = {{"column", drift.column},
                {"mean", NumberOf(drift.mean)},
                {"deviation", NumberOf(drift.deviation)}};
    if (!drift.is_fitted) return one;
    one["training_mean"] = NumberOf(drift.training_mean);
    one["training_deviation"] = NumberOf(drift.training_deviation);
    one["shift"] = NumberOf(drift.shift());
    return one;
  });
  json["ids"] = ListOf(report.ids, [](const IdDrift& drift) {
    return Json{{"column", drift.column},
                {"unseen", NumberOf(drift.unseen)},
                {"empty", NumberOf(drift.empty)},
                {"ids", drift.ids}};
  });
  if (report.compared) {
    Json& other =
        json["compared"] = {{"model", report.compared->folder}, {"step", report.compared->step}};
    other["labels"] = Json::array();
    for (size_t label = 0; label < report.compared->labels.size(); ++label) {
      const LabelReport& of = report.compared->labels[label];
      other["labels"].push_back(
          {{"label", of.label},
           {"metrics", MetricsJson(of.metrics, of.kind)},
           {"intervals", IntervalsJson(of.intervals, of.kind)},
           {"differences", IntervalsJson(report.compared->differences[label], of.kind)}});
    }
  }
  json["config"] = Json::object();
  for (const auto& [key, value] : report.config) json["config"][key] = value;
  json["files"] = ListOf(report.files, [](const auto& file) {
    return Json{{"path", file.first}, {"bytes", file.second}};
  });
  return TextOf(json);
}

}  // namespace simurgh
