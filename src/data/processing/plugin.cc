#include "data/processing/plugin.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <dlfcn.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "base/invalid.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

constexpr size_t kMessageBytes = 512;

simurgh_text TextOf(std::string_view text) { return {text.data(), text.size()}; }

std::vector<simurgh_text> TextsOf(const std::vector<std::string>& texts) {
  std::vector<simurgh_text> result;
  for (const std::string& text : texts) result.push_back(TextOf(text));
  return result;
}

// Room for a plug-in's message.
class Message {
 public:
  simurgh_message* room() { return &room_; }

  // Returns the message as one line of printable characters.
  std::string text() const {
    const absl::string_view text(bytes_.data(), strnlen(bytes_.data(), bytes_.size()));
    return text.empty() ? "no reason given" : absl::CHexEscape(text);
  }

 private:
  std::array<char, kMessageBytes> bytes_{};
  simurgh_message room_{bytes_.data(), bytes_.size()};
};

StatusOr<std::shared_ptr<void>> Load(const std::string& path) {
  // dlopen searches the system's folders for a name without a slash.
  const std::string absolute = std::filesystem::absolute(path).string();
  if (void* handle = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return std::shared_ptr<void>(handle, dlclose);
  }
  const char* reason = dlerror();
  return Invalid("cannot be loaded: %s; check the path, and that it is built for this machine",
                 reason != nullptr ? reason : "unknown reason");
}

StatusOr<const simurgh_plugin*> Describe(void* object) {
  void* symbol = dlsym(object, SIMURGH_PLUGIN_ENTRY);
  if (symbol == nullptr) {
    return absl::InvalidArgumentError("is not a plug-in: it does not export " SIMURGH_PLUGIN_ENTRY
                                      "(); see simurgh/plugin.h");
  }
  const simurgh_plugin* plugin = reinterpret_cast<simurgh_plugin_entry_function>(symbol)();
  if (plugin == nullptr) {
    return absl::InvalidArgumentError(SIMURGH_PLUGIN_ENTRY "() returns null; return a plug-in");
  }
  if (plugin->abi != SIMURGH_PLUGIN_ABI) {
    return Invalid(
        "has plug-in ABI %d, this program requires %d; build it with this version's "
        "simurgh/plugin.h",
        plugin->abi, SIMURGH_PLUGIN_ABI);
  }
  if (plugin->create == nullptr || plugin->process == nullptr || plugin->destroy == nullptr) {
    return absl::InvalidArgumentError("lacks create, process or destroy; define all three");
  }
  return plugin;
}

// Catches exceptions, which a plug-in in C++ must not throw.
template <typename Function>
auto Guarded(const Function& function, decltype(function()) if_it_throws) {
  try {
    return function();
  } catch (...) {
    return if_it_throws;
  }
}

}  // namespace

Status Plugin::Problem(std::string_view what, const RowCells& row,
                       std::span<const size_t> columns) const {
  return Invalid("%s: %s (of %s)", prefix_, what, QuotedValues(row, columns));
}

Status Plugin::Process(const RowCells& row, std::span<const size_t> columns,
                       simurgh_output& output) {
  values_.clear();
  cells_.clear();
  for (const size_t column : columns) {
    for (const Token& token : row.cell(column)) values_.push_back(TextOf(token.text));
  }
  size_t first = 0;  // values_ is complete, so pointers to it stay valid.
  for (const size_t column : columns) {
    const size_t count = row.cell(column).size();
    cells_.push_back({values_.data() + first, count});
    first += count;
  }
  Message message;
  const simurgh_verdict verdict = Guarded(
      [&] { return plugin_->process(instance_.get(), cells_.data(), &output, message.room()); },
      SIMURGH_FAILED);
  if (verdict == SIMURGH_OK) return absl::OkStatus();
  if (verdict == SIMURGH_BAD_ROW) return Problem(message.text(), row, columns);
  return absl::FailedPreconditionError(absl::StrFormat("%s: cannot continue: %s (at %s)", prefix_,
                                                       message.text(), QuotedValues(row, columns)));
}

StatusOr<Plugin> Plugin::Create(const PluginConfig& config, const PluginPurpose& purpose) {
  const std::string prefix = absl::StrFormat(
      "%s '%s': plug-in %s", purpose.dense_width == 0 ? "feature" : "derived column", purpose.name,
      config.path);
  auto object = Load(config.path);
  if (!object.ok()) return Annotate(object.status(), prefix);
  const auto described = Describe(object->get());
  if (!described.ok()) return Annotate(described.status(), prefix);
  const std::vector<simurgh_text> columns = TextsOf(purpose.columns);
  const std::vector<simurgh_text> parameters = TextsOf(config.parameters);
  const simurgh_setup setup{.name = TextOf(purpose.name),
                            .columns = columns.data(),
                            .column_count = columns.size(),
                            .parameters = parameters.data(),
                            .parameter_count = parameters.size(),
                            .dense_width = purpose.dense_width};
  Plugin plugin;
  plugin.prefix_ = prefix;
  plugin.max_ids_ = config.max_ids;
  plugin.object_ = *std::move(object);
  plugin.plugin_ = *described;
  Message message;
  void* instance = Guarded([&] { return plugin.plugin_->create(&setup, message.room()); }, nullptr);
  if (instance == nullptr) {
    return Invalid("%s refuses its columns or parameters: %s; correct columns or plugin.parameters",
                   prefix, message.text());
  }
  plugin.instance_.reset(instance, [destroy = plugin.plugin_->destroy](void* one) {
    Guarded([&] { return destroy(one), 0; }, 0);
  });
  return plugin;
}

Status Plugin::MakeIds(const RowCells& cells, std::span<const size_t> columns,
                       std::vector<uint64_t>& ids, std::vector<float>& weights) {
  ids.assign(max_ids_, 0);
  weights.assign(max_ids_, 1.0F);
  simurgh_output output{.ids = ids.data(), .weights = weights.data(), .capacity = ids.size()};
  SIMURGH_RETURN_IF_ERROR(Process(cells, columns, output));
  if (output.count > ids.size()) {
    return Problem(
        absl::StrFormat("makes %d ids, plugin.max_ids is %d; raise it", output.count, ids.size()),
        cells, columns);
  }
  ids.resize(output.count);
  weights.resize(output.count);
  if (AllFinite(weights)) return absl::OkStatus();
  return Problem("a weight is not finite", cells, columns);
}

Status Plugin::MakeDense(const RowCells& cells, std::span<const size_t> columns,
                         std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0F);
  simurgh_output output{.dense = values.data()};
  SIMURGH_RETURN_IF_ERROR(Process(cells, columns, output));
  if (AllFinite(values)) return absl::OkStatus();
  return Problem("a dense value is not finite", cells, columns);
}

}  // namespace simurgh
