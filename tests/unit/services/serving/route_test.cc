#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "services/serving/predict_api.h"

namespace simurgh {

using Kind = Route::Kind;

TEST_CASE("paths name what a request is about", "[serving]") {
  const std::vector<std::tuple<std::string, Kind, std::string, std::optional<uint64_t>>> cases = {
      {"/v2", Kind::kServer, "", {}},
      {"/v2/", Kind::kServer, "", {}},
      {"/v2?x=1", Kind::kServer, "", {}},
      {"/v2/health/live", Kind::kLive, "", {}},
      {"/v2/health/ready", Kind::kReady, "", {}},
      {"/v2/models/m", Kind::kModel, "m", {}},
      {"/v2/models/a%20b%2Fc", Kind::kModel, "a b/c", {}},
      {"/v2/models/m/versions/7", Kind::kModel, "m", 7},
      {"/v2/models/m/ready", Kind::kModelReady, "m", {}},
      {"/v2/models/m/versions/7/ready", Kind::kModelReady, "m", 7},
      {"/v2/models/m/config", Kind::kModelConfig, "m", {}},
      {"/v2/models/m/infer", Kind::kInfer, "m", {}},
      {"/v2/models/m/versions/7/infer", Kind::kInfer, "m", 7},
      {"/v1/models/m", Kind::kStatus, "m", {}},
      {"/v1/models/m/versions/7", Kind::kStatus, "m", 7},
      {"/v1/models/m:predict", Kind::kPredict, "m", {}},
      {"/v1/models/m/versions/7:predict", Kind::kPredict, "m", 7},
      {"/v1/models/m:recommend", Kind::kRecommend, "m", {}},
      {"/v1/models/m/versions/7:recommend", Kind::kRecommend, "m", 7},
      {"/v1/models/m%3Apredict", Kind::kPredict, "m", {}},
      {"/v1/models/m/versions/7%3Apredict", Kind::kPredict, "m", 7},
      {"/v1/m%6fdels/%6d:predict", Kind::kPredict, "m", {}},
      {"/v1/models/m:2:predict", Kind::kPredict, "m:2", {}},
      {"/v1/models/m:2", Kind::kStatus, "m:2", {}},
  };
  for (const auto& [target, kind, model, step] : cases) {
    INFO(target);
    const Route route = ParseRoute(target);
    CHECK(route.kind == kind);
    CHECK(route.model == model);
    CHECK(route.step == step);
  }
}

TEST_CASE("other paths are unknown", "[serving]") {
  for (const std::string target : {"",
                                   "v2",
                                   "/",
                                   "/v3",
                                   "/v1",
                                   "/v2/health",
                                   "/v2/health/x",
                                   "/v2/models",
                                   "/v2/models/",
                                   "/v2/models/m/stats",
                                   "/v2/models/m/infer/x",
                                   "/v2/models/m/versions",
                                   "/v2/models/m/versions/x",
                                   "/v2/models/m/versions/-1/infer",
                                   "/v2/models/m:predict",
                                   "/v1/models/m/infer",
                                   "/v1/models/:predict",
                                   "/v1/models/m/x:predict",
                                   "/v1/models/m/versions/7:classify",
                                   "/v2/models/%2",
                                   "/v2/models/%zz",
                                   "/v2/models/m%",
                                   "/v2/models/m/versions/7/versions/8"}) {
    INFO(target);
    CHECK((ParseRoute(target).kind == Kind::kUnknown || ParseRoute(target).model == "m:predict"));
  }
}

}  // namespace simurgh
