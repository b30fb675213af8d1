#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace simurgh {

// Returns whether the path is a URI, such as s3://bucket/key.
inline bool IsUri(std::string_view path) { return path.find("://") != path.npos; }

// Returns the path of a data file without the options of a URI, which begin with `?`.
inline std::string_view WithoutOptions(std::string_view path) {
  return IsUri(path) ? path.substr(0, path.find('?')) : path;
}

// Returns whether a URI has the form s3://KEY:SECRET@BUCKET/. Logs and models show URIs.
bool HasCredentials(std::string_view path);

// What is wrong with such a URI, and the remedy.
inline constexpr char kCredentialsProblem[] =
    "has credentials in its URI, which logs and the model would show";
inline constexpr char kCredentialsRemedy[] =
    "remove them, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use "
    "~/.aws/credentials";

// Returns the absolute path of a folder, without "." and "..", and without "/" at its end. A URI
// becomes its BucketPath(). Errors show when files are read.
std::string AbsoluteFolder(const std::string& path);

// --- Folders of models in buckets.
//
// People write s3://BUCKET/PREFIX?OPTIONS. Programs append names to paths, so they keep the options
// with the bucket: s3://BUCKET?OPTIONS/PREFIX, without a "/" at the end. Both forms are read.

struct UriError {
  std::string problem;
  std::string remedy;
};
// Returns why a URI cannot be the folder of a model; none for a URI that can. The texts do not show
// credentials.
std::optional<UriError> BucketPathError(std::string_view uri);

// Returns the form that programs keep. Options end at the next "/", so a name can be appended to
// either form before the call. Requires a URI without an error.
std::string BucketPath(std::string_view uri);

// The parts of a URI, of either form.
struct BucketAddress {
  std::string bucket;
  std::map<std::string, std::string> options;  // endpoint_override, scheme and region, as given.
  std::string key;                             // Without "/" at its ends. Not empty.
};
// Errors: INVALID_ARGUMENT for a URI with an error.
StatusOr<BucketAddress> ParseBucketPath(std::string_view uri);

// Returns the path of a model, given it, or a checkpoint or an attempt of one in it, as in
// MODEL/step-5.tmp-3. Requires a path in the form that programs keep.
std::string ModelFolderOf(const std::string& path);

}  // namespace simurgh
