#pragma once

#include <limits>
#include <string>
#include <vector>

#include "report/interval.h"

namespace simurgh {

// Charts as SVG without scripts. Colours are classes of the page's style; each series also differs
// in its dashes or marks. Numbers are shown when the pointer is on them.

struct ChartPoint {
  double x = 0;
  double y = 0;            // NaN: no point.
  std::string title;       // Text that is shown for it; empty: none.
  Interval interval = {};  // A vertical line, if known.
};

struct ChartSeries {
  std::string name;
  char colour = 'a';  // a, b or c.
  bool has_line = true;
  bool has_marks = false;
  bool is_filled = false;  // The area below the line is filled.
  bool is_dashed = false;
  std::vector<ChartPoint> points;  // In the order of x if there is a line.
};

struct ChartAxis {
  std::string title;
  // Range; NaN: that of the points.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  bool is_percent = false;  // Values are shares.
};

// A vertical line at a place of the x axis.
struct ChartMark {
  double x = 0;
  std::string title;
  bool is_chosen = false;  // It stands out.
};

struct Chart {
  std::string title;  // Text for readers who do not see the chart.
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
  bool has_diagonal = false;  // A line where x equals y.
};

// Returns an element <svg> with lines and marks; empty without a point.
std::string ChartSvg(const Chart& chart);

struct ChartBar {
  std::string name;
  double value = 0;
  Interval interval;
  std::string title;
};

// Returns an element <svg> with horizontal bars, in order; empty without a bar.
// axis: title of the values.
std::string BarsSvg(const std::string& title, const std::string& axis,
                    const std::vector<ChartBar>& bars);

// Returns round numbers from low to high, about `count` of them. Requires low < high.
std::vector<double> TicksOf(double low, double high, int count);

}  // namespace simurgh
