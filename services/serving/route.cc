#include "services/serving/route.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

using Kind = Route::Kind;

constexpr std::string_view kPredict = ":predict";

// Nothing for a malformed text.
std::optional<std::string> Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    uint32_t byte = 0;
    if (i + 2 >= text.size() || !absl::SimpleHexAtoi(std::string(text.substr(i + 1, 2)), &byte)) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(byte));
    i += 2;
  }
  return out;
}

Kind KindOf(bool is_v1, bool predicts, const std::vector<std::string>& rest) {
  if (is_v1) return !rest.empty() ? Kind::kUnknown : predicts ? Kind::kPredict : Kind::kStatus;
  if (rest.empty()) return Kind::kModel;
  if (rest.size() > 1) return Kind::kUnknown;
  if (rest[0] == "ready") return Kind::kModelReady;
  if (rest[0] == "config") return Kind::kModelConfig;
  return rest[0] == "infer" ? Kind::kInfer : Kind::kUnknown;
}

}  // namespace

const char* Route::name() const {
  switch (kind) {
    case Kind::kInfer:
      return "infer";
    case Kind::kPredict:
      return "predict";
    case Kind::kLive:
    case Kind::kReady:
    case Kind::kModelReady:
      return "health";
    case Kind::kServer:
    case Kind::kModel:
    case Kind::kModelConfig:
    case Kind::kStatus:
      return "metadata";
    case Kind::kUnknown:
      break;
  }
  return "other";
}

Route ParseRoute(std::string_view target) {
  Route route;
  target = target.substr(0, target.find('?'));
  if (!target.starts_with('/')) return route;
  target.remove_prefix(1);
  if (target.ends_with('/')) target.remove_suffix(1);
  std::vector<std::string> parts = absl::StrSplit(std::string(target), '/');
  const bool is_v1 = parts[0] == "v1";
  if (!is_v1 && parts[0] != "v2") return route;
  if (!is_v1 && parts.size() == 1) route.kind = Kind::kServer;
  if (!is_v1 && parts.size() == 3 && parts[1] == "health") {
    route.kind = parts[2] == "live"    ? Kind::kLive
                 : parts[2] == "ready" ? Kind::kReady
                                       : Kind::kUnknown;
  }
  if (parts.size() < 3 || parts[1] != "models") return route;
  const bool predicts = is_v1 && parts.back().ends_with(kPredict);
  if (predicts) parts.back().resize(parts.back().size() - kPredict.size());
  std::optional<std::string> model = Unescaped(parts[2]);
  if (!model || model->empty()) return route;
  size_t used = 3;
  if (parts.size() > 3 && parts[3] == "versions") {
    uint64_t step = 0;
    if (parts.size() == 4 || !absl::SimpleAtoi(parts[4], &step)) return route;
    route.step = step;
    used = 5;
  }
  route.model = *std::move(model);
  route.kind = KindOf(is_v1, predicts, {parts.begin() + static_cast<ptrdiff_t>(used), parts.end()});
  return route;
}

}  // namespace simurgh
