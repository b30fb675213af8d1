#include "simurgh/telemetry/profile_range.h"

#if defined(SIMURGH_CUDA)
#include <nvtx3/nvToolsExt.h>
#endif

namespace simurgh {

#if defined(SIMURGH_CUDA)

uint64_t BeginProfileRange(const char* name, uint64_t step) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = step;
  return nvtxRangeStartEx(&attributes);
}

void EndProfileRange(uint64_t range) { nvtxRangeEnd(range); }

#else

uint64_t BeginProfileRange(const char* /*name*/, uint64_t /*step*/) { return 0; }

void EndProfileRange(uint64_t /*range*/) {}

#endif

}  // namespace simurgh
