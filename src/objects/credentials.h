#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "objects/web_client.h"

#include "base/mutex.h"
#include "base/status.h"

namespace simurgh {

// Finds an access key where Amazon's own programs do, in this order:
//   1. the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN;
//   2. a token file of Kubernetes: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN;
//   3. the profile AWS_PROFILE, or `default`, in ~/.aws/credentials or
//      AWS_SHARED_CREDENTIALS_FILE, then in ~/.aws/config or AWS_CONFIG_FILE: a key, a token file
//      with its role, or credential_process;
//   4. the container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with the token in
//      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or AWS_CONTAINER_AUTHORIZATION_TOKEN;
//   5. the instance's metadata, version 2, unless AWS_EC2_METADATA_DISABLED is true.
// A key that expires is renewed five minutes before, or after half of its life if that is shorter.
// While a renewal fails, the old key is used until it expires.
//
// Messages have no secret: no key, no token, and no text of a file or program that has them.
//
// Threads: any. A call waits while another one looks for a key.
class CredentialChain {
 public:
  using Clock = std::chrono::system_clock;

  // web: must outlive the chain. now: the clock, which tests replace.
  explicit CredentialChain(WebClient& web, std::function<Clock::time_point()> now = Clock::now)
      : web_(web), now_(std::move(now)) {}

  // Errors: PERMISSION_DENIED if no place has a key, or a service refuses to give one, with the
  // places and the remedy; FAILED_PRECONDITION for a place that is incomplete or not supported;
  // UNAVAILABLE if a service that gives keys does not answer.
  StatusOr<AccessKey> Key();
  // Forgets the key, which the store has refused: the next call of Key() looks for a new one.
  void Forget(const AccessKey& refused);

 private:
  struct Held {
    AccessKey key;
    std::optional<Clock::time_point> expires;
    Clock::time_point renewal;  // Set if the key expires.
  };

  WebClient& web_;
  const std::function<Clock::time_point()> now_;
  Mutex mutex_;
  std::optional<Held> held_ ABSL_GUARDED_BY(mutex_);
};

// Returns the region of the environment or the profile: AWS_REGION, AWS_DEFAULT_REGION, then the
// profile's key `region` in ~/.aws/config or AWS_CONFIG_FILE. Returns "" for none.
std::string ConfiguredRegion();

}  // namespace simurgh
