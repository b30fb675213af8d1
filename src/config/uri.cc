#include "config/uri.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

constexpr std::string_view kScheme = "s3://";

// A URI without its scheme.
struct Cut {
  std::string_view bucket;
  std::string_view options;
  std::string key;  // May have "/" at its ends.
};

// The options end at the next "/", so that programs and shells can append to both forms.
Cut CutUri(std::string_view uri) {
  uri.remove_prefix(uri.find("://") + 3);
  const std::string_view place = uri.substr(0, uri.find('?'));
  std::string_view options = uri.substr(place.size());
  const std::string_view rest = options.substr(std::min(options.find('/'), options.size()));
  options.remove_suffix(rest.size());
  if (!options.empty()) options.remove_prefix(1);
  const std::string_view bucket = place.substr(0, place.find('/'));
  std::string key(place.substr(bucket.size()));
  if (key.ends_with('/') && rest.starts_with('/')) key.pop_back();
  return {bucket, options, absl::StrCat(key, std::string(rest))};
}

std::string_view WithoutSlashes(std::string_view key) {
  while (key.starts_with('/')) key.remove_prefix(1);
  while (key.ends_with('/')) key.remove_suffix(1);
  return key;
}

// Returns a text with each %XX as its byte; none for a % without two digits.
std::optional<std::string> Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    const std::string digits(text.substr(i + 1, 2));
    uint32_t byte = 0;
    if (digits.size() != 2 || !absl::SimpleHexAtoi(digits, &byte)) return std::nullopt;
    decoded.push_back(static_cast<char>(byte));
    i += 2;
  }
  return decoded;
}

std::optional<UriError> SchemeError(std::string_view uri) {
  const std::string scheme(uri.substr(0, uri.find("://") + 3));
  if (scheme == kScheme) return std::nullopt;
  if (scheme == "file://") return UriError{"file:// is not read", "give the path without it"};
  return UriError{scheme + " is not read",
                  "use s3://BUCKET/PREFIX; other stores with S3's protocol need "
                  "?endpoint_override=HOST:PORT"};
}

std::optional<UriError> ReadOptions(std::string_view text,
                                    std::map<std::string, std::string>* options) {
  constexpr char kRemedy[] = "use endpoint_override=HOST:PORT, scheme=http and region=REGION";
  if (text.empty()) return std::nullopt;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(text), '&'))) {
    const std::string name = part.substr(0, part.find('='));
    const bool is_known = name == "endpoint_override" || name == "scheme" || name == "region";
    if (!is_known) return UriError{absl::StrCat("has the unknown option '", name, "'"), kRemedy};
    const std::optional<std::string> value =
        name.size() < part.size() ? Decoded(part.substr(name.size() + 1)) : std::nullopt;
    if (!value || value->empty()) {
      return UriError{absl::StrCat("has no value of the option '", name, "'"), kRemedy};
    }
    if (name == "scheme" && *value != "http" && *value != "https") {
      return UriError{absl::StrCat("has the scheme '", *value, "'"), "use http or https"};
    }
    if (name == "endpoint_override" && value->find('@') != value->npos) {
      return UriError{kCredentialsProblem, kCredentialsRemedy};
    }
    if (name == "endpoint_override" && (value->ends_with(':') || value->find('/') != value->npos)) {
      return UriError{absl::StrCat("has the endpoint '", *value, "'"),
                      "use HOST:PORT, and the option scheme=http or scheme=https"};
    }
    (*options)[name] = *value;
  }
  return std::nullopt;
}

std::optional<UriError> Parse(std::string_view uri, BucketAddress* address) {
  if (!IsUri(uri)) return UriError{"is no URI", "use s3://BUCKET/PREFIX"};
  if (HasCredentials(uri)) return UriError{kCredentialsProblem, kCredentialsRemedy};
  if (std::optional<UriError> error = SchemeError(uri)) return error;
  const Cut cut = CutUri(uri);
  const bool is_name = std::ranges::all_of(cut.bucket, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
  if (cut.bucket.empty() || !is_name) {
    return UriError{absl::StrCat("has no name of a bucket, but '", std::string(cut.bucket), "'"),
                    "use s3://BUCKET/PREFIX"};
  }
  if (std::optional<UriError> error = ReadOptions(cut.options, &address->options)) return error;
  address->bucket = std::string(cut.bucket);
  address->key = std::string(WithoutSlashes(cut.key));
  if (address->key.empty()) {
    return UriError{"has no folder in the bucket", "use s3://BUCKET/PREFIX"};
  }
  for (const absl::string_view part : absl::StrSplit(address->key, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return UriError{absl::StrCat("has the part '", std::string(part), "' in its path"),
                      "remove it: names in a bucket are taken as they are"};
    }
  }
  return std::nullopt;
}

}  // namespace

bool HasCredentials(std::string_view path) {
  const size_t scheme = path.find("://");
  if (scheme == path.npos) return false;
  const bool is_s3 = path.starts_with("s3:");
  path.remove_prefix(scheme + 3);
  const std::string_view authority = path.substr(0, path.find('/'));
  const size_t at = authority.find('@');
  return at != authority.npos && (is_s3 || authority.substr(0, at).find(':') != authority.npos);
}

std::string AbsoluteFolder(const std::string& path) {
  if (IsUri(path)) return BucketPath(path);
  std::error_code ignored;  // Without a working directory the path stays as it is.
  std::filesystem::path folder = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!folder.has_filename() && folder.has_relative_path()) folder = folder.parent_path();
  return folder.empty() ? path : folder.string();
}

std::optional<UriError> BucketPathError(std::string_view uri) {
  BucketAddress ignored;
  return Parse(uri, &ignored);
}

std::string BucketPath(std::string_view uri) {
  const Cut cut = CutUri(uri);
  const std::string key(WithoutSlashes(cut.key));
  return absl::StrCat(std::string(uri.substr(0, uri.find("://") + 3)), std::string(cut.bucket),
                      cut.options.empty() ? "" : "?", std::string(cut.options),
                      key.empty() ? "" : "/", key);
}

StatusOr<BucketAddress> ParseBucketPath(std::string_view uri) {
  BucketAddress address;
  const std::optional<UriError> error = Parse(uri, &address);
  if (!error) return address;
  // Options can have anything.
  const std::string shown =
      HasCredentials(uri) ? "the model" : std::string(uri.substr(0, uri.find('?')));
  return absl::InvalidArgumentError(absl::StrCat(shown, ": ", error->problem, "; ", error->remedy));
}

std::string ModelFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = std::string_view(path).substr(slash + 1);
  const std::string_view number = name.substr(0, name.find('.'));
  constexpr std::string_view kStep = "step-";
  const bool is_checkpoint = number.starts_with(kStep) && number.size() > kStep.size() &&
                             std::ranges::all_of(number.substr(kStep.size()), [](char c) {
                               return absl::ascii_isdigit(static_cast<unsigned char>(c));
                             });
  return is_checkpoint && slash > kScheme.size() ? path.substr(0, slash) : path;
}

}  // namespace simurgh
