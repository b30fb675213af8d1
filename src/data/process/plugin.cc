#include "data/process/plugin.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <dlfcn.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/invalid.h"
#include "data/row_parser.h"
#include "simurgh/data/plugin.h"
#include "simurgh/tensor/finite.h"

namespace simurgh {
namespace {

constexpr size_t kMessageBytes = 512;

simurgh_text TextOf(std::string_view text) { return {text.data(), text.size()}; }

std::vector<simurgh_text> TextsOf(const std::vector<std::string>& texts) {
  std::vector<simurgh_text> result;
  for (const std::string& text : texts) result.push_back(TextOf(text));
  return result;
}

// Where a plug-in says what is wrong.
class Message {
 public:
  simurgh_message* room() { return &room_; }

  // In one line of printable characters.
  std::string text() const {
    const std::string_view said(bytes_.data(), strnlen(bytes_.data(), bytes_.size()));
    if (said.empty()) return "it does not say why";
    return absl::CHexEscape(absl::string_view(said.data(), said.size()));
  }

 private:
  std::array<char, kMessageBytes> bytes_{};
  simurgh_message room_{bytes_.data(), bytes_.size()};
};

// A loaded file.
class SharedObject {
 public:
  static StatusOr<SharedObject> Open(const std::string& path) {
    // With a slash in it the name is a path, and not searched for elsewhere.
    const std::string absolute = std::filesystem::absolute(path).string();
    void* handle = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedObject(handle);
    const char* reason = dlerror();
    return Invalid(
        "cannot be loaded: %s; check the path, and that it is built for this "
        "machine",
        reason != nullptr ? reason : "unknown reason");
  }

  ~SharedObject() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  SharedObject(SharedObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedObject& operator=(SharedObject&&) = delete;

  StatusOr<const simurgh_plugin*> Describe() const {
    void* symbol = dlsym(handle_, SIMURGH_PLUGIN_ENTRY);
    if (symbol == nullptr) {
      return absl::InvalidArgumentError("is no plug-in: it does not export " SIMURGH_PLUGIN_ENTRY
                                        "(); simurgh/data/plugin.h says what it must have");
    }
    const simurgh_plugin* plugin = reinterpret_cast<simurgh_plugin_entry_function>(symbol)();
    if (plugin == nullptr) {
      return absl::InvalidArgumentError(SIMURGH_PLUGIN_ENTRY "() answers null; return a plug-in");
    }
    if (plugin->abi != SIMURGH_PLUGIN_ABI) {
      return Invalid(
          "is of plug-in ABI %d, this program takes %d; build it with this "
          "version's simurgh/data/plugin.h",
          plugin->abi, SIMURGH_PLUGIN_ABI);
    }
    if (plugin->create == nullptr || plugin->process == nullptr || plugin->destroy == nullptr) {
      return absl::InvalidArgumentError("lacks create, process or destroy; fill in all three");
    }
    return plugin;
  }

 private:
  explicit SharedObject(void* handle) : handle_(handle) {}

  void* handle_;
};

// Runs a plug-in's function, which may be C++ and forget its duties.
template <typename Function>
auto Guarded(const Function& function, decltype(function()) if_it_throws) {
  try {
    return function();
  } catch (...) {
    return if_it_throws;
  }
}

}  // namespace

struct Plugin::State {
  State(SharedObject loaded, const simurgh_plugin* described)
      : object(std::move(loaded)), plugin(described) {}
  ~State() {
    if (instance == nullptr) return;
    Guarded([this] { return plugin->destroy(instance), 0; }, 0);
  }

  Status Problem(std::string_view what, const RowCells& row, std::span<const size_t> columns) const;
  // Hands the row's cells over and judges what comes back.
  Status Process(const RowCells& cells, std::span<const size_t> columns, simurgh_output& output);

  SharedObject object;  // Outlives the instance.
  const simurgh_plugin* plugin;
  void* instance = nullptr;
  std::string prefix;  // Of errors.
  size_t max_ids = 0;
  std::vector<simurgh_text> values;  // Of the present row, cell after cell.
  std::vector<simurgh_cell> cells;
};

Status Plugin::State::Problem(std::string_view what, const RowCells& row,
                              std::span<const size_t> columns) const {
  return Invalid("%s: %s (of %s)", prefix, what, QuotedValues(row, columns));
}

Status Plugin::State::Process(const RowCells& row, std::span<const size_t> columns,
                              simurgh_output& output) {
  values.clear();
  cells.clear();
  for (const size_t column : columns) {
    for (const Token& token : row.cell(column)) values.push_back(TextOf(token.text));
  }
  size_t first = 0;  // Taken now that `values` does not move any more.
  for (const size_t column : columns) {
    const size_t count = row.cell(column).size();
    cells.push_back({values.data() + first, count});
    first += count;
  }
  Message message;
  const simurgh_verdict verdict =
      Guarded([&] { return plugin->process(instance, cells.data(), &output, message.room()); },
              SIMURGH_FAILED);
  if (verdict == SIMURGH_OK) return absl::OkStatus();
  if (verdict == SIMURGH_BAD_ROW) return Problem(message.text(), row, columns);
  return absl::FailedPreconditionError(absl::StrFormat("%s: cannot go on: %s (at %s)", prefix,
                                                       message.text(), QuotedValues(row, columns)));
}

Plugin::Plugin(std::unique_ptr<State> state) : state_(std::move(state)) {}
Plugin::~Plugin() = default;
Plugin::Plugin(Plugin&&) noexcept = default;
Plugin& Plugin::operator=(Plugin&&) noexcept = default;

StatusOr<Plugin> Plugin::Create(const PluginConfig& config, const PluginPurpose& purpose) {
  const std::string prefix = absl::StrFormat(
      "%s '%s': plug-in %s", purpose.dense_width == 0 ? "feature" : "derived column", purpose.name,
      config.path);
  auto object = SharedObject::Open(config.path);
  if (!object.ok()) return Annotate(object.status(), prefix);
  const auto plugin = object->Describe();
  if (!plugin.ok()) return Annotate(plugin.status(), prefix);

  const std::vector<simurgh_text> columns = TextsOf(purpose.columns);
  const std::vector<simurgh_text> parameters = TextsOf(config.parameters);
  const simurgh_setup setup{.name = TextOf(purpose.name),
                            .columns = columns.data(),
                            .column_count = columns.size(),
                            .parameters = parameters.data(),
                            .parameter_count = parameters.size(),
                            .dense_width = purpose.dense_width};
  auto state = std::make_unique<State>(*std::move(object), *plugin);
  state->prefix = prefix;
  state->max_ids = config.max_ids;
  Message message;
  state->instance = Guarded([&] { return state->plugin->create(&setup, message.room()); }, nullptr);
  if (state->instance == nullptr) {
    return Invalid("%s refuses its columns or parameters: %s", prefix, message.text());
  }
  return Plugin(std::move(state));
}

Status Plugin::MakeIds(const RowCells& cells, std::span<const size_t> columns,
                       std::vector<uint64_t>& ids, std::vector<float>& weights) {
  ids.assign(state_->max_ids, 0);
  weights.assign(state_->max_ids, 1.0F);
  simurgh_output output{.ids = ids.data(), .weights = weights.data(), .capacity = ids.size()};
  SIMURGH_RETURN_IF_ERROR(state_->Process(cells, columns, output));
  if (output.count > ids.size()) {
    return state_->Problem(
        absl::StrFormat("makes %d ids, plugin.max_ids is %d; raise it", output.count, ids.size()),
        cells, columns);
  }
  ids.resize(output.count);
  weights.resize(output.count);
  if (AllFinite(weights)) return absl::OkStatus();
  return state_->Problem("a weight is not finite", cells, columns);
}

Status Plugin::MakeDense(const RowCells& cells, std::span<const size_t> columns,
                         std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0F);
  simurgh_output output{.dense = values.data()};
  SIMURGH_RETURN_IF_ERROR(state_->Process(cells, columns, output));
  if (AllFinite(values)) return absl::OkStatus();
  return state_->Problem("a dense value is not finite", cells, columns);
}

}  // namespace simurgh
