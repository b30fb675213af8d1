#include "nn/cuda/room_log.h"

#include <spdlog/spdlog.h>

namespace simurgh::cuda {

void LogRowRoom(size_t needed, size_t before, size_t now) {
  spdlog::warn(
      "dense network: a batch comes with {} bytes of rows, and the device had room for {}: it now "
      "has for {}; to have that at the start, set nn_worker.batch_row_bytes: {}",
      needed, before, now, now);
}

}  // namespace simurgh::cuda
