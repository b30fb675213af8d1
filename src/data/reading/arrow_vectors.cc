#include "data/reading/arrow_vectors.h"

#include <vector>

#include "data/reading/arrow_library.h"

namespace simurgh {

Status WriteParquetVectors(const std::string& path, std::span<const int64_t> integers,
                           std::span<const std::string> texts, std::span<const float> vectors,
                           size_t dim) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh_arrow_module* const module, ArrowModule());
  std::vector<const char*> ids;
  for (const std::string& text : texts) ids.push_back(text.c_str());
  ModuleMessage message;
  return Annotate(
      message.Of(module->write_vectors(path.c_str(), dim == 0 ? 0 : vectors.size() / dim,
                                       integers.empty() ? nullptr : integers.data(), ids.data(),
                                       vectors.data(), dim, message.room())),
      path);
}

}  // namespace simurgh
