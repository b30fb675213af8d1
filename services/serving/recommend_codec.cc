#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "data/reading/json_events.h"
#include "services/serving/recommend_request.h"

namespace simurgh {
namespace {

// The keys of a request besides its rows.
class RecommendKeys final : public OtherKeys {
 public:
  RecommendKeys(RecommendRequest& request, size_t max_texts)
      : request_(request), max_texts_(max_texts) {}

  Problems& problems() { return problems_; }
  const Status& too_many() const { return too_many_; }

  const char* names() const override { return "k, exclude, filter, candidates or rank"; }

  bool Takes(std::string_view key) override {
    static constexpr std::pair<const char*, Key1> kKeys[] = {{"k", Key1::kK},
                                                             {"exclude", Key1::kExclude},
                                                             {"filter", Key1::kFilter},
                                                             {"rank", Key1::kRank},
                                                             {"candidates", Key1::kCandidates}};
    for (const auto& [name, known] : kKeys) {
      if (key != name) continue;
      key_ = known;
      name_ = name;
      depth_ = 0;
      if (!seen_.insert(known).second) Refuse("is given twice");
      return true;
    }
    return false;
  }

  bool BeginObject() override {
    if (depth_ > 0 || key_ != Key1::kFilter) RefuseValue();
    ++depth_;
    return goes_on();
  }
  bool EndObject() override { return End(); }
  bool BeginArray() override {
    const size_t allowed = key_ == Key1::kExclude ? 0 : key_ == Key1::kFilter ? 1 : SIZE_MAX;
    if (depth_ != allowed) RefuseValue();
    ++depth_;
    return goes_on();
  }
  bool EndArray() override { return End(); }

  bool Key(std::string_view key) override {
    if (key_ == Key1::kFilter && depth_ == 1) request_.filters.push_back({std::string(key), {}});
    return goes_on();
  }

  bool Scalar(const JsonScalar& value) override {
    const bool is_text = value.kind == JsonScalar::Kind::kText;
    const bool is_number = value.kind == JsonScalar::Kind::kNumber;
    switch (key_) {
      case Key1::kK:
        return SetCount(value, &request_.k);
      case Key1::kCandidates:
        request_.candidates = 0;
        return SetCount(value, &*request_.candidates);
      case Key1::kRank:
        if (value.kind != JsonScalar::Kind::kBool || depth_ > 0) RefuseValue();
        request_.rank = value.text == "true";
        break;
      case Key1::kExclude:
        if (depth_ != 1 || !(is_text || is_number)) {
          RefuseValue();
        } else if (CountText()) {
          request_.exclude.emplace_back(value.text);
        }
        break;
      case Key1::kFilter:
        if (depth_ == 0 || !(is_text || is_number) || request_.filters.empty()) {
          RefuseValue();
        } else if (CountText()) {
          request_.filters.back().values.emplace_back(value.text);
        }
        break;
    }
    return goes_on();
  }

 private:
  enum class Key1 { kK, kExclude, kFilter, kCandidates, kRank };

  bool goes_on() const { return !problems_.full() && too_many_.ok(); }
  bool End() {
    --depth_;
    return goes_on();
  }
  void Refuse(const std::string& what) {
    problems_.Add(absl::StrCat(name_, ": ", what, "; correct or remove it"));
  }
  void RefuseValue() {
    switch (key_) {
      case Key1::kK:
      case Key1::kCandidates:
        return Refuse(absl::StrCat("is no whole number from 1 to ", RecommendRequest::kMost));
      case Key1::kExclude:
        return Refuse("is no array of ids, which are texts or numbers");
      case Key1::kFilter:
        return Refuse("is no object of columns, each with a text, a number or an array of them");
      case Key1::kRank:
        return Refuse("is neither true nor false");
    }
  }
  bool SetCount(const JsonScalar& value, uint32_t* to) {
    uint32_t count = 0;
    if (depth_ > 0 || value.kind != JsonScalar::Kind::kNumber ||
        !absl::SimpleAtoi(std::string(value.text), &count) || count == 0 ||
        count > RecommendRequest::kMost) {
      RefuseValue();
    } else {
      *to = count;
    }
    return goes_on();
  }
  bool CountText() {
    if (++texts_ <= max_texts_) return true;
    too_many_ = absl::OutOfRangeError(
        absl::StrCat("exclude and filter have more than ", max_texts_,
                     " values together; send fewer, or raise serving.max_body_bytes"));
    return false;
  }

  RecommendRequest& request_;
  const size_t max_texts_;
  Problems problems_;
  Status too_many_;
  Key1 key_ = Key1::kK;
  const char* name_ = "";
  std::set<Key1> seen_;
  size_t depth_ = 0;
  size_t texts_ = 0;
};

}  // namespace

StatusOr<RecommendRequest> DecodeRecommend(const RowFormat& users, const RequestLimits& limits,
                                           std::shared_ptr<RequestMemory> memory) {
  RecommendRequest request;
  RecommendKeys keys(request, limits.max_list_ids);
  RequestLimits strict = limits;
  strict.allows_bad_rows = false;
  StatusOr<PredictRequest> rows = DecodeV1(users, strict, std::move(memory), &keys);
  SIMURGH_RETURN_IF_ERROR(keys.too_many());
  if (!keys.problems().empty()) {
    const bool has_others = absl::IsInvalidArgument(rows.status()) && !keys.problems().full();
    return absl::InvalidArgumentError(
        has_others
            ? absl::StrCat(keys.problems().Text(), "\n", std::string(rows.status().message()))
            : keys.problems().Text());
  }
  SIMURGH_RETURN_IF_ERROR(rows.status());
  request.users = *std::move(rows);
  for (const std::string& id : request.exclude) request.users.cell_bytes += sizeof(id) + id.size();
  return request;
}

EncodedBody EncodeRecommend(const Recommendations& recommendations) {
  EncodedBody body;
  std::string& out = body.bytes;
  out = "{\"recommendations\":[";
  bool is_first_user = true;
  for (const Recommendations::OfUser& user : recommendations.users) {
    if (!std::exchange(is_first_user, false)) out.push_back(',');
    out += "{\"ids\":[";
    for (size_t i = 0; i < user.ids.size(); ++i) {
      if (i > 0) out.push_back(',');
      AppendJsonText(user.ids[i], out);
    }
    out += "],\"scores\":[";
    for (size_t i = 0; i < user.scores.size(); ++i) {
      if (i > 0) out.push_back(',');
      AppendJsonNumber(user.scores[i], out);
    }
    out += "]}";
  }
  absl::StrAppend(&out, "],\"model_version\":\"", recommendations.step, "\"");
  if (recommendations.rank_step) {
    absl::StrAppend(&out, ",\"rank_model_version\":\"", *recommendations.rank_step, "\"");
  }
  out.push_back('}');
  return body;
}

}  // namespace simurgh
