#include "bench/micro/nn_cuda/choose_products.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/micro/nn/networks.h"
#include "bench/micro/nn_cuda/random_memory.h"
#include "bench/micro/nn_cuda/steps.h"
#include "bench/micro/nn_cuda/stopwatch.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/layers.h"

namespace simurgh::bench {
namespace {

using cuda::CudaExecutor;
using cuda::ProductChoice;
using cuda::ProductKind;

// The number that GemmLibrary asks for. An index without an answer measures the first one again.
constexpr uint32_t kAnswers = 8;
// A choice differs from the first answer only if it is faster by this factor.
constexpr double kNoise = 0.98;

std::string NameOf(const ProductChoice& choice) {
  return absl::StrCat(choice.fuses ? "fused " : "plain ", choice.algorithm);
}

// Chooses for the layers of one network, on random data.
template <typename T>
class Chooser {
 public:
  Chooser(const ModelPlan& plan, size_t batch, ComputePrecision precision, size_t repeats)
      : plan_(plan),
        codes_(plan, {}),
        tensors_(plan, codes_, {}),
        batch_(batch),
        precision_(precision),
        repeats_(repeats) {}

  Status Run() {
    SIMURGH_ASSIGN_OR_RETURN(weights_,
                             RandomMemory<float>(tensors_.weight_bytes() / sizeof(float)));
    tensors_.SetWeights(weights_.get());
    tensors_.LayOut(batch_);
    SIMURGH_ASSIGN_OR_RETURN(block_,
                             RandomMemory<T>(tensors_.batch_plan().planner.bytes() / sizeof(T)));
    tensors_.SetBatch(block_.get());
    tensors_.SetRows(batch_, cuda::PlanTransfer(plan_, codes_, batch_), 0);
    // Backward passes read masks of forward ones, which must have their choices before.
    for (const bool backward : {false, true}) {
      for (size_t t = 0; t < plan_.towers.size(); ++t) {
        for (size_t i = 0; i < plan_.towers[t].layers.size(); ++i) {
          SIMURGH_RETURN_IF_ERROR(ChooseFor(t, i, backward));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  using Layers = cuda::Layers<CudaExecutor, T>;

  struct Chosen {
    ProductKind kind;
    ProductChoice choice;
  };

  // Milliseconds of the layer's pass with the choices so far and `trial`. seen: may be null.
  StatusOr<double> Time(size_t t, size_t i, bool backward, const Chosen* trial,
                        std::vector<ProductKind>* seen) {
    const auto choose = [&](const ProductKind& kind) -> std::optional<ProductChoice> {
      if (seen != nullptr) seen->push_back(kind);
      if (trial != nullptr && trial->kind == kind) return trial->choice;
      for (const Chosen& chosen : chosen_) {
        if (chosen.kind == kind) return chosen.choice;
      }
      return std::nullopt;
    };
    SIMURGH_ASSIGN_OR_RETURN(
        const std::unique_ptr<CudaExecutor> executor,
        CudaExecutor::Create({.precision = precision_, .choose_product = choose}));
    Layers layers(plan_, /*seed=*/1, *executor, tensors_);
    layers.TakeWeights(tensors_.parameters());
    const cuda::RankPass ranks{.samples = batch_};
    if (backward) {
      // Writes the masks that this layer's product reads.
      for (size_t before = 0; before < i; ++before) layers.Forward(t, before, &ranks);
      if (seen != nullptr) seen->clear();
    }
    const auto pass = [&] {
      backward ? layers.Backward(t, i, ranks) : layers.Forward(t, i, &ranks);
      return absl::OkStatus();
    };
    Stopwatch watch(executor->stream());
    SIMURGH_RETURN_IF_ERROR(watch.Start());
    SIMURGH_ASSIGN_OR_RETURN(const double ms, watch.Time(repeats_, pass));
    SIMURGH_RETURN_IF_ERROR(executor->Synchronize());
    return ms;
  }

  Status ChooseFor(size_t t, size_t i, bool backward) {
    std::vector<ProductKind> seen;
    SIMURGH_RETURN_IF_ERROR(Time(t, i, backward, nullptr, &seen).status());
    std::ranges::sort(seen);
    const auto repeated = std::ranges::unique(seen);
    seen.erase(repeated.begin(), repeated.end());
    for (const ProductKind& kind : seen) {
      const auto is_same = [&](const Chosen& chosen) { return chosen.kind == kind; };
      if (std::ranges::any_of(chosen_, is_same)) continue;
      Chosen best{kind, {.batch = kind.batch}};
      SIMURGH_ASSIGN_OR_RETURN(const double first, Time(t, i, backward, &best, nullptr));
      double least = first * kNoise;
      for (const bool fuses : {true, false}) {
        if (!fuses && kind.epilogue == cuda::Epilogue::kNone) continue;
        for (uint32_t algorithm = fuses ? 1 : 0; algorithm < kAnswers; ++algorithm) {
          const Chosen trial{kind, {kind.batch, fuses, algorithm}};
          SIMURGH_ASSIGN_OR_RETURN(const double ms, Time(t, i, backward, &trial, nullptr));
          if (ms >= least) continue;
          least = ms;
          best = trial;
        }
      }
      chosen_.push_back(best);
      if (NameOf(best.choice) == "fused 0") continue;
      std::printf("# %.4f ms instead of %.4f\n%s %s\n", least, first, ToString(kind).c_str(),
                  NameOf(best.choice).c_str());
      std::fflush(stdout);
    }
    return absl::OkStatus();
  }

  const ModelPlan& plan_;
  const cuda::WireCodes codes_;
  cuda::Tensors<T> tensors_;
  const size_t batch_;
  const ComputePrecision precision_;
  const size_t repeats_;
  cuda::DeviceMemory weights_ = cuda::NoMemory();
  cuda::DeviceMemory block_ = cuda::NoMemory();
  std::vector<Chosen> chosen_;
};

Status Choose(const ModelPlan& plan, size_t batch, const std::string& precision, size_t repeats) {
  if (precision == "bf16") {
    return Chooser<cuda::Bfloat16>(plan, batch, ComputePrecision::kBf16, repeats).Run();
  }
  if (precision == "f16") {
    return Chooser<cuda::Float16>(plan, batch, ComputePrecision::kF16, repeats).Run();
  }
  const auto compute = precision == "tf32" ? ComputePrecision::kTf32 : ComputePrecision::kF32;
  return Chooser<float>(plan, batch, compute, repeats).Run();
}

}  // namespace

Status ChooseProducts(const NnCudaOptions& options, const std::string& device) {
  SIMURGH_ASSIGN_OR_RETURN(const cuda::CublasLt* const lt, cuda::CublasLt::Load());
  std::printf("[%s; %zu]\n", device.c_str(), lt->version());
  for (const std::string& network : options.networks) {
    const ModelPlan plan = PlanOf(SubjectOf(network));
    for (const std::string& precision : options.precisions) {
      for (const uint32_t batch : options.batches) {
        SIMURGH_RETURN_IF_ERROR(Choose(plan, batch, precision, options.repeats));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh::bench
