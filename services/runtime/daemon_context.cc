#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "services/runtime/daemon.h"
#include "simurgh/base/log.h"
#include "simurgh/base/settings.h"
#include "simurgh/config/agreement.h"

namespace simurgh {

DaemonContext::DaemonContext(std::string role, ClusterConfig config, RpcOptions rpc_options,
                             InstanceConfig instance, uint32_t index)
    : role_(std::move(role)),
      config_(std::move(config)),
      rpc_options_(std::move(rpc_options)),
      instance_(std::move(instance)),
      index_(index),
      incarnation_(uint64_t{std::random_device()()} << 32 | std::random_device()() | 1) {
}  // Not 0.

rpc::Hello DaemonContext::hello() const {
  rpc::Hello hello;
  hello.cluster = config_.name;
  hello.role = role_;
  hello.index = index_;
  hello.incarnation = incarnation_;
  hello.configuration = ClusterAgreement(config_);
  return hello;
}

void DaemonContext::SetReady() {
  MutexLock lock(mutex_);
  started_ = true;
}

void DaemonContext::SetWaiting(const std::string& what, Status reason) {
  MutexLock lock(mutex_);
  if (reason.ok()) {
    waiting_.erase(what);
  } else {
    waiting_[what] = std::move(reason);
  }
}

Status DaemonContext::waiting() const {
  MutexLock lock(mutex_);
  return waiting_.empty() ? absl::OkStatus() : waiting_.begin()->second;
}

Readiness DaemonContext::readiness() const {
  MutexLock lock(mutex_);
  if (stopping_) return {false, "stopping"};
  if (!waiting_.empty()) return {false, std::string(waiting_.begin()->second.message())};
  if (!started_) return {false, "starting"};
  return {true, ""};
}

void DaemonContext::Fail(Status reason) {
  spdlog::error("failed: {}", reason.ToString(absl::StatusToStringMode::kWithNoExtraData));
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(reason);
  }
  stop_.request_stop();
}

void DaemonContext::SetReload(ReloadFunction reload) {
  MutexLock lock(reload_mutex_);
  reload_ = std::move(reload);
}

Status DaemonContext::Reload(const ClusterConfig& config) {
  MutexLock lock(reload_mutex_);
  if (!reload_) {
    return absl::FailedPreconditionError(
        absl::StrCat(role_, " does not support reloading; restart it"));
  }
  const std::string difference =
      SettingsDifference(ClusterAgreement(config), "new", ClusterAgreement(config_), "running");
  if (!difference.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("all daemons must agree on ", difference,
                                                      "; restart the cluster, or undo the change"));
  }
  return reload_(config);
}

void DaemonContext::BeginStop() {
  SetReload(nullptr);
  MutexLock lock(mutex_);
  stopping_ = true;
}

Status DaemonContext::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

}  // namespace simurgh
