#pragma once

#include <array>

#include "base/status.h"
#include "simurgh/arrow_module.h"

namespace simurgh {

// Loads libsimurgh_arrow.so, see OpenArrowSource; it then stays loaded. Errors:
// FAILED_PRECONDITION without the module, with the remedy. Threads: any.
StatusOr<const simurgh_arrow_module*> ArrowModule();

// Room for a message of the module.
class ModuleMessage {
 public:
  simurgh_arrow_message* room() { return &room_; }

  // Returns the status of a call with this room.
  Status Of(simurgh_arrow_result result) const;

 private:
  std::array<char, 1'024> bytes_{};
  simurgh_arrow_message room_{bytes_.data(), bytes_.size()};
};

}  // namespace simurgh
