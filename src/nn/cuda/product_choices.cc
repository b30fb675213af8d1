#include "nn/cuda/product_choices.h"

#include <array>
#include <span>
#include <sstream>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh::cuda {
namespace {

// Output of bench_nn_cuda --choose.
constexpr std::string_view kTable = R"(
# No device has been measured.
)";

// A choice holds for batches down to this fraction of the measured one.
constexpr size_t kMaxLarger = 4;

constexpr std::array<std::string_view, 4> kElements = {"f32", "tf32", "bf16", "f16"};
// Indexed by Epilogue.
constexpr std::array<std::string_view, 8> kEpilogues = {
    "none",          "bias",      "bias_relu",     "bias_relu_mask",
    "relu_backward", "bias_gelu", "gelu_backward", "bias_gradient"};

template <typename Enum>
bool ParseName(std::string_view text, std::span<const std::string_view> names, Enum* value) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != text) continue;
    *value = static_cast<Enum>(i);
    return true;
  }
  return false;
}

bool ParseOperations(std::string_view text, ProductKind* kind) {
  kind->adds = text.ends_with('+');
  if (kind->adds) text.remove_suffix(1);
  if (text.size() != 2 || text.find_first_not_of("nt") != std::string_view::npos) return false;
  kind->a_transposed = text[0] == 't';
  kind->b_transposed = text[1] == 't';
  return true;
}

bool ParseChoice(const std::string& line, ProductKind* kind, ProductChoice* choice) {
  std::istringstream words(line);
  std::string in, out, operations, epilogue, way, rest;
  int64_t columns = 0, others = 0, batch = 0, algorithm = -1;
  words >> in >> out >> operations >> epilogue >> columns >> others >> batch >> way >> algorithm;
  if (words.fail() || words >> rest) return false;
  if (columns < 1 || others < 1 || batch < 1 || algorithm < 0) return false;
  kind->columns = static_cast<size_t>(columns);
  kind->others = static_cast<size_t>(others);
  kind->batch = choice->batch = static_cast<size_t>(batch);
  choice->fuses = way == "fused";
  choice->algorithm = static_cast<uint32_t>(algorithm);
  return ParseName(in, kElements, &kind->in) && ParseName(out, kElements, &kind->out) &&
         ParseOperations(operations, kind) && ParseName(epilogue, kEpilogues, &kind->epilogue) &&
         (choice->fuses || way == "plain");
}

}  // namespace

std::string ToString(const ProductKind& kind) {
  std::ostringstream text;
  text << kElements[static_cast<size_t>(kind.in)] << ' ' << kElements[static_cast<size_t>(kind.out)]
       << ' ' << (kind.a_transposed ? 't' : 'n') << (kind.b_transposed ? 't' : 'n')
       << (kind.adds ? "+ " : " ") << kEpilogues[static_cast<size_t>(kind.epilogue)] << ' '
       << kind.columns << ' ' << kind.others << ' ' << kind.batch;
  return text.str();
}

StatusOr<ProductChoices> ProductChoices::Parse(std::string_view table, std::string_view device,
                                               size_t version) {
  ProductChoices result;
  const std::string wanted = absl::StrCat("[", std::string(device), "; ", version, "]");
  std::istringstream lines{std::string(table)};
  bool is_wanted = false;
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.erase(0, line.find_first_not_of(' '));
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      is_wanted = line == wanted;
      continue;
    }
    ProductKind kind{};
    ProductChoice choice;
    if (!ParseChoice(line, &kind, &choice)) {
      return absl::InvalidArgumentError(absl::StrCat("table of products: line ", number, ": '",
                                                     line,
                                                     "' is no choice; see product_choices.h"));
    }
    if (is_wanted) result.choices_[kind] = choice;
  }
  return result;
}

ProductChoices ProductChoices::Shipped(std::string_view device, size_t version) {
  StatusOr<ProductChoices> choices = Parse(kTable, device, version);
  SIMURGH_CHECK(choices.ok()) << choices.status().ToString();
  return *std::move(choices);
}

std::optional<ProductChoice> ProductChoices::Find(const ProductKind& kind) const {
  const auto found = choices_.lower_bound(kind);
  if (found == choices_.end()) return std::nullopt;
  ProductKind same = found->first;
  same.batch = kind.batch;
  const bool fits = same == kind && found->second.batch <= kMaxLarger * kind.batch;
  return fits ? std::optional(found->second) : std::nullopt;
}

}  // namespace simurgh::cuda
