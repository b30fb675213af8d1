#include "nn/cuda/gemm_library.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

#include <spdlog/sinks/ostream_sink.h>

#include <catch2/catch.hpp>

#include "base/log.h"
#include "tests/support/skip.h"
#include "tests/unit/nn/cuda/fake_cublas_lt.h"
#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/test_models.h"

// GemmLibrary's plans on FakeCublasLt, and the fake itself against the header's rules and against
// the real library.
namespace simurgh::testing {
namespace {

using cuda::Element;
using cuda::Epilogue;
using cuda::Gemm;
using cuda::GemmLibrary;
using cuda::ProductChoices;
using cuda::ProductKind;

cuda::DeviceMemory Allocate(size_t bytes) {
  return {static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)),
          [](std::byte* memory) { std::free(memory); }};
}

template <typename T>
struct Owned {
  Owned(size_t rows, size_t columns)
      : memory(Allocate(rows * columns * sizeof(T))),
        view{reinterpret_cast<T*>(memory.get()), rows, columns, columns} {
    std::fill_n(view.data, rows * columns, T{1});
  }
  cuda::DeviceMemory memory;
  cuda::Matrix<T> view;
};

// Products of f32 matrices of ones: (rows, 16) by (16, 8).
struct Products {
  explicit Products(FakeCublasLt::Options options, std::string_view table = "")
      : lt(std::move(options)) {
    auto created = GemmLibrary::Create(
        lt.functions(),
        {.precision = ComputePrecision::kF32,
         .choose = [choices = *ProductChoices::Parse("[any; 1]\n" + std::string(table), "any", 1)](
                       const ProductKind& kind) { return choices.Find(kind); },
         .allocate = Allocate});
    REQUIRE(created.ok());
    library = *std::move(created);
  }

  // bias_offset: of the bias in aligned memory, in elements.
  GemmLibrary::Outcome Multiply(size_t rows, Epilogue epilogue, size_t bias_offset = 0) {
    const Owned<float> a(rows, 16);
    const Owned<float> b(16, 8);
    const Owned<float> bias(1, 16);
    const Owned<std::byte> bits(rows, 16);
    cuda::ReluMask mask{.bits = bits.view.data, .row_bits = 128};
    const Owned<float> d(rows, 8);
    const Gemm<float, float> gemm{.a = a.view,
                                  .b = b.view,
                                  .depth = 16,
                                  .d = d.view,
                                  .epilogue = epilogue,
                                  .bias = bias.view.data + bias_offset,
                                  .mask = &mask};
    const auto outcome = library->Multiply(gemm, nullptr);
    REQUIRE(outcome.ok());
    CHECK(lt.rejections().empty());
    if (*outcome != GemmLibrary::Outcome::kNotTaken) {
      const bool biased = *outcome == GemmLibrary::Outcome::kFused && epilogue == Epilogue::kBias;
      CHECK(d.view(rows - 1, 7) == (biased ? 17.0F : 16.0F));
    }
    return *outcome;
  }

  FakeCublasLt lt;
  std::unique_ptr<GemmLibrary> library;
};

TEST_CASE("without a measurement, the first answer for the fused product counts") {
  Products products({});
  CHECK(products.Multiply(4, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  REQUIRE(products.lt.products().size() == 1);
  CHECK(products.lt.products()[0].epilogue == CUBLASLT_EPILOGUE_BIAS);
  CHECK(products.lt.products()[0].algorithm == 0);
  CHECK(products.lt.products()[0].asked == 4);
}

TEST_CASE("a measured choice decides the algorithm, and whether the product is fused") {
  Products products({},
                    "f32 f32 nn bias 8 16 64 fused 2\n"
                    "f32 f32 nn bias 8 16 128 plain 1\n"
                    "f32 f32 nn none 8 16 64 fused 1\n");
  const auto& done = products.lt.products();
  // The choice for the next larger batch, asked for that batch.
  CHECK(products.Multiply(40, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 2);
  CHECK(done.back().asked == 64);
  CHECK(products.Multiply(64, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 2);
  CHECK(products.Multiply(65, Epilogue::kBias) == GemmLibrary::Outcome::kPlain);
  CHECK(done.back().epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  CHECK(done.back().algorithm == 1);
  // A batch far below the measured ones, and a larger one.
  CHECK(products.Multiply(16, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 2);
  CHECK(products.Multiply(15, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 0);
  CHECK(products.Multiply(129, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 0);
  CHECK(done.back().asked == 129);
  // A product that has no epilogue does not take the plan of one that is not fused.
  CHECK(products.Multiply(64, Epilogue::kNone) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 1);
  CHECK(products.Multiply(65, Epilogue::kNone) == GemmLibrary::Outcome::kFused);
  CHECK(done.back().algorithm == 0);
}

TEST_CASE("a choice that does not fit falls back to the first answer") {
  const char* const table = "f32 f32 nn bias 8 16 64 fused 2\n";
  Products strict({.strict_batches = true}, table);
  CHECK(strict.Multiply(40, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(strict.lt.products().back().algorithm == 0);
  CHECK(strict.lt.products().back().asked == 40);
  CHECK(strict.Multiply(64, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(strict.lt.products().back().algorithm == 2);
  // Fewer answers than when it was measured.
  Products fewer({.algorithms = 1}, table);
  CHECK(fewer.Multiply(64, Epilogue::kBias) == GemmLibrary::Outcome::kFused);
  CHECK(fewer.lt.products().back().algorithm == 0);
  Products plain({.fuse = false}, table);
  CHECK(plain.Multiply(64, Epilogue::kBias) == GemmLibrary::Outcome::kPlain);
  CHECK(plain.lt.products().back().algorithm == 0);
}

TEST_CASE("a product that is not fused or not taken is logged once per shape") {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  const auto lines = [&] {
    const std::string text = std::exchange(log, std::ostringstream()).str();
    return std::ranges::count(text, '\n');
  };
  {
    Products products({.fuse = false});
    products.Multiply(4, Epilogue::kBias);
    CHECK(log.str().find("product=\"f32 f32 nn bias 8 16 4\"") != std::string::npos);
    CHECK(lines() == 1);
    products.Multiply(4, Epilogue::kBias);
    products.Multiply(5, Epilogue::kBias);
    products.Multiply(5, Epilogue::kNone);
    CHECK(lines() == 0);
    products.Multiply(5, Epilogue::kBiasRelu);
    CHECK(lines() == 1);
  }
  {
    Products products({.takes = false});
    CHECK(products.Multiply(4, Epilogue::kBias) == GemmLibrary::Outcome::kNotTaken);
    CHECK(lines() == 2);
    products.Multiply(6, Epilogue::kBias);
    CHECK(lines() == 0);
  }
  {
    Products products({});
    CHECK(products.Multiply(4, Epilogue::kBias, 1) == GemmLibrary::Outcome::kPlain);
    CHECK(log.str().find("not aligned: product=\"f32 f32 nn bias 8 16 4\"") != std::string::npos);
    CHECK(lines() == 1);
    products.Multiply(5, Epilogue::kBias, 1);
    CHECK(lines() == 0);
    CHECK(products.Multiply(4, Epilogue::kReluBackward) == GemmLibrary::Outcome::kPlain);
    CHECK(log.str().find("no mask: product=\"f32 f32 nn relu_backward 8 16 4\"") !=
          std::string::npos);
    CHECK(lines() == 1);
    products.Multiply(5, Epilogue::kReluBackward);
    CHECK(lines() == 0);
  }
  {
    Products products({}, "f32 f32 nn bias 8 16 4 plain 0\n");
    CHECK(products.Multiply(4, Epilogue::kBias, 1) == GemmLibrary::Outcome::kPlain);
    CHECK(lines() == 0);
  }
  spdlog::set_default_logger(before);
}

TEST_CASE("plans are bounded, and freed") {
  const int before = FakeCublasLt::LiveObjects();
  {
    Products products({});
    for (size_t rows = 1; rows <= 1'500; ++rows) products.Multiply(rows, Epilogue::kNone);
    // A descriptor and four layouts each, and the handle.
    CHECK(FakeCublasLt::LiveObjects() - before == 1'024 * 5 + 1);
    // The oldest plan is made again.
    products.Multiply(1, Epilogue::kNone);
    CHECK(FakeCublasLt::LiveObjects() - before == 1'024 * 5 + 1);
  }
  CHECK(FakeCublasLt::LiveObjects() == before);
}

TEST_CASE("a table of choices is parsed for one device and version") {
  const char* const table = R"(
    # Comment
    [A; 1]
    bf16 f32 tn bias_gradient 512 1024 4096 plain 3
    [A B; 1]
    tf32 f32 nt+ relu_backward 1 2 3 fused 7
    [A; 2]
  )";
  const ProductKind gradient{.in = Element::kBf16,
                             .out = Element::kF32,
                             .a_transposed = true,
                             .b_transposed = false,
                             .adds = false,
                             .epilogue = Epilogue::kBiasGradient,
                             .columns = 512,
                             .others = 1024,
                             .batch = 4096};
  CHECK(cuda::ToString(gradient) == "bf16 f32 tn bias_gradient 512 1024 4096");
  const auto found = ProductChoices::Parse(table, "A", 1)->Find(gradient);
  REQUIRE(found.has_value());
  CHECK(found->batch == 4096);
  CHECK_FALSE(found->fuses);
  CHECK(found->algorithm == 3);
  CHECK_FALSE(ProductChoices::Parse(table, "A", 2)->Find(gradient).has_value());
  CHECK_FALSE(ProductChoices::Parse(table, "A B", 1)->Find(gradient).has_value());
  const ProductKind backward{.in = Element::kTf32,
                             .out = Element::kF32,
                             .a_transposed = false,
                             .b_transposed = true,
                             .adds = true,
                             .epilogue = Epilogue::kReluBackward,
                             .columns = 1,
                             .others = 2,
                             .batch = 3};
  CHECK(cuda::ToString(backward) == "tf32 f32 nt+ relu_backward 1 2 3");
  CHECK(ProductChoices::Parse(table, "A B", 1)->Find(backward)->algorithm == 7);
  for (const char* line : {"bf16 f32 tn none 1 1 1 fused", "bf17 f32 tn none 1 1 1 fused 0",
                           "bf16 f32 tx none 1 1 1 fused 0", "bf16 f32 tn no 1 1 1 fused 0",
                           "bf16 f32 tn none 0 1 1 fused 0", "bf16 f32 tn none 1 1 1 fast 0",
                           "bf16 f32 tn none 1 1 1 plain -1", "bf16 f32 tn none 1 1 1 plain 0 0"}) {
    CAPTURE(line);
    const auto parsed = ProductChoices::Parse(absl::StrCat("\n", line), "A", 1);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().ToString().find("line 2") != std::string::npos);
  }
  // The shipped table has no syntax errors.
  CHECK_FALSE(ProductChoices::Shipped("no device", 1).Find(gradient).has_value());
}

// A product of cuBLASLt itself: D (4, 6) = A (4, 8) B (8, 6) in f32, all with a leading dimension
// of 8.
struct RawProduct {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* bias = nullptr;
  int64_t aux_ld = 128;
  void* aux = nullptr;
  uint64_t depth = 8;
  size_t a_offset = 0;  // In floats.
  uint32_t a_alignment = 256;
  size_t workspace_bytes = 0;

  // Returns why it was rejected; empty: it was computed.
  std::string Run() const {
    FakeCublasLt fake({});
    const cuda::CublasLt& lt = fake.functions();
    cublasLtHandle_t handle;
    lt.create(&handle);
    cublasLtMatmulDesc_t desc;
    lt.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      CHECK(lt.desc_set(desc, attribute, static_cast<const void*>(&value), sizeof(value)) ==
            CUBLAS_STATUS_SUCCESS);
    };
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    cublasLtMatrixLayout_t a, b, d;
    lt.layout_create(&a, CUDA_R_32F, 4, depth, 8);
    lt.layout_create(&b, CUDA_R_32F, depth, 6, 8);
    lt.layout_create(&d, CUDA_R_32F, 4, 6, 8);
    cublasLtMatmulPreference_t preference;
    lt.preference_create(&preference);
    lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a_alignment,
                      sizeof(a_alignment));
    const uint64_t most = 8 << 20;
    lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most));
    cublasLtMatmulHeuristicResult_t answers[2];
    int found = 0;
    cublasStatus_t status = lt.heuristic(handle, desc, a, b, d, d, preference, 2, answers, &found);
    if (status == CUBLAS_STATUS_SUCCESS) {
      const Owned<float> operand(1, 128);
      const Owned<float> other(1, 128);
      const Owned<float> result(1, 128);
      const cuda::DeviceMemory workspace = Allocate(2 << 20);
      const float alpha = 1;
      const float beta = 0;
      status = lt.matmul(handle, desc, &alpha, operand.view.data + a_offset, a, other.view.data, b,
                         &beta, result.view.data, d, result.view.data, d, &answers[1].algo,
                         workspace.get(), workspace_bytes, nullptr);
    }
    CHECK((status == CUBLAS_STATUS_SUCCESS) == fake.rejections().empty());
    lt.preference_destroy(preference);
    for (cublasLtMatrixLayout_t layout : {a, b, d}) lt.layout_destroy(layout);
    lt.desc_destroy(desc);
    lt.destroy(handle);
    return fake.rejections().empty() ? "" : fake.rejections().front();
  }
};

TEST_CASE("the fake rejects what cuBLASLt's header forbids") {
  alignas(256) float vector[64] = {};
  const RawProduct valid{.workspace_bytes = 1 << 20};
  const auto reason = [&](const auto& change) {
    RawProduct product = valid;
    change(product);
    return product.Run();
  };
  CHECK(valid.Run().empty());
  CHECK(reason([](auto& p) { p.depth = 0; }) == "an empty matrix");
  CHECK(reason([](auto& p) { p.workspace_bytes = 1000; }) == "workspace too small");
  CHECK(reason([](auto& p) { p.a_offset = 4; }) == "a matrix below its promised alignment");
  CHECK(reason([](auto& p) { p.a_offset = 4, p.a_alignment = 16; }).empty());
  const auto with_bias = [&](auto& p) {
    p.epilogue = CUBLASLT_EPILOGUE_BIAS;
    p.bias = vector;
  };
  CHECK(reason(with_bias).empty());
  CHECK(reason([&](auto& p) { with_bias(p), p.bias = nullptr; }) == "no bias");
  CHECK(reason([&](auto& p) { with_bias(p), p.bias_type = CUDA_R_16BF; }) == "type of the bias");
  const auto with_mask = [&](auto& p) {
    with_bias(p);
    p.epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    p.aux = vector + 32;
  };
  const char* const wrong_ld = "leading dimension of the auxiliary buffer";
  CHECK(reason(with_mask).empty());
  CHECK(reason([&](auto& p) { with_mask(p), p.aux_ld = 64; }) == wrong_ld);
  CHECK(reason([&](auto& p) { with_mask(p), p.aux = nullptr; }) == "no auxiliary buffer");
  const auto with_gelu = [&](auto& p) {
    with_mask(p);
    p.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    p.aux_ld = 8;
    p.aux = vector + 8;
  };
  CHECK(reason(with_gelu).empty());
  CHECK(reason([&](auto& p) { with_gelu(p), p.aux_ld = 12; }) == wrong_ld);
  CHECK(reason([&](auto& p) { with_gelu(p), p.aux_ld = 0; }) ==
        "auxiliary buffer has too few rows");
}

// What GemmLibrary's calls without a device return: sizes of attributes and values of enumerations.
void CheckDescriptors(const cuda::CublasLt& lt, bool is_real) {
  CAPTURE(is_real);
  cublasLtMatmulDesc_t desc = nullptr;
  for (const cublasComputeType_t compute : {CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F}) {
    if (desc != nullptr) lt.desc_destroy(desc);
    REQUIRE(lt.desc_create(&desc, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  }
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return lt.desc_set(desc, attribute, static_cast<const void*>(&value), sizeof(value));
  };
  CHECK(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T) == CUBLAS_STATUS_SUCCESS);
  CHECK(set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_STATUS_SUCCESS);
  for (const cublasLtEpilogue_t epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
        CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_DEFAULT}) {
    CHECK(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) == CUBLAS_STATUS_SUCCESS);
  }
  CHECK(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF) == CUBLAS_STATUS_SUCCESS);
  const void* const pointer = &lt;
  CHECK(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer) == CUBLAS_STATUS_SUCCESS);
  CHECK(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointer) == CUBLAS_STATUS_SUCCESS);
  CHECK(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{128}) == CUBLAS_STATUS_SUCCESS);
  CHECK(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int32_t{128}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, int32_t{0}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(set(cublasLtMatmulDescAttributes_t{1000}, int32_t{0}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(lt.desc_destroy(desc) == CUBLAS_STATUS_SUCCESS);

  for (const cudaDataType_t type : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) {
    cublasLtMatrixLayout_t layout = nullptr;
    REQUIRE(lt.layout_create(&layout, type, 7, 5, 8) == CUBLAS_STATUS_SUCCESS);
    CHECK(lt.layout_destroy(layout) == CUBLAS_STATUS_SUCCESS);
  }

  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(lt.preference_create(&preference) == CUBLAS_STATUS_SUCCESS);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return lt.preference_set(preference, attribute, &value, sizeof(value));
  };
  CHECK(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, size_t{32} << 20) ==
        CUBLAS_STATUS_SUCCESS);
  const uint32_t reductions =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  CHECK(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions) == CUBLAS_STATUS_SUCCESS);
  for (const cublasLtMatmulPreferenceAttributes_t attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    CHECK(prefer(attribute, uint32_t{16}) == CUBLAS_STATUS_SUCCESS);
    CHECK(prefer(attribute, uint64_t{16}) == CUBLAS_STATUS_INVALID_VALUE);
  }
  CHECK(lt.preference_destroy(preference) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("descriptors take GemmLibrary's attributes, and no others, in the fake") {
  CheckDescriptors(FakeCublasLt({}).functions(), false);
}

TEST_CASE("descriptors take GemmLibrary's attributes in the real cuBLASLt") {
  const StatusOr<const cuda::CublasLt*> lt = cuda::CublasLt::Load();
  if (!lt.ok()) SIMURGH_SKIP(lt.status().ToString());
  CHECK((*lt)->version() >= 130'000);
  CheckDescriptors(**lt, true);
}

TEST_CASE("products have no side of one, and rows of whole words of 16 bytes") {
  DenseNetworkOptions options;
  options.inputs = TestInputs(3);
  for (const ModelConfig& model : {Chain({Linear(8), Relu(), Linear(1)}), TwoTasks()}) {
    std::vector<FakeCublasLt::Product> products;
    const bool two_tasks = model.tasks.size() == 2;
    auto network = CreateHostNetwork(model, options, {.products = &products});
    REQUIRE(network.ok());
    Random random(1);
    const TestBatch batch(6, 3, 6, random, two_tasks ? 2 : 1);
    std::vector<float> gradient(6 * 6);
    std::vector<float> probabilities(two_tasks ? 12 : 6);
    REQUIRE(ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                             {gradient.data(), 6, 6}, probabilities)
                .ok());
    REQUIRE_FALSE(products.empty());
    for (const FakeCublasLt::Product& product : products) {
      CHECK(product.rows > 1);
      // The inputs are 9 wide.
      CHECK(product.rows != 9);
    }
  }
}

TEST_CASE("bias gradients are fused behind layers of an odd number of parameters") {
  DenseNetworkOptions options;
  options.inputs = TestInputs(3);
  std::vector<FakeCublasLt::Product> products;
  auto network = CreateHostNetwork(Chain({Linear(9), Relu(), Linear(64), Relu(), Linear(1)}),
                                   options, {.products = &products});
  REQUIRE(network.ok());
  Random random(1);
  const TestBatch batch(6, 3, 6, random);
  std::vector<float> gradient(6 * 6);
  std::vector<float> probabilities(6);
  REQUIRE(ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                           {gradient.data(), 6, 6}, probabilities)
              .ok());
  CHECK(std::ranges::count(products, CUBLASLT_EPILOGUE_BGRADA, &FakeCublasLt::Product::epilogue) ==
        2);
}

}  // namespace
}  // namespace simurgh::testing
