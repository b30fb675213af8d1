#include "data/reading/arrow_vectors.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"

#include "data/reading/arrow_file.h"

namespace simurgh {

Status WriteParquetVectors(const std::string& path, std::span<const int64_t> integers,
                           std::span<const std::string> texts, std::span<const float> vectors,
                           size_t dim) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh_arrow_module* const module, ArrowModule());
  std::vector<const char*> ids;
  for (const std::string& text : texts) ids.push_back(text.c_str());
  std::array<char, 512> text{};
  simurgh_arrow_message message{.text = text.data(), .size = text.size()};
  const simurgh_arrow_result result = module->write_vectors(
      path.c_str(), dim == 0 ? 0 : vectors.size() / dim,
      integers.empty() ? nullptr : integers.data(), ids.data(), vectors.data(), dim, &message);
  if (result == SIMURGH_ARROW_OK) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": ", text.data()));
}

}  // namespace simurgh
