#include "collective/nccl_library.h"

namespace simurgh {

StatusOr<NcclLibrary*> LoadNccl() {
  return absl::NotFoundError(
      "this program was built without NCCL; build the preset `cuda` with nccl.h installed");
}

}  // namespace simurgh
