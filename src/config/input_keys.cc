#include "simurgh/config/input_keys.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"

#include "config/byte_writer.h"
#include "simurgh/base/hash.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

std::string FileName(const std::string& path) { return fs::path(path).filename().string(); }

// 0: there is none, or it is no file with an end.
uint64_t FileSize(const std::string& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

std::string FileContent(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class KeyList {
 public:
  template <class... Ts>
  void Add(std::string key, const Ts&... values) {
    ByteWriter bytes;
    (bytes.Add(values), ...);
    keys_.push_back({std::move(key), HashBytes(bytes.bytes())});
  }

  // The machine's own folder is left out, what the plug-in does is not.
  void AddPlugin(const std::string& key, const PluginConfig& plugin) {
    if (plugin.path.empty()) return;
    Add(absl::StrCat(key, ".plugin"), FileName(plugin.path), plugin.parameters, plugin.max_ids);
    Add(absl::StrCat(key, ".plugin.path, the file's content"), FileContent(plugin.path));
  }

  std::vector<InputKey> Take() { return std::move(keys_); }

 private:
  std::vector<InputKey> keys_;
};

std::string Named(const char* list, size_t index, const std::string& name) {
  return absl::StrCat(list, ".", index, " (", name, ")");
}

void AddFiles(const DataConfig& data, KeyList& keys) {
  ByteWriter names;
  ByteWriter sizes;
  for (const std::string& path : data.train) {
    names.Add(FileName(path));
    sizes.Add(FileSize(path));
  }
  keys.Add("data.train, the files' names or order", names.bytes());
  keys.Add("data.train, the files' sizes", sizes.bytes());
}

void AddColumns(const CsvConfig& csv, KeyList& keys) {
  keys.Add("data.csv.separator", csv.separator);
  keys.Add("data.csv.header", csv.header);
  keys.Add("data.csv.missing_values", csv.missing_values);
  for (size_t i = 0; i < csv.columns.size(); ++i) {
    const ColumnConfig& column = csv.columns[i];
    const std::string key = Named("data.csv.columns", i, column.name);
    keys.Add(key, column.kind, column.positive, column.missing, column.transform, column.fit,
             column.separator);
    const char* scaling =
        column.fit ? ", mean and stddev of the training files" : ", mean or stddev";
    keys.Add(absl::StrCat(key, scaling), column.mean, column.stddev);
  }
}

void AddCriteo(const CriteoConfig& criteo, KeyList& keys) {
  keys.Add("data.criteo.labels", criteo.labels);
  keys.Add("data.criteo.fit", criteo.fit);
  keys.Add("data.criteo.fit, mean and stddev of the training files", criteo.mean, criteo.stddev);
}

void AddDerived(const std::vector<DerivedConfig>& derived, KeyList& keys) {
  for (size_t i = 0; i < derived.size(); ++i) {
    const std::string key = Named("data.derived", i, derived[i].name);
    keys.Add(key, derived[i].columns, derived[i].width);
    keys.AddPlugin(key, derived[i].plugin);
  }
}

void AddFeatures(const std::vector<FeatureConfig>& features, KeyList& keys) {
  for (size_t i = 0; i < features.size(); ++i) {
    const std::string key = Named("features", i, features[i].name);
    keys.AddPlugin(key, features[i].processing.plugin);
    if (features[i].processing.quantiles == 0) continue;
    keys.Add(absl::StrCat(key, ".quantiles, those of the training files"),
             features[i].processing.boundaries);
  }
}

}  // namespace

std::vector<InputKey> InputKeys(const ClusterConfig& config) {
  KeyList keys;
  keys.Add("training.batch_size", config.training.batch_size);
  keys.Add("training.epochs", config.training.epochs);
  keys.Add("training.drop_last", config.training.drop_last);
  keys.Add("training.keep_negatives", config.training.keep_negatives);
  keys.Add("data.format", config.data.format);
  keys.Add("data.bad_rows", config.data.bad_rows);
  AddFiles(config.data, keys);
  AddColumns(config.data.csv, keys);
  AddCriteo(config.data.criteo, keys);
  AddDerived(config.data.derived, keys);
  AddFeatures(config.features, keys);
  return keys.Take();
}

std::vector<std::string> DifferingKeys(const std::vector<InputKey>& ours,
                                       const std::vector<InputKey>& theirs) {
  std::map<std::string, uint64_t> others;
  for (const InputKey& key : theirs) others.emplace(key.key, key.digest);
  std::vector<std::string> differing;
  for (const InputKey& key : ours) {
    const auto other = others.extract(key.key);
    if (other.empty() || other.mapped() != key.digest) differing.push_back(key.key);
  }
  for (const auto& [key, digest] : others) differing.push_back(key);
  return differing;
}

}  // namespace simurgh
