#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "train/ports.h"

namespace simurgh::testing {

// Answers every call at once; all embeddings are 0.5.
class ReadyPort : public EmbeddingPort {
 public:
  void Submit(SubmittedIds /*ids*/, const SubmitOptions& /*options*/,
              std::function<void(StatusOr<BatchReference>)> done) override {
    done(BatchReference());
  }
  void Pull(BatchReference /*batch*/, const PullOptions& /*options*/, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    std::ranges::fill(embeddings.floats(), 0.5F);
    done(PullAnswer());
  }
  void Push(BatchReference /*batch*/, StepId /*step_id*/, GradientBuffer /*gradients*/,
            std::function<void(Status)> done) override {
    done(absl::OkStatus());
  }
};

}  // namespace simurgh::testing
