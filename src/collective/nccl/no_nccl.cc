#include "simurgh/collective/nccl_library.h"

namespace simurgh {

StatusOr<NcclLibrary*> LoadNccl() {
  return absl::NotFoundError(
      "this program was built without NCCL; build the preset `cuda` where nccl.h is installed");
}

}  // namespace simurgh
