#include "model/json.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr int kMaxDepth = 8;

}  // namespace

StatusOr<Json> ParseJsonObject(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // The keys of each object around the parser's position.
  std::string repeated;
  bool is_deep = false;
  const auto check_event = [&](int depth, Json::parse_event_t event, Json& value) {
    // Json writes and copies by recursion.
    if (depth > kMaxDepth) is_deep = true;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return !is_deep;
  };
  try {
    Json parsed = Json::parse(text, check_event);
    if (is_deep) return absl::DataLossError("the JSON text is nested too deeply");
    if (!parsed.is_object()) return absl::DataLossError("the text is not a JSON object");
    if (!repeated.empty()) return absl::DataLossError(absl::StrCat(repeated, ": the key repeats"));
    return parsed;
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at ..."
    const std::string what = error.what();
    return absl::DataLossError("the text is not JSON: " + what.substr(what.find(']') + 2));
  }
}

std::string JsonText(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace simurgh
