#include "services/runtime/train_environment.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string TrainEnvironment::CodePath(const std::string& codes, size_t rank) {
  return absl::StrCat(codes, "/nn-worker-", rank, ".code");
}

std::string TrainEnvironment::ToText() const {
  return Json{{"config", config},
              {"overrides", overrides},
              {"resume", resume},
              {"result", result},
              {"codes", codes}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

StatusOr<std::optional<TrainEnvironment>> TrainEnvironment::Get() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  try {
    const Json json = Json::parse(text);
    return TrainEnvironment{.config = json.at("config"),
                            .overrides = json.at("overrides"),
                            .resume = json.at("resume"),
                            .result = json.at("result"),
                            .codes = json.at("codes")};
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable ", kVariable, ": ", error.what(),
                     "; unset it, or run the program by simurgh train CONFIG -- PROGRAM"));
  }
}

}  // namespace simurgh
