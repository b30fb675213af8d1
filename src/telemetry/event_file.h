#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace simurgh {

// A file of events that TensorBoard shows: records of protocol buffers `Event`.
// Source of both formats: TensorFlow's record_writer and event.proto.
//
// After a failed write all later ones fail. Threads: one owner.
class EventFile {
 public:
  // Creates a file with a new name in the directory, which is made if needed. step: the events
  // continue those of this step; of earlier files, events of later steps are no longer shown.
  // Errors: INVALID_ARGUMENT for a directory that cannot be made or written.
  static StatusOr<std::unique_ptr<EventFile>> Create(const std::string& directory, uint64_t step);

  // Add an event. time: in seconds since 1970. tag: its group, a slash and its name.
  void AddScalar(uint64_t step, double time, std::string_view tag, double value);
  // values: finite ones are counted in 30 ranges of equal width.
  void AddHistogram(uint64_t step, double time, std::string_view tag,
                    std::span<const float> values);
  // text: Markdown.
  void AddText(uint64_t step, double time, std::string_view tag, std::string_view text);

  // Writes the events to the file. Errors: UNAVAILABLE.
  Status Flush();

 private:
  explicit EventFile(std::string path) : path_(std::move(path)), file_(path_, std::ios::binary) {}

  // event: a serialised Event.
  void Write(std::string_view event);

  const std::string path_;
  std::ofstream file_;
};

}  // namespace simurgh
