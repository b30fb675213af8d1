#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "report/html.h"

namespace simurgh {
namespace {

// Sizes in units of the SVG, which are pixels on a narrow screen.
constexpr double kWidth = 360;
constexpr double kHeight = 236;
constexpr double kLeft = 62;
constexpr double kRight = 18;
constexpr double kTop = 10;
constexpr double kBottom = 38;

// Points with a text that is shown on hover; more would be too close to each other.
constexpr size_t kMostTitles = 80;

constexpr size_t kMostNameBytes = 18;

bool IsPoint(const ChartPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

std::string Coordinate(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string TickText(double value, bool is_percent) {
  if (is_percent) return absl::StrFormat("%.3g %%", 100 * value);
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%.4gG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%.4gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.4gk", value / 1e3);
  return absl::StrFormat("%.4g", value);
}

struct Range {
  double low;
  double high;
};

// Returns the range of an axis: not empty, and with a margin where the points decide.
Range RangeOf(const ChartAxis& axis, const std::vector<double>& values) {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  for (const double value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double margin = 0.04 * (high - low);
  low = std::isnan(axis.low) ? low - margin : axis.low;
  high = std::isnan(axis.high) ? high + margin : axis.high;
  if (!(high > low)) {
    const double reach = std::max(1e-6, std::abs(low) * 0.1);
    low -= reach;
    high += reach;
  }
  return {low, high};
}

// Begins an <svg> with a title for readers who do not see it.
std::string Begin(const std::string& title, double height) {
  return absl::StrCat("<svg viewBox=\"0 0 ", Coordinate(kWidth), " ", Coordinate(height),
                      "\" role=\"img\" aria-label=\"", Escaped(title), "\">");
}

std::string TitleOf(const std::string& text) {
  return text.empty() ? "" : absl::StrCat("<title>", Escaped(text), "</title>");
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const char* more = "") {
  return absl::StrCat("<text x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\" text-anchor=\"",
                      anchor, "\"", more, ">", Escaped(text), "</text>");
}

std::string Line(const char* kind, double x1, double y1, double x2, double y2,
                 const std::string& title = "") {
  return absl::StrCat("<line class=\"", kind, "\" x1=\"", Coordinate(x1), "\" y1=\"",
                      Coordinate(y1), "\" x2=\"", Coordinate(x2), "\" y2=\"", Coordinate(y2), "\">",
                      TitleOf(title), "</line>");
}

}  // namespace

std::vector<double> TicksOf(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / power;
  const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + 1e-9 * step; ++i) ticks.push_back(i * step + 0.0);
  return ticks;
}

std::string ChartSvg(const Chart& chart) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!IsPoint(point)) continue;
      xs.push_back(point.x);
      ys.push_back(point.y);
      if (point.interval.is_known()) ys.insert(ys.end(), {point.interval.low, point.interval.high});
    }
  }
  if (xs.empty()) return "";
  const Range of_x = RangeOf(chart.x, xs);
  const Range of_y = RangeOf(chart.y, ys);
  const double bottom = kHeight - kBottom;
  const auto x = [&](double value) {
    return kLeft + (value - of_x.low) / (of_x.high - of_x.low) * (kWidth - kLeft - kRight);
  };
  const auto y = [&](double value) {
    return bottom - (value - of_y.low) / (of_y.high - of_y.low) * (bottom - kTop);
  };
  std::string svg = Begin(chart.title, kHeight);
  for (const double tick : TicksOf(of_y.low, of_y.high, 5)) {
    svg += Line("grid", kLeft, y(tick), kWidth - kRight, y(tick));
    svg += Text(kLeft - 5, y(tick) + 3.5, "end", TickText(tick, chart.y.is_percent));
  }
  for (const double tick : TicksOf(of_x.low, of_x.high, 5)) {
    svg += Line("grid", x(tick), kTop, x(tick), bottom);
    svg += Text(x(tick), bottom + 14, "middle", TickText(tick, chart.x.is_percent));
  }
  svg += Text((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", chart.x.title);
  svg += Text(
      11, (kTop + bottom) / 2, "middle", chart.y.title,
      absl::StrCat(" transform=\"rotate(-90 11 ", Coordinate((kTop + bottom) / 2), ")\"").c_str());
  for (const ChartMark& mark : chart.marks) {
    if (mark.x < of_x.low || mark.x > of_x.high) continue;
    svg += Line(mark.is_chosen ? "mark chosen" : "mark", x(mark.x), kTop, x(mark.x), bottom,
                mark.title);
  }
  if (chart.has_diagonal) {
    const double low = std::max(of_x.low, of_y.low);
    const double high = std::min(of_x.high, of_y.high);
    if (low < high) svg += Line("ideal", x(low), y(low), x(high), y(high));
  }
  for (const ChartSeries& series : chart.series) {
    std::string path;
    std::string first;
    std::string last;
    for (const ChartPoint& point : series.points) {
      if (!IsPoint(point)) continue;
      absl::StrAppend(&path, path.empty() ? "M" : "L", Coordinate(x(point.x)), " ",
                      Coordinate(y(point.y)));
      last = Coordinate(x(point.x));
      if (first.empty()) first = last;
    }
    const std::string colour(1, series.colour);
    if (series.is_filled && !path.empty()) {
      const std::string base = Coordinate(y(std::max(of_y.low, 0.0)));
      absl::StrAppend(&svg, "<path class=\"area ", colour, "\" d=\"", path, "L", last, " ", base,
                      "L", first, " ", base, "Z\"/>");
    }
    if (series.has_line && !path.empty()) {
      absl::StrAppend(&svg, "<path class=\"line ", colour, series.is_dashed ? " dashed" : "",
                      "\" d=\"", path, "\"/>");
    }
    const size_t step = series.points.size() / kMostTitles + 1;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const ChartPoint& point = series.points[i];
      if (!IsPoint(point)) continue;
      if (point.interval.is_known()) {
        svg += Line(absl::StrCat("whisker ", colour).c_str(), x(point.x), y(point.interval.low),
                    x(point.x), y(point.interval.high));
      }
      const bool has_title = !point.title.empty() && i % step == 0;
      if (!series.has_marks && !has_title) continue;
      absl::StrAppend(&svg, "<circle class=\"", series.has_marks ? "dot " : "spot ", colour,
                      "\" cx=\"", Coordinate(x(point.x)), "\" cy=\"", Coordinate(y(point.y)),
                      "\" r=\"", series.has_marks ? "3.5" : "6", "\">",
                      TitleOf(has_title ? point.title : ""), "</circle>");
    }
  }
  svg += "</svg>\n";
  if (chart.series.size() < 2) return svg;
  std::string legend = "<p class=\"legend\">";
  for (const ChartSeries& series : chart.series) {
    absl::StrAppend(&legend,
                    "<span><svg viewBox=\"0 0 22 10\" class=\"key\" aria-hidden=\"true\">");
    const std::string colour(1, series.colour);
    if (series.has_line) {
      absl::StrAppend(&legend, "<path class=\"line ", colour, series.is_dashed ? " dashed" : "",
                      "\" d=\"M1 5L21 5\"/>");
    }
    if (series.has_marks) {
      absl::StrAppend(&legend, "<circle class=\"dot ", colour, "\" cx=\"11\" cy=\"5\" r=\"3.5\"/>");
    }
    absl::StrAppend(&legend, "</svg>", Escaped(series.name), "</span>");
  }
  return svg + legend + "</p>\n";
}

std::string BarsSvg(const std::string& title, const std::string& axis,
                    const std::vector<ChartBar>& bars) {
  if (bars.empty()) return "";
  constexpr double kRow = 19;
  constexpr double kNames = 112;
  std::vector<double> values{0};
  for (const ChartBar& bar : bars) {
    if (std::isfinite(bar.value)) values.push_back(bar.value);
    if (bar.interval.is_known()) values.insert(values.end(), {bar.interval.low, bar.interval.high});
  }
  const Range range = RangeOf({.title = {}}, values);
  const auto x = [&](double value) {
    return kNames + (value - range.low) / (range.high - range.low) * (kWidth - kNames - kRight);
  };
  const double bottom = kTop + kRow * static_cast<double>(bars.size());
  std::string svg = Begin(title, bottom + kBottom);
  for (const double tick : TicksOf(range.low, range.high, 4)) {
    svg += Line("grid", x(tick), kTop, x(tick), bottom);
    svg += Text(x(tick), bottom + 14, "middle", TickText(tick, /*is_percent=*/false));
  }
  svg += Text((kNames + kWidth - kRight) / 2, bottom + kBottom - 6, "middle", axis);
  for (size_t i = 0; i < bars.size(); ++i) {
    const ChartBar& bar = bars[i];
    const double top = kTop + kRow * static_cast<double>(i);
    const double middle = top + kRow / 2;
    std::string name = bar.name;
    if (name.size() > kMostNameBytes) {
      size_t end = kMostNameBytes - 2;
      while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
      name = name.substr(0, end) + "…";
    }
    absl::StrAppend(&svg, "<g>", TitleOf(bar.title));
    svg += Text(kNames - 6, middle + 3.5, "end", name);
    if (std::isfinite(bar.value)) {
      const double left = std::min(x(0), x(bar.value));
      absl::StrAppend(&svg, "<rect class=\"bar a\" x=\"", Coordinate(left), "\" y=\"",
                      Coordinate(top + 4), "\" width=\"", Coordinate(std::abs(x(bar.value) - x(0))),
                      "\" height=\"", Coordinate(kRow - 8), "\"/>");
    }
    if (bar.interval.is_known()) {
      svg += Line("whisker ink", x(bar.interval.low), middle, x(bar.interval.high), middle);
    }
    svg += "</g>";
  }
  svg += Line("ideal", x(0), kTop, x(0), bottom);
  return svg + "</svg>\n";
}

}  // namespace simurgh
