#pragma once

#include <memory>

#include "rpc/observer.h"

namespace simurgh::rpc {

// The way of a client's or a server's parts to its observer. Copies share it, so that one cut ends
// the reports of parts that are still ending themselves.
class ObserverLink {
 public:
  // observer may be null; outlives the link until Cut().
  explicit ObserverLink(Observer* observer)
      : target_(std::make_shared<Observer*>(observer ? observer : Nobody())) {}

  Observer* operator->() const { return *target_; }
  void Cut() { *target_ = Nobody(); }

 private:
  static Observer* Nobody() {
    static Observer nobody;
    return &nobody;
  }

  std::shared_ptr<Observer*> target_;
};

}  // namespace simurgh::rpc
