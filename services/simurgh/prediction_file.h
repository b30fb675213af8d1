#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/file_descriptor.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/data/row_text.h"

namespace simurgh {

// Rows of text that go to a file or to stdout. A file gets its name when it is complete; what is
// not finished is removed.
//
// Threads: one owner.
class OutputFile {
 public:
  // path: "-" for stdout. Errors: those of the system calls, naming the path.
  static StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path);
  ~OutputFile();

  // Errors: CANCELLED if the reader of a pipe has ended; those of write(), naming the path.
  Status Append(std::string_view text);
  // Must be the last call.
  Status Finish();

 private:
  OutputFile(std::string path, std::string temporary, FileDescriptor file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}
  Status Write();

  const std::string path_;
  std::string temporary_;  // Empty: written in place.
  FileDescriptor file_;
  std::string buffer_;
};

// Joins the rows of the input with their predictions.
//
// Threads: Add() by a reader, the others by one owner.
class PredictedRows {
 public:
  // text: the columns that are copied; nothing: none. tasks: labels of a sample.
  PredictedRows(std::optional<RowText> text, size_t tasks)
      : text_(std::move(text)), tasks_(tasks) {}

  // Adds the next row of the input. has_prediction: false for a bad row.
  void Add(std::string_view line, bool has_prediction);

  // Appends the rows of the next predictions, (rows, tasks), and the bad rows before them: columns,
  // then probabilities.
  void Take(std::span<const float> probabilities, std::string& text);
  // Appends the bad rows at the end.
  void TakeRest(std::string& text);

  uint64_t bad_rows() const { return bad_rows_; }  // Taken so far.

 private:
  struct Row {
    std::string cells;
    bool has_prediction;
  };
  // Appends a bad row.
  void AppendBad(const Row& row, std::string& text);

  std::optional<RowText> text_;
  const size_t tasks_;
  uint64_t bad_rows_ = 0;
  Mutex mutex_;
  std::deque<Row> rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
