#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simurgh {

// JSON Schemas of the values that MapReader reads, as text. YAML numbers and booleans are texts,
// too. Defaults are those of the reference; an empty text is none.

std::string TextSchema(const std::string& fallback);
// A text in a list.
std::string ElementSchema();
std::string NameSchema();
std::string BoolSchema(std::optional<bool> fallback);
std::string IntegerSchema(uint64_t low, uint64_t high, std::optional<uint64_t> fallback);
std::string NumberSchema(double low, double high, const std::string& fallback);
std::string DurationSchema(const std::string& fallback);
std::string CharacterSchema(char fallback);  // 0: none.
std::string WordSchema(const std::vector<std::string>& words, const std::string& fallback = "");
// element: a schema; empty: mappings with keys of their own.
std::string ListSchema(uint64_t low, uint64_t high, const std::string& element);
// A mapping of any keys to texts.
std::string TextMapSchema();
std::string EitherSchema(const std::vector<std::string>& schemas);
// A reference to $defs.
std::string DefinitionSchema(const std::string& name);

}  // namespace simurgh
