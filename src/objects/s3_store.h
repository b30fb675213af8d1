#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "objects/object_store.h"

#include "base/status.h"

namespace simurgh {

// Opens a place in a store with S3's protocol: "s3://BUCKET/PREFIX", with options after `?`:
// `endpoint_override=HOST:PORT`, `scheme=http` and `region=NAME`. Without them, the environment
// decides: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION; see credentials.h for keys.
//
// A request is tried again after 0.1 s, 0.2 s and so on up to 3 s, if the store does not answer or
// says that it cannot now. tries_for: how long.
//
// Errors: INVALID_ARGUMENT for another scheme, no bucket, credentials or unknown options in the
// URI; FAILED_PRECONDITION without libcurl.
StatusOr<std::unique_ptr<ObjectStore>> OpenS3(
    const std::string& uri, std::chrono::milliseconds tries_for = std::chrono::seconds(30));

}  // namespace simurgh
