#include "config/plugin_section.h"

#include "config/file.h"

namespace simurgh {
void ReadPlugin(MapReader& in, const std::string& folder, PluginConfig* plugin, uint32_t* max_ids) {
  in.Map("plugin", [&](MapReader& map) {
    map.Text("path", "shared object that turns cells into values, see Plug-ins", &plugin->path,
             "path of a shared object");
    map.Texts("parameters", "texts passed to the plug-in", &plugin->parameters, {0, 1'024},
              Need::kOptional);
    if (max_ids != nullptr) {
      map.Integer("max_ids", "maximum number of ids per sample; more make a bad row", max_ids, 1,
                  65'536);
    }
    map.OnlyWith(map.Has("path"), "give path", {"parameters", "max_ids"});
    if (plugin->path.empty()) return;
    ResolveInputFile(map, "path", folder, &plugin->path);
    map.Record("path", FileName(plugin->path));
  });
}

}  // namespace simurgh
