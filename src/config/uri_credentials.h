#pragma once

#include <string_view>

namespace simurgh {

// Returns whether a URI has the form s3://KEY:SECRET@BUCKET/. Logs and models show URIs.
inline bool HasCredentials(std::string_view path) {
  const size_t scheme = path.find("://");
  if (scheme == path.npos) return false;
  const bool is_s3 = path.starts_with("s3:");
  path.remove_prefix(scheme + 3);
  const std::string_view authority = path.substr(0, path.find('/'));
  const size_t at = authority.find('@');
  return at != authority.npos && (is_s3 || authority.substr(0, at).find(':') != authority.npos);
}

// What is wrong with such a URI, and the remedy.
inline constexpr char kCredentialsProblem[] =
    "has credentials in its URI, which logs and the model would show";
inline constexpr char kCredentialsRemedy[] =
    "remove them, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use "
    "~/.aws/credentials";

}  // namespace simurgh
