#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simurgh/arrow_module.h"

namespace simurgh::testing {

// An Arrow array made by hand, with its type. Buffers are copied to exactly their bytes.
struct HandMade {
  std::string format;
  std::string name = {};
  int64_t length = 0;
  std::vector<std::optional<std::string>> buffers = {};  // None: a null pointer.
  std::vector<HandMade> children = {};
  std::vector<HandMade> dictionary = {};  // None or one.
  int64_t offset = 0;
  int64_t null_count = -1;  // Unknown.
};

// The bytes of numbers.
template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// What an exported struct owns.
template <typename Struct>
struct ExportedParts {
  HandMade made;
  std::vector<std::unique_ptr<Struct>> children;
  std::vector<Struct*> places;
  std::unique_ptr<Struct> dictionary;
  // Of arrays: on the heap, so that a sanitizer sees what is beyond them.
  std::vector<std::unique_ptr<char[]>> buffers;
  std::vector<const void*> buffer_places;
};

template <typename Struct>
void ReleaseExported(Struct* one) {
  auto* const parts = static_cast<ExportedParts<Struct>*>(one->private_data);
  for (Struct* child : parts->places) {
    if (child->release != nullptr) child->release(child);
  }
  if (parts->dictionary != nullptr) parts->dictionary->release(parts->dictionary.get());
  one->release = nullptr;
  delete parts;
}

template <typename Struct>
Struct Export(const HandMade& made) {
  auto* const parts = new ExportedParts<Struct>{.made = made};
  for (const HandMade& child : made.children) {
    parts->children.push_back(std::make_unique<Struct>(Export<Struct>(child)));
    parts->places.push_back(parts->children.back().get());
  }
  if (!made.dictionary.empty()) {
    parts->dictionary = std::make_unique<Struct>(Export<Struct>(made.dictionary.front()));
  }
  Struct result{};
  result.n_children = static_cast<int64_t>(parts->places.size());
  result.children = parts->places.data();
  result.dictionary = parts->dictionary.get();
  result.release = ReleaseExported<Struct>;
  result.private_data = parts;
  if constexpr (std::is_same_v<Struct, ArrowSchema>) {
    result.format = parts->made.format.c_str();
    result.name = parts->made.name.c_str();
  } else {
    for (const std::optional<std::string>& buffer : made.buffers) {
      if (!buffer) {
        parts->buffer_places.push_back(nullptr);
        continue;
      }
      parts->buffers.emplace_back(new char[buffer->size()]);
      std::memcpy(parts->buffers.back().get(), buffer->data(), buffer->size());
      parts->buffer_places.push_back(parts->buffers.back().get());
    }
    result.length = made.length;
    result.null_count = made.null_count;
    result.offset = made.offset;
    result.n_buffers = static_cast<int64_t>(made.buffers.size());
    result.buffers = parts->buffer_places.data();
  }
  return result;
}

}  // namespace simurgh::testing
