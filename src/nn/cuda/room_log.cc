#include "nn/cuda/room_log.h"

#include "simurgh/base/log.h"

namespace simurgh::cuda {

void LogRowRoom(size_t needed, size_t before, size_t now) {
  spdlog::warn(
      "dense network: batch_row_bytes grew: needed={} before={} now={}; set "
      "nn_worker.batch_row_bytes: {} to reserve them at start-up",
      needed, before, now, now);
}

}  // namespace simurgh::cuda
