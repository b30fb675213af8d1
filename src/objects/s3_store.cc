#include "objects/s3_store.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "objects/credentials.h"
#include "objects/web_client.h"
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "config/uri.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;
using Xml = boost::property_tree::ptree;
using Query = std::map<std::string, std::string>;

constexpr int kOk = 200;
constexpr int kNotModified = 304;
constexpr int kMovedPermanently = 301;
constexpr int kBadRequest = 400;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kRequestTimeout = 408;
constexpr int kConflict = 409;
constexpr int kPreconditionFailed = 412;
constexpr int kRangeNotSatisfiable = 416;
constexpr int kTooManyRequests = 429;
constexpr int kServerErrors = 500;
constexpr int kNotImplemented = 501;

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{3'000};
constexpr std::chrono::seconds kSilentFor{5};  // Shorter trouble is not logged.
constexpr std::chrono::seconds kStoreStallTimeout{10};
constexpr uint64_t kMaxReadBytes = uint64_t{8} << 20;  // Largest part of an object in one request.

// Where the objects are, and how they are named in requests.
struct Place {
  std::string bucket;
  std::string prefix;    // Empty, or ends in a slash.
  std::string endpoint;  // "https://host[:port]"; empty: Amazon's, which depends on the region.
  std::string region;
  std::string uri;  // Without options and a slash at the end.
};

std::string FromEnvironment(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

StatusOr<Place> ParsePlace(const std::string& uri) {
  SIMURGH_ASSIGN_OR_RETURN(BucketAddress address, ParseBucketPath(uri));
  Place place{.bucket = address.bucket,
              .prefix = address.key + "/",
              .endpoint = address.options["endpoint_override"],
              .region = address.options["region"],
              .uri = absl::StrCat("s3://", address.bucket, "/", address.key)};
  if (place.endpoint.empty()) {
    place.endpoint = FromEnvironment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  }
  while (place.endpoint.ends_with('/')) place.endpoint.pop_back();
  if (!place.endpoint.empty() && place.endpoint.find("://") == std::string::npos) {
    const std::string& scheme = address.options["scheme"];
    place.endpoint = absl::StrCat(scheme.empty() ? "https" : scheme, "://", place.endpoint);
  }
  if (place.region.empty()) place.region = ConfiguredRegion();
  if (place.region.empty()) place.region = "us-east-1";
  return place;
}

StatusOr<Xml> ParseXml(const std::string& text) {
  Xml xml;
  std::istringstream in(text);
  try {
    boost::property_tree::read_xml(in, xml, boost::property_tree::xml_parser::trim_whitespace);
  } catch (const boost::property_tree::xml_parser_error&) {
    return absl::FailedPreconditionError(
        "the answer is not XML; check endpoint_override or AWS_ENDPOINT_URL");
  }
  return xml;
}

// Returns the text of an element below the first one; empty for none.
std::string TextIn(const Xml& xml, const char* name) {
  return xml.empty() ? "" : xml.front().second.get<std::string>(name, "");
}

bool IsForLater(int status) {
  return status == kRequestTimeout || status == kTooManyRequests ||
         (status >= kServerErrors && status != kNotImplemented);
}

class S3Store : public ObjectStore {
 public:
  S3Store(Place place, std::unique_ptr<WebClient> web, std::chrono::milliseconds tries_for)
      : place_(std::move(place)),
        tries_for_(tries_for),
        web_(std::move(web)),
        credentials_(*web_),
        region_(place_.region) {}

  std::string NameOf(std::string_view key) const override {
    return absl::StrCat(place_.uri, key.empty() ? "" : "/", std::string(key));
  }

  StatusOr<std::optional<Object>> Get(std::string_view key, uint64_t max_bytes,
                                      std::string_view known_tag) override {
    Request request{.key = key};
    if (!known_tag.empty()) request.headers.emplace_back("If-None-Match", known_tag);
    request.headers.emplace_back("Range", absl::StrCat("bytes=0-", max_bytes - 1));
    SIMURGH_ASSIGN_OR_RETURN(WebAnswer answer, Send(request));
    if (answer.status == kNotModified) return std::nullopt;
    Object object{.bytes = {}, .tag = answer.headers["etag"]};
    // There is no first byte of an empty object.
    if (answer.status == kRangeNotSatisfiable) return object;
    SIMURGH_RETURN_IF_ERROR(Check(request, answer));
    object.bytes = std::move(answer.body);
    object.whole = object.bytes.size();
    // "bytes 0-99/1234"
    const std::string& range = answer.headers["content-range"];
    const size_t slash = range.find('/');
    if (slash != range.npos && !absl::SimpleAtoi(range.substr(slash + 1), &object.whole)) {
      return absl::UnavailableError(
          absl::StrCat(NameOf(key), ": the store did not tell the size of the object"));
    }
    return object;
  }

  Status Read(std::string_view key, std::string_view tag, uint64_t offset,
              std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const uint64_t size = std::min<uint64_t>(bytes.size(), kMaxReadBytes);
      Request request{.key = key};
      request.headers.emplace_back("Range", absl::StrCat("bytes=", offset, "-", offset + size - 1));
      if (!tag.empty()) request.headers.emplace_back("If-Match", tag);
      SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
      if (answer.status == kPreconditionFailed) {
        return absl::AbortedError(
            absl::StrCat(NameOf(key), ": the object was replaced while it was read; try again"));
      }
      const bool is_beyond = answer.status == kRangeNotSatisfiable;
      if (!is_beyond) SIMURGH_RETURN_IF_ERROR(Check(request, answer));
      if (is_beyond || answer.body.size() != size) {
        return absl::DataLossError(absl::StrCat(NameOf(key), ": the object has ",
                                                is_beyond ? 0 : answer.body.size(), " instead of ",
                                                size, " bytes from byte ", offset, " on"));
      }
      std::memcpy(bytes.data(), answer.body.data(), size);
      bytes = bytes.subspan(size);
      offset += size;
    }
    return absl::OkStatus();
  }

  StatusOr<std::string> Put(std::string_view key, std::string_view bytes,
                            const Condition& condition) override {
    Request request{.method = "PUT", .key = key, .body = bytes};
    if (condition.kind == Condition::Kind::kMissing) {
      request.headers.emplace_back("If-None-Match", "*");
    } else if (condition.kind == Condition::Kind::kTag) {
      request.headers.emplace_back("If-Match", condition.tag);
    }
    SIMURGH_ASSIGN_OR_RETURN(WebAnswer answer, Send(request));
    const bool is_conditional = condition.kind != Condition::Kind::kNone;
    const bool is_missing = condition.kind == Condition::Kind::kTag && answer.status == kNotFound;
    if (is_conditional && (answer.status == kPreconditionFailed || answer.status == kConflict ||
                           (is_missing && CodeOf(answer) == "NoSuchKey"))) {
      return absl::AbortedError(absl::StrCat(NameOf(key), ": another program has changed it"));
    }
    SIMURGH_RETURN_IF_ERROR(Check(request, answer));
    return answer.headers["etag"];
  }

  Status Remove(std::string_view key) override {
    SIMURGH_CHECK(!key.empty()) << "the request would remove the bucket";
    const Request request{.method = "DELETE", .key = key};
    SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
    return answer.status == kNotFound ? absl::OkStatus() : Check(request, answer);
  }

  StatusOr<Listing> List(std::string_view prefix, bool deep) override {
    Listing listing;
    std::string token;
    std::string after;  // The listing has all up to this name.
    do {
      Request request{
          .query = {{"list-type", "2"}, {"prefix", place_.prefix + std::string(prefix)}}};
      if (!deep) request.query["delimiter"] = "/";
      if (!token.empty()) {
        request.query["continuation-token"] = token;
      } else if (!after.empty()) {
        request.query["start-after"] = after;
      }
      SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
      SIMURGH_RETURN_IF_ERROR(Check(request, answer));
      SIMURGH_ASSIGN_OR_RETURN(const Xml xml, ParseXml(answer.body));
      if (xml.empty()) return absl::UnavailableError("the store's listing is empty");
      const bool has_more = TextIn(xml, "IsTruncated") == "true";
      token = has_more ? TextIn(xml, "NextContinuationToken") : "";
      if (has_more && token.empty()) {
        return absl::UnavailableError(NameOf(prefix) +
                                      ": the store does not tell where its listing continues");
      }
      const Page page = PageIn(xml, after);
      // Some versions of libcurl cannot sign a token with a +. A listing is sorted, so it can also
      // continue after a name.
      std::string end;
      if (token.find('+') != token.npos) end = LastWithoutPlus(page);
      if (!end.empty()) token.clear();
      for (const auto& [name, is_folder] : page) {
        if (!end.empty() && name > end) continue;
        AddBelow(name, is_folder ? listing.folders : listing.keys);
      }
      after = end;
    } while (!token.empty() || !after.empty());
    std::ranges::sort(listing.keys);
    return listing;
  }

  StatusOr<Upload> BeginUpload(std::string_view key) override {
    const Request request{.method = "POST", .key = key, .query = {{"uploads", ""}}};
    SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
    SIMURGH_RETURN_IF_ERROR(Check(request, answer));
    SIMURGH_ASSIGN_OR_RETURN(const Xml xml, ParseXml(answer.body));
    Upload upload{.key = std::string(key), .id = TextIn(xml, "UploadId")};
    if (!upload.id.empty()) return upload;
    return absl::UnavailableError(NameOf(key) + ": the store did not begin an upload in parts");
  }

  StatusOr<std::string> PutPart(const Upload& upload, uint64_t number,
                                std::string_view bytes) override {
    const Request request{.method = "PUT",
                          .key = upload.key,
                          .query = {{"partNumber", absl::StrCat(number)}, {"uploadId", upload.id}},
                          .body = bytes};
    SIMURGH_ASSIGN_OR_RETURN(WebAnswer answer, Send(request));
    SIMURGH_RETURN_IF_ERROR(Check(request, answer));
    return answer.headers["etag"];
  }

  Status Complete(const Upload& upload, std::span<const std::string> part_tags,
                  uint64_t bytes) override {
    constexpr int kTries = 3;
    Status status;
    for (int tries = 0; tries < kTries; ++tries) {
      status = TryComplete(upload, part_tags, bytes);
      if (!absl::IsUnavailable(status)) break;
    }
    return status;
  }

  Status TryComplete(const Upload& upload, std::span<const std::string> part_tags, uint64_t bytes) {
    std::string body = "<CompleteMultipartUpload>";
    for (size_t i = 0; i < part_tags.size(); ++i) {
      absl::StrAppend(&body, "<Part><PartNumber>", i + 1, "</PartNumber><ETag>", part_tags[i],
                      "</ETag></Part>");
    }
    body += "</CompleteMultipartUpload>";
    const Request request{
        .method = "POST", .key = upload.key, .query = {{"uploadId", upload.id}}, .body = body};
    SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
    if (answer.status == kNotFound) {
      // An earlier try may have completed it, whose answer was lost.
      SIMURGH_ASSIGN_OR_RETURN(const auto object, Get(upload.key, 1, ""));
      if (object && object->whole == bytes) return absl::OkStatus();
    }
    SIMURGH_RETURN_IF_ERROR(Check(request, answer));
    // The status is sent before the work, which can fail.
    if (answer.body.find("<Error>") == std::string::npos) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat(NameOf(upload.key), ": the parts were not put together: ", CodeOf(answer)));
  }

  Status Abort(const Upload& upload) override {
    const Request request{
        .method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.id}}};
    SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
    return answer.status == kNotFound ? absl::OkStatus() : Check(request, answer);
  }

  StatusOr<std::vector<Upload>> Uploads() override {
    std::vector<Upload> uploads;
    std::string key_marker;
    std::string id_marker;
    bool is_end = false;
    while (!is_end) {
      Request request{.query = {{"prefix", place_.prefix}, {"uploads", ""}}};
      if (!key_marker.empty()) {
        request.query["key-marker"] = key_marker;
        request.query["upload-id-marker"] = id_marker;
      }
      SIMURGH_ASSIGN_OR_RETURN(const WebAnswer answer, Send(request));
      SIMURGH_RETURN_IF_ERROR(Check(request, answer));
      SIMURGH_ASSIGN_OR_RETURN(const Xml xml, ParseXml(answer.body));
      if (xml.empty()) return absl::UnavailableError("the store's listing is empty");
      for (const auto& [name, value] : xml.front().second) {
        std::vector<std::string> keys;
        if (name == "Upload") AddBelow(value.get<std::string>("Key", ""), keys);
        for (std::string& key : keys) {
          uploads.push_back({std::move(key), value.get<std::string>("UploadId", "")});
        }
      }
      key_marker = TextIn(xml, "NextKeyMarker");
      id_marker = TextIn(xml, "NextUploadIdMarker");
      is_end = TextIn(xml, "IsTruncated") != "true" || key_marker.empty();
    }
    return uploads;
  }

 private:
  struct Request {
    std::string method = "GET";
    std::string_view key = {};  // Empty: the bucket.
    Query query = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
    std::string_view body = {};
  };

  // Names of keys and folders, and whether each is a folder.
  using Page = std::vector<std::pair<std::string, bool>>;

  // The names in an answer that follow another name. A store may repeat this one, if a folder.
  static Page PageIn(const Xml& xml, const std::string& after) {
    Page page;
    for (const auto& [element, value] : xml.front().second) {
      const bool is_folder = element == "CommonPrefixes";
      if (!is_folder && element != "Contents") continue;
      std::string name = value.get<std::string>(is_folder ? "Prefix" : "Key", "");
      if (name > after) page.emplace_back(std::move(name), is_folder);
    }
    return page;
  }

  // Returns an empty text if all names have a +.
  static std::string LastWithoutPlus(const Page& page) {
    std::string last;
    for (const auto& [name, is_folder] : page) {
      if (name.find('+') == name.npos) last = std::max(last, name);
    }
    return last;
  }

  void AddBelow(const std::string& key, std::vector<std::string>& keys) const {
    if (key.starts_with(place_.prefix)) keys.push_back(key.substr(place_.prefix.size()));
  }

  std::string UrlOf(const Request& request, const std::string& region) const {
    const char* const domain = region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com";
    // Amazon's certificates do not cover names with dots.
    const bool is_host = place_.endpoint.empty() && place_.bucket.find('.') == std::string::npos;
    std::string url = !place_.endpoint.empty() ? place_.endpoint
                      : is_host ? absl::StrCat("https://", place_.bucket, ".s3.", region, domain)
                                : absl::StrCat("https://s3.", region, domain);
    absl::StrAppend(&url, "/");
    if (!is_host) absl::StrAppend(&url, UrlEncoded(place_.bucket), "/");
    if (!request.key.empty()) {
      url += UrlEncoded(absl::StrCat(place_.prefix, std::string(request.key)), "/");
    }
    char separator = '?';
    for (const auto& [name, value] : request.query) {
      url += separator;
      absl::StrAppend(&url, UrlEncoded(name), "=", UrlEncoded(value));
      separator = '&';
    }
    return url;
  }

  static std::string CodeOf(const WebAnswer& answer) {
    const StatusOr<Xml> xml = ParseXml(answer.body);
    return xml.ok() ? TextIn(*xml, "Code") : "";
  }

  // Sends a request until the store has answered it. Returns any answer but those for later.
  StatusOr<WebAnswer> Send(const Request& request) {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point until = begin + tries_for_;
    bool has_told = false;
    std::chrono::milliseconds pause = kFirstPause;
    bool has_new_key = false;
    bool has_new_region = false;
    while (true) {
      AccessKey key;
      const std::string region = Region();
      const auto send = [&]() -> StatusOr<WebAnswer> {
        SIMURGH_ASSIGN_OR_RETURN(key, credentials_.Key());
        return web_->Send({.method = request.method,
                           .url = UrlOf(request, region),
                           .headers = request.headers,
                           .body = request.body,
                           .signature = WebRequest::Signature{key, region},
                           .stall_timeout = kStoreStallTimeout});
      };
      const StatusOr<WebAnswer> answer = send();
      Status problem = answer.status();
      if (answer.ok() && !IsForLater(answer->status)) {
        if (MovesTo(*answer, region) && !std::exchange(has_new_region, true)) continue;
        const std::string code = answer->status == kForbidden || answer->status == kBadRequest
                                     ? CodeOf(*answer)
                                     : std::string();
        const bool is_old = code == "ExpiredToken" || code == "InvalidAccessKeyId";
        if (is_old && !std::exchange(has_new_key, true)) {
          credentials_.Forget(key);
          continue;
        }
        if (code != "RequestTimeout") return answer;
      }
      if (answer.ok()) {
        problem = absl::UnavailableError(
            absl::StrCat("the store answers ", answer->status, " ", CodeOf(*answer)));
      } else if (!absl::IsUnavailable(problem) && !absl::IsDeadlineExceeded(problem)) {
        return Annotate(problem, NameOf(request.key));
      }
      const Clock::time_point now = Clock::now();
      if (now - begin > kSilentFor && !std::exchange(has_told, true)) {
        spdlog::warn("{}: {}; trying again", NameOf(request.key), std::string(problem.message()));
      }
      if (now + pause > until) {
        return Annotate(
            problem, absl::StrCat(NameOf(request.key), ": tried for ", tries_for_.count(), " ms"));
      }
      Pause(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // Waits between half and all of this time, so that many clients do not come back together.
  static void Pause(std::chrono::milliseconds time) {
    thread_local std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<int64_t> part(time.count() / 2, time.count());
    std::this_thread::sleep_for(std::chrono::milliseconds(part(random)));
  }

  std::string Region() {
    const MutexLock lock(mutex_);
    return region_;
  }

  // Takes over the bucket's region, which the store tells. Returns whether it is another one.
  bool MovesTo(const WebAnswer& answer, const std::string& region) {
    if (answer.status != kMovedPermanently && answer.status != kBadRequest) return false;
    const auto header = answer.headers.find("x-amz-bucket-region");
    std::string told = header == answer.headers.end() ? "" : header->second;
    if (told.empty()) {
      const StatusOr<Xml> xml = ParseXml(answer.body);
      if (xml.ok()) told = TextIn(*xml, "Region");
    }
    if (told.empty() || told == region) return false;
    const MutexLock lock(mutex_);
    region_ = std::move(told);
    return true;
  }

  // Turns an answer that is no success into an error.
  Status Check(const Request& request, const WebAnswer& answer) const {
    if (answer.status >= kOk && answer.status < kMovedPermanently) return absl::OkStatus();
    const std::string name = NameOf(request.key);
    const std::string code = CodeOf(answer);
    const std::string told = code.empty() ? absl::StrCat("status ", answer.status) : code;
    if (code == "NoSuchBucket") {
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": there is no bucket ", place_.bucket,
                       "; create it, or correct the name, the region or the endpoint"));
    }
    if (code == "RequestTimeTooSkewed") {
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": the clock of this machine is wrong, says the store; set it"));
    }
    if (answer.status == kNotFound && code.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(name,
                       ": the endpoint does not answer as a store with S3's protocol; check "
                       "endpoint_override or AWS_ENDPOINT_URL"));
    }
    switch (answer.status) {
      case kNotFound:
        return absl::NotFoundError(absl::StrCat(name, ": there is no such object"));
      case kForbidden:
        return absl::PermissionDeniedError(
            absl::StrCat(name, ": the store refuses ", request.method, " (", told,
                         "); check the key, and its rights to list, read, write and remove"));
      case kMovedPermanently:
        return absl::FailedPreconditionError(
            absl::StrCat(name, ": the bucket is in another region; set AWS_REGION"));
      case kNotImplemented:
        return absl::FailedPreconditionError(
            absl::StrCat(name, ": the store does not know a request that models need (", told,
                         "); use another store"));
      default:
        return absl::FailedPreconditionError(
            absl::StrCat(name, ": the store refuses ", request.method, " (", told, ")"));
    }
  }

  const Place place_;
  const std::chrono::milliseconds tries_for_;
  const std::unique_ptr<WebClient> web_;
  CredentialChain credentials_;
  Mutex mutex_;
  std::string region_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<ObjectStore>> OpenS3(const std::string& uri,
                                              std::chrono::milliseconds tries_for) {
  SIMURGH_ASSIGN_OR_RETURN(Place place, ParsePlace(uri));
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<WebClient> web, WebClient::Create());
  return std::make_unique<S3Store>(std::move(place), std::move(web), tries_for);
}

}  // namespace simurgh
