#pragma once

#include <memory>

#include "rpc/observer.h"

namespace simurgh::rpc {

// A shared pointer to an observer. Detach() of one copy detaches all, so that sessions that outlive
// their client or server stop reporting.
class ObserverLink {
 public:
  // observer: may be null; outlives the link until Detach().
  explicit ObserverLink(Observer* observer)
      : target_(std::make_shared<Observer*>(observer ? observer : Null())) {}

  Observer* operator->() const { return *target_; }
  void Detach() { *target_ = Null(); }

 private:
  static Observer* Null() {
    static Observer null;
    return &null;
  }

  std::shared_ptr<Observer*> target_;
};

}  // namespace simurgh::rpc
