#include "train/loader.h"

#include <optional>
#include <utility>

#include "simurgh/base/thread.h"

namespace simurgh {
namespace {

Status Load(const OpenReader& open, const LoaderOptions& options, BatchPipeline& pipeline) {
  uint64_t batches = 0;
  for (uint32_t pass = 0; pass < options.passes; ++pass) {
    SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<BatchReader> reader, open());
    while (true) {
      SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader->Next());
      if (!batch || (options.drop_last && batch->size() < options.batch_size)) break;
      if (!pipeline.Feed(*std::move(batch))) return absl::OkStatus();
      if (++batches == options.max_batches) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace

Loader::Loader(OpenReader open, LoaderOptions options, BatchPipeline& pipeline)
    : pipeline_(pipeline), thread_([open = std::move(open), options, &pipeline] {
        SetThreadName("loader");
        pipeline.EndInput(Load(open, options, pipeline));
      }) {}

Loader::~Loader() {
  pipeline_.Stop();
  thread_.join();
}

}  // namespace simurgh
