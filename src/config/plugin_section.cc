#include "config/plugin_section.h"

#include "config/file.h"

namespace simurgh {
namespace {

constexpr size_t kMaxParameters = 1'024;
constexpr uint32_t kMaxIds = 65'536;

}  // namespace

void ReadPlugin(MapReader& in, const std::string& folder, PluginConfig* plugin, uint32_t* max_ids) {
  in.Map("plugin", [&](MapReader& map) {
    map.Text("path", "shared object that turns cells into values, see Plug-ins", &plugin->path,
             "path of a shared object",
             [](const std::string& text) { return text.empty() ? "an empty text" : ""; });
    map.Texts("parameters", "texts passed to the plug-in", &plugin->parameters, {0, kMaxParameters},
              Need::kOptional);
    if (max_ids != nullptr)
      map.Integer("max_ids", "maximum number of ids per sample; more make a bad row", max_ids, 1,
                  kMaxIds);
    map.OnlyWith(map.Has("path"), "path", {"parameters", "max_ids"});
    if (plugin->path.empty()) return;
    ResolveFile(map, "path", folder, &plugin->path);
    map.Record("path", FileName(plugin->path));
  });
}

}  // namespace simurgh
