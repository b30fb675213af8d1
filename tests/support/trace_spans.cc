#include "tests/support/trace_spans.h"

#include <cmath>

#include <boost/property_tree/json_parser.hpp>

namespace simurgh::testing {

std::map<std::string, TraceSpans> ReadTrace(std::istream& json) {
  boost::property_tree::ptree root;
  boost::property_tree::read_json(json, root);
  std::map<std::string, TraceSpans> spans;
  for (const auto& [key, event] : root.get_child("traceEvents")) {
    if (event.get<std::string>("ph") != "X") continue;
    const auto step = event.get_optional<uint64_t>("args.step");
    if (!step) continue;
    const int64_t begin = std::llround(event.get<double>("ts") * 1000);
    spans[event.get<std::string>("name")][*step].push_back(
        {begin, begin + std::llround(event.get<double>("dur") * 1000)});
  }
  return spans;
}

}  // namespace simurgh::testing
