#include "config/value_schema.h"

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

Json Scalars() { return {{"type", {"string", "number", "boolean"}}}; }

std::string WithDefault(Json schema, const std::string& fallback) {
  if (!fallback.empty()) schema["default"] = fallback;
  return schema.dump();
}

}  // namespace

std::string TextSchema(const std::string& fallback) {
  Json schema = Scalars();
  schema["minLength"] = 1;
  return WithDefault(schema, fallback);
}

std::string ElementSchema() { return Scalars().dump(); }

std::string NameSchema() {
  Json schema = Scalars();
  schema["pattern"] = "^[A-Za-z0-9_-]{1,63}$";
  return schema.dump();
}

std::string BoolSchema(std::optional<bool> fallback) {
  Json schema = {{"type", "boolean"}};
  if (fallback) schema["default"] = *fallback;
  return schema.dump();
}

std::string IntegerSchema(uint64_t low, uint64_t high, std::optional<uint64_t> fallback) {
  Json schema = {{"type", "integer"}, {"minimum", low}, {"maximum", high}};
  if (fallback) schema["default"] = *fallback;
  return schema.dump();
}

std::string NumberSchema(double low, double high, const std::string& fallback) {
  return Json{
      {"type", "number"}, {"minimum", low}, {"maximum", high}, {"default", Json::parse(fallback)}}
      .dump();
}

std::string DurationSchema(const std::string& fallback) {
  return WithDefault({{"type", "string"}, {"pattern", "^[0-9]+(us|ms|s|m)$"}}, fallback);
}

std::string CharacterSchema(char fallback) {
  return WithDefault({{"type", "string"}, {"pattern", "^[^A-Za-z0-9\"\\r\\n]$"}},
                     fallback == '\0' ? "" : std::string(1, fallback));
}

std::string WordSchema(const std::vector<std::string>& words, const std::string& fallback) {
  return WithDefault({{"enum", words}}, fallback);
}

std::string ListSchema(uint64_t low, uint64_t high, const std::string& element) {
  Json schema = {{"type", "array"}, {"minItems", low}, {"maxItems", high}};
  if (!element.empty()) schema["items"] = Json::parse(element);
  return schema.dump();
}

std::string TextMapSchema() {
  const Json schema = {{"type", "object"}, {"additionalProperties", Scalars()}};
  return schema.dump();
}

std::string EitherSchema(const std::vector<std::string>& schemas) {
  Json schema = {{"anyOf", Json::array()}};
  for (const std::string& one : schemas) schema["anyOf"].push_back(Json::parse(one));
  return schema.dump();
}

std::string DefinitionSchema(const std::string& name) {
  return Json{{"$ref", absl::StrCat("#/$defs/", name)}}.dump();
}

}  // namespace simurgh
