#include "objects/credentials.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace simurgh {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using TimePoint = CredentialChain::Clock::time_point;

constexpr minutes kRenewedBefore{5};
constexpr seconds kRenewalRetry{30};
constexpr size_t kMaxAnswerBytes = 64 << 10;
constexpr size_t kMaxFileBytes = 4 << 20;
constexpr std::chrono::milliseconds kConnectTimeout{10'000};
constexpr std::chrono::milliseconds kContainerConnectTimeout{2'000};
constexpr size_t kMaxReasonBytes = 300;
constexpr std::chrono::milliseconds kMetadataConnectTimeout{1'000};
constexpr seconds kStallTimeout{5};
constexpr seconds kMetadataStallTimeout{1};
constexpr char kMetadata[] = "http://169.254.169.254";
constexpr char kContainer[] = "http://169.254.170.2";
constexpr char kExportRemedy[] =
    "run `aws configure export-credentials --format env` and set the variables that it prints";

struct Found {
  AccessKey key;
  std::optional<TimePoint> expires;
};
// A place that has no key, which is no error.
using MaybeFound = std::optional<Found>;

// The strings of abseil have their own views.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string Trimmed(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(View(text)));
}

// Returns nothing if there is no such file. Errors: FAILED_PRECONDITION.
StatusOr<std::optional<std::string>> ReadFile(const std::string& path) {
  const auto fail = [&](std::string_view reason) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", View(reason), "; correct the file or its permissions"));
  };
  struct stat kind{};
  if (::stat(path.c_str(), &kind) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return fail("cannot be read");
  }
  if (S_ISDIR(kind.st_mode)) return fail("is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return fail("cannot be read");
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail("cannot be read");
  text.resize(file.gcount());
  if (text.size() > kMaxFileBytes) return fail("is longer than 4 MiB");
  return text;
}

// The profiles of a file of Amazon's programs.

using Profile = std::map<std::string, std::string>;

size_t IndentOf(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

// Returns the keys of the sections with one of these names. Lines that are indented further than
// their key, such as those below `s3 =`, continue its value and are left out.
std::optional<Profile> ReadSection(std::string_view text, const std::vector<std::string>& names) {
  std::optional<Profile> profile;
  bool is_inside = false;
  std::optional<size_t> key_indent;
  for (const auto raw : absl::StrSplit(View(text), '\n')) {
    const std::string_view line(raw.data(), raw.size());
    const std::string content = Trimmed(line);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    const size_t indent = IndentOf(line);
    if (key_indent.has_value() && indent > *key_indent) continue;
    if (content[0] == '[') {
      const size_t end = content.find(']');
      std::string name = Trimmed(std::string_view(content).substr(1, end - 1));
      std::erase(name, '"');
      is_inside = end != content.npos && std::ranges::find(names, name) != names.end();
      if (is_inside && !profile.has_value()) profile.emplace();
      key_indent.reset();
      continue;
    }
    const size_t equals = content.find('=');
    if (equals == content.npos) continue;
    key_indent = indent;
    if (!is_inside) continue;
    const std::string_view view = content;
    (*profile)[absl::AsciiStrToLower(Trimmed(view.substr(0, equals)))] =
        Trimmed(view.substr(equals + 1));
  }
  return profile;
}

std::string ValueOf(const Profile& profile, const char* key) {
  const auto found = profile.find(key);
  return found == profile.end() ? "" : found->second;
}

// A file with profiles, and the profile in it.
struct ProfileFile {
  std::string path;  // Empty without a home folder.
  std::optional<Profile> profile;
};

std::string ProfileName() {
  const std::string name = Variable("AWS_PROFILE");
  return name.empty() ? "default" : name;
}

// variable: names the file. name: the one in ~/.aws. has_prefix: sections are "profile NAME".
StatusOr<ProfileFile> ReadProfile(const char* variable, const char* name, bool has_prefix) {
  ProfileFile file;
  file.path = Variable(variable);
  const std::string home = Variable("HOME");
  if (file.path.empty() && !home.empty()) {
    file.path = absl::StrCat(home, "/.aws/", name);
  } else if (file.path.starts_with("~/") && !home.empty()) {
    file.path = absl::StrCat(home, file.path.substr(1));
  }
  if (file.path.empty()) return file;
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadFile(file.path));
  if (!text.has_value()) return file;
  const std::string profile = ProfileName();
  std::vector<std::string> sections;
  if (has_prefix) sections.push_back(absl::StrCat("profile ", profile));
  if (!has_prefix || profile == "default") sections.push_back(profile);
  file.profile = ReadSection(*text, sections);
  return file;
}

StatusOr<ProfileFile> ReadCredentialsFile() {
  return ReadProfile("AWS_SHARED_CREDENTIALS_FILE", "credentials", false);
}

StatusOr<ProfileFile> ReadConfigFile() { return ReadProfile("AWS_CONFIG_FILE", "config", true); }

// Keys in the answer of a service or program.

StatusOr<std::optional<TimePoint>> ExpiryOf(const std::string& text, std::string_view where) {
  if (text.empty()) return std::nullopt;
  absl::Time time;
  std::string ignored;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &ignored)) {
    return absl::UnavailableError(
        absl::StrCat(View(where), ": the Expiration of its key is not a time of ISO 8601"));
  }
  return absl::ToChronoTime(time);
}

StatusOr<Found> FoundOf(AccessKey key, const std::string& expiration, std::string_view where) {
  for (const auto& [name, value] :
       {std::pair("AccessKeyId", &key.id), std::pair("SecretAccessKey", &key.secret)}) {
    if (value->empty()) {
      return absl::UnavailableError(absl::StrCat(View(where), ": its answer has no ", name));
    }
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<TimePoint> expires, ExpiryOf(expiration, where));
  return Found{.key = std::move(key), .expires = expires};
}

// token: the name of the session token's member. Errors: UNAVAILABLE, for an answer that is no key.
StatusOr<Found> ParseKey(const std::string& text, const char* token, std::string_view where) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::UnavailableError(absl::StrCat(View(where), ": its answer is not a JSON object"));
  }
  const auto text_of = [&](const char* name) {
    const auto member = json.find(name);
    return member != json.end() && member->is_string() ? member->get<std::string>() : "";
  };
  return FoundOf({text_of("AccessKeyId"), text_of("SecretAccessKey"), text_of(token)},
                 text_of("Expiration"), where);
}

// The error of a service that has answered with a status other than 200. detail: its own reason.
Status RefusalOf(int status, std::string_view where, std::string_view detail = "") {
  const std::string message =
      absl::StrCat(View(where), ": it answered with status ", status,
                   detail.empty() ? "" : absl::StrCat(" (", View(detail), ")"));
  const bool is_passing = status >= 500 || status == 408 || status == 429;
  return is_passing ? absl::UnavailableError(message) : absl::PermissionDeniedError(message);
}

// Returns an error of Send() as UNAVAILABLE, but for those of the configuration.
Status NoAnswer(const Status& status, std::string_view where) {
  if (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) {
    return Annotate(absl::FailedPreconditionError(status.message()), where);
  }
  return Annotate(absl::UnavailableError(status.message()), where);
}

// 1. The environment.

StatusOr<MaybeFound> FindInEnvironment() {
  AccessKey key{Variable("AWS_ACCESS_KEY_ID"), Variable("AWS_SECRET_ACCESS_KEY"),
                Variable("AWS_SESSION_TOKEN")};
  if (key.id.empty() && key.secret.empty()) return std::nullopt;
  if (key.id.empty() || key.secret.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        key.id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY", " is not set, but ",
        key.id.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID", " is; set both, or none"));
  }
  return Found{.key = std::move(key), .expires = std::nullopt};
}

// 2. The token of a web identity, exchanged for a key by Amazon's STS.

struct WebIdentity {
  std::string token_file;
  std::string role;
  std::string session;
};

// Returns the text of the first element with this name, "" for none. The answers of STS have no
// attributes there, and no nested elements.
std::string ElementOf(std::string_view xml, std::string_view name) {
  const std::string open = absl::StrCat("<", View(name), ">");
  const size_t begin = xml.find(open);
  if (begin == xml.npos) return "";
  xml.remove_prefix(begin + open.size());
  std::string text = Trimmed(xml.substr(0, xml.find('<')));
  for (const auto& [code, character] :
       {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&quot;", "\""),
        std::pair("&apos;", "'"), std::pair("&amp;", "&")}) {
    for (size_t at = 0; (at = text.find(code, at)) != text.npos; ++at) {
      text.replace(at, std::string_view(code).size(), character);
    }
  }
  return text;
}

std::string StsUrl() {
  for (const char* const variable : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
    std::string url = Variable(variable);
    if (url.empty()) continue;
    while (url.ends_with('/')) url.pop_back();
    return url + "/";
  }
  const std::string region = ConfiguredRegion();
  if (region.empty()) return "https://sts.amazonaws.com/";
  return absl::StrCat("https://sts.", region, ".amazonaws.com",
                      region.starts_with("cn-") ? ".cn" : "", "/");
}

StatusOr<Found> AssumeRole(WebClient& web, const WebIdentity& identity, TimePoint now) {
  const std::string where = absl::StrCat("role ", identity.role);
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<std::string> file, ReadFile(identity.token_file));
  const std::string token = Trimmed(file.value_or(""));
  if (token.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        identity.token_file, ": ", file.has_value() ? "the file is empty" : "there is no such file",
        "; AWS_WEB_IDENTITY_TOKEN_FILE must name a file with a token"));
  }
  const std::string session =
      identity.session.empty() ? absl::StrCat("simurgh-", std::chrono::system_clock::to_time_t(now))
                               : identity.session;
  const std::string body = absl::StrCat(
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=", UrlEncoded(identity.role),
      "&RoleSessionName=", UrlEncoded(session), "&WebIdentityToken=", UrlEncoded(token));
  const auto answer = web.Send({.method = "POST",
                                .url = StsUrl(),
                                .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                                .body = body,
                                .signature = {},
                                .max_bytes = kMaxAnswerBytes,
                                .connect_timeout = kConnectTimeout,
                                .stall_timeout = kStallTimeout});
  if (!answer.ok()) return NoAnswer(answer.status(), where);
  if (answer->status != 200) {
    const std::string reason = PrintableLine(
        absl::StrCat(ElementOf(answer->body, "Code"), ": ", ElementOf(answer->body, "Message")));
    const bool shows_token = absl::StrContains(reason, token);
    return RefusalOf(answer->status, where, shows_token ? "" : reason.substr(0, kMaxReasonBytes));
  }
  return FoundOf(
      {ElementOf(answer->body, "AccessKeyId"), ElementOf(answer->body, "SecretAccessKey"),
       ElementOf(answer->body, "SessionToken")},
      ElementOf(answer->body, "Expiration"), where);
}

StatusOr<MaybeFound> FindByWebIdentity(WebClient& web, TimePoint now) {
  const WebIdentity identity{Variable("AWS_WEB_IDENTITY_TOKEN_FILE"), Variable("AWS_ROLE_ARN"),
                             Variable("AWS_ROLE_SESSION_NAME")};
  if (identity.token_file.empty()) return std::nullopt;
  if (identity.role.empty()) {
    return absl::FailedPreconditionError(
        "AWS_ROLE_ARN is not set, but AWS_WEB_IDENTITY_TOKEN_FILE is; set both, or none");
  }
  return AssumeRole(web, identity, now);
}

// 3. The profile.

StatusOr<MaybeFound> KeyOfProfile(const ProfileFile& file) {
  if (!file.profile.has_value()) return std::nullopt;
  const Profile& profile = *file.profile;
  AccessKey key{ValueOf(profile, "aws_access_key_id"), ValueOf(profile, "aws_secret_access_key"),
                ValueOf(profile, "aws_session_token")};
  if (key.id.empty() && key.secret.empty()) return std::nullopt;
  if (key.id.empty() || key.secret.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.path, ": the profile ", ProfileName(), " has no ",
                     key.id.empty() ? "aws_access_key_id" : "aws_secret_access_key", "; add it"));
  }
  return Found{.key = std::move(key), .expires = std::nullopt};
}

StatusOr<Found> RunProcess(const std::string& command, const std::string& where) {
  const auto fail = [&](std::string_view reason) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, View(reason), "; run it by hand to see why"));
  };
  // All requests wait for the key.
  const std::string limited = absl::StrCat("exec timeout 60 sh -c ", ShellWord(command));
  FILE* const pipe = ::popen(limited.c_str(), "re");
  if (pipe == nullptr) return ErrnoStatus(errno, absl::StrCat(where, "cannot be started"));
  std::string text(kMaxAnswerBytes, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  const int ended = ::pclose(pipe);
  if (ended == -1 || !WIFEXITED(ended)) return fail("was killed, or wrote too much");
  if (WEXITSTATUS(ended) != 0) return fail(absl::StrCat("exit status ", WEXITSTATUS(ended)));
  auto found = ParseKey(text, "SessionToken", "x");
  if (!found.ok()) return fail("it did not print a key as JSON");
  return found;
}

StatusOr<MaybeFound> FindInProfile(WebClient& web, TimePoint now) {
  SIMURGH_ASSIGN_OR_RETURN(const ProfileFile credentials, ReadCredentialsFile());
  SIMURGH_ASSIGN_OR_RETURN(const ProfileFile config, ReadConfigFile());
  const std::string name = ProfileName();
  if (!credentials.profile.has_value() && !config.profile.has_value()) {
    if (Variable("AWS_PROFILE").empty()) return std::nullopt;
    return absl::FailedPreconditionError(
        absl::StrCat("AWS_PROFILE: the profile ", name, " is neither in ", credentials.path,
                     " nor in ", config.path, "; add it, or correct AWS_PROFILE"));
  }
  const auto value_of = [&](const char* key) {
    for (const ProfileFile* const file : {&credentials, &config}) {
      std::string value = file->profile.has_value() ? ValueOf(*file->profile, key) : "";
      if (!value.empty()) return value;
    }
    return std::string();
  };
  const std::string where = absl::StrCat("profile ", name);
  const WebIdentity identity{value_of("web_identity_token_file"), value_of("role_arn"),
                             value_of("role_session_name")};
  if (!identity.token_file.empty() && !identity.role.empty()) {
    return AssumeRole(web, identity, now);
  }
  for (const char* const key : {"role_arn", "sso_session", "sso_start_url"}) {
    if (value_of(key).empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": it has ", key, ", which is not supported; ", kExportRemedy));
  }
  SIMURGH_ASSIGN_OR_RETURN(MaybeFound found, KeyOfProfile(credentials));
  if (found.has_value()) return found;
  if (const std::string command = value_of("credential_process"); !command.empty()) {
    return RunProcess(command, absl::StrCat(where, ": credential_process: "));
  }
  return KeyOfProfile(config);
}

// 4. The container.

// Returns whether a URL is one to which Amazon's programs send the container's token.
bool IsTrusted(std::string_view url) {
  if (url.starts_with("https://")) return true;
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return false;
  url.remove_prefix(kScheme.size());
  const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
  if (authority.find('@') != authority.npos) return false;
  const std::string_view host = authority.starts_with('[')
                                    ? authority.substr(0, authority.find(']') + 1)
                                    : authority.substr(0, authority.find(':'));
  for (const std::string_view known :
       {"localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"}) {
    if (host == known) return true;
  }
  // 127.0.0.0/8
  const std::vector<std::string> bytes = absl::StrSplit(View(host), '.');
  int byte = 0;
  return bytes.size() == 4 && bytes[0] == "127" &&
         std::ranges::all_of(bytes, [&](const std::string& text) {
           return text.size() <= 3 && absl::SimpleAtoi(text, &byte) && byte >= 0 && byte <= 255;
         });
}

StatusOr<MaybeFound> FindInContainer(WebClient& web) {
  std::string url = Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string path = Variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!path.empty()) {
    url = absl::StrCat(kContainer, path.starts_with('/') ? "" : "/", path);
  }
  if (url.empty()) return std::nullopt;
  if (!IsTrusted(url)) {
    return absl::FailedPreconditionError(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI: its host is not trusted with a token; use https, a "
        "loopback address, 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
  }
  std::string token = Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string file = Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadFile(file));
    token = Trimmed(text.value_or(""));
    if (token.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(file, ": ", text.has_value() ? "the file is empty" : "there is no such file",
                       "; AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE must name a file with a token"));
    }
  }
  if (token.find_first_of("\r\n") != token.npos) {
    return absl::FailedPreconditionError("the container's token has several lines; correct it");
  }
  WebRequest request{.url = url,
                     .headers = {},
                     .body = {},
                     .signature = {},
                     .max_bytes = kMaxAnswerBytes,
                     .connect_timeout = kContainerConnectTimeout,
                     .stall_timeout = kStallTimeout,
                     .is_direct = url.starts_with("http://")};
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  constexpr char kWhere[] = "the container's credentials";
  const auto answer = web.Send(request);
  if (!answer.ok()) return NoAnswer(answer.status(), kWhere);
  if (answer->status != 200) return RefusalOf(answer->status, kWhere);
  return ParseKey(answer->body, "Token", kWhere);
}

// 5. The instance's metadata.

StatusOr<MaybeFound> FindInMetadata(WebClient& web, std::string& reason) {
  reason = "AWS_EC2_METADATA_DISABLED is set";
  if (absl::EqualsIgnoreCase(Variable("AWS_EC2_METADATA_DISABLED"), "true")) return std::nullopt;
  std::string endpoint = Variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) endpoint = kMetadata;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  WebRequest request{.method = "PUT",
                     .url = endpoint + "/latest/api/token",
                     .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                     .body = {},
                     .signature = {},
                     .max_bytes = kMaxAnswerBytes,
                     .connect_timeout = kMetadataConnectTimeout,
                     .stall_timeout = kMetadataStallTimeout,
                     .is_direct = true};
  constexpr char kWhere[] = "the instance's metadata";
  const auto token = web.Send(request);
  if (!token.ok()) {
    if (absl::IsFailedPrecondition(token.status()) || absl::IsInvalidArgument(token.status())) {
      return NoAnswer(token.status(), kWhere);
    }
    reason = std::string(token.status().message());
    return std::nullopt;  // The service exists in Amazon's cloud only.
  }
  if (token->status != 200) {
    const Status refusal = RefusalOf(token->status, kWhere);
    if (absl::IsUnavailable(refusal)) return refusal;
    reason = std::string(refusal.message());
    return std::nullopt;
  }
  request.method = "GET";
  request.headers = {{"X-aws-ec2-metadata-token", Trimmed(token->body)}};
  request.stall_timeout = kStallTimeout;
  const std::string roles = endpoint + "/latest/meta-data/iam/security-credentials/";
  request.url = roles;
  const auto role = web.Send(request);
  if (!role.ok()) return NoAnswer(role.status(), kWhere);
  const std::string role_name =
      Trimmed(std::string_view(role->body).substr(0, role->body.find('\n')));
  if (role->status == 404 || (role->status == 200 && role_name.empty())) {
    reason = "the instance has no role";
    return std::nullopt;
  }
  if (role->status != 200) return RefusalOf(role->status, kWhere);
  request.url = roles + UrlEncoded(role_name, "/");
  const auto key = web.Send(request);
  if (!key.ok()) return NoAnswer(key.status(), kWhere);
  if (key->status != 200) return RefusalOf(key->status, kWhere);
  return ParseKey(key->body, "Token", kWhere);
}

StatusOr<Found> Find(WebClient& web, TimePoint now) {
  SIMURGH_ASSIGN_OR_RETURN(MaybeFound found, FindInEnvironment());
  if (!found.has_value()) {
    SIMURGH_ASSIGN_OR_RETURN(found, FindByWebIdentity(web, now));
  }
  if (!found.has_value()) {
    SIMURGH_ASSIGN_OR_RETURN(found, FindInProfile(web, now));
  }
  if (!found.has_value()) {
    SIMURGH_ASSIGN_OR_RETURN(found, FindInContainer(web));
  }
  std::string reason;
  if (!found.has_value()) {
    SIMURGH_ASSIGN_OR_RETURN(found, FindInMetadata(web, reason));
  }
  if (found.has_value()) return *std::move(found);
  return absl::PermissionDeniedError(absl::StrCat(
      "there is no access key: AWS_ACCESS_KEY_ID and AWS_WEB_IDENTITY_TOKEN_FILE are not set, the "
      "profile ",
      ProfileName(),
      " has no key in ~/.aws/credentials and ~/.aws/config, no container's credentials are set, "
      "and the instance's metadata has none (",
      reason, "); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
}

}  // namespace

StatusOr<AccessKey> CredentialChain::Key() {
  const MutexLock lock(mutex_);
  const TimePoint now = now_();
  if (held_.has_value() && (!held_->expires.has_value() || now < held_->renewal)) {
    return held_->key;
  }
  StatusOr<Found> found = Find(web_, now);
  if (found.ok() && found->expires.has_value() && *found->expires <= now) {
    found = absl::UnavailableError(absl::StrCat("the access key expired at ",
                                                absl::FormatTime(absl::FromChrono(*found->expires)),
                                                "; renew it at its source"));
  }
  if (!found.ok()) {
    if (!held_.has_value()) return found.status();
    if (*held_->expires <= now) {  // The place had a key before, and may have one again.
      return absl::IsPermissionDenied(found.status())
                 ? absl::UnavailableError(found.status().message())
                 : found.status();
    }
    held_->renewal = now + kRenewalRetry;
    return held_->key;
  }
  held_ = {.key = std::move(found->key), .expires = found->expires, .renewal = {}};
  if (held_->expires.has_value()) {
    const Clock::duration life = *held_->expires - now;
    held_->renewal = *held_->expires - std::min<Clock::duration>(kRenewedBefore, life / 2);
  }
  return held_->key;
}

void CredentialChain::Forget(const AccessKey& refused) {
  const MutexLock lock(mutex_);
  if (held_.has_value() && held_->key == refused) held_.reset();
}

std::string ConfiguredRegion() {
  for (const char* const variable : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    std::string region = Variable(variable);
    if (!region.empty()) return region;
  }
  const auto config = ReadConfigFile();
  return config.ok() && config->profile.has_value() ? ValueOf(*config->profile, "region") : "";
}

}  // namespace simurgh
