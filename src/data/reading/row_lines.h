#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

class LineReader;
struct LinePlace;

// Bytes of the longest line, without its end.
inline constexpr size_t kMaxLineBytes = size_t{1024} * 1024;

// A row of a file: one line or, if quoted cells of CSV have line ends, several.
struct Line {
  std::string_view text;  // Text without the line's end.
  bool whole = true;      // False: the row is longer than kMaxLineBytes, and `text` is empty.
};

// Returns INVALID_ARGUMENT for a line that is not whole.
Status LongLineError();

// Finds the configured columns in a file's header, by name, or by a name that differs in case,
// blanks or punctuation if only one does. Returns nothing if the rows have exactly these columns in
// this order, or if the header has none of the names, so that columns are found by position.
// needs_labels: false for rows that may lack labels.
// Errors: INVALID_ARGUMENT for a header that lacks some needed columns, has one of them twice or,
// with `strict`, has others; and for bad quotes.
StatusOr<std::optional<FileColumns>> FindColumns(const DataConfig& config, std::string_view header,
                                                 bool needs_labels);

// Reads the rows of files as text, in order: without headers and blank lines.
//
// Threads: one owner.
class RowLines {
 public:
  // Opens the first file. Uses `identities`, `allow_pipes` and `ignore_labels` of the options.
  // Errors: those of OpenByteStream, and of files that change; INVALID_ARGUMENT for a header that
  // FindColumns refuses.
  // from: a place() of the same files.
  static StatusOr<RowLines> Open(const DataConfig& config, std::vector<std::string> files,
                                 const ReadOptions& options = {}, const ReadPlace& from = {});
  ~RowLines();
  RowLines(RowLines&&) noexcept;

  // Returns the next row; nothing at the end. Lifetime: until the next call.
  // Errors: those of Open, and of reading; with file and line.
  StatusOr<std::optional<Line>> Next();

  size_t files_opened() const { return opened_; }
  // Returns where the next row begins, without its number.
  ReadPlace place() const;
  // Returns the share of the bytes of all files that the rows so far have, from 0 to 1; 0: unknown.
  double part() const;
  // Returns the file of the last row. Requires a row, as line_number() does.
  const std::string& file() const { return files_[opened_ - 1]; }
  size_t line_number() const;
  // Returns the columns of the last opened file, by its header. Null: those of the configuration,
  // in order. Lifetime: until the next call of Next().
  const FileColumns* columns() const { return columns_ ? &*columns_ : nullptr; }
  // Returns whether a file's header had the name of a column.
  bool has_names() const { return has_names_; }
  // Adds file and line to an error.
  Status AtLine(const Status& status) const;

 private:
  RowLines(const DataConfig& config, std::vector<std::string> files, const ReadOptions& options);

  // Opens the next file and reads its header; after the last file, sets lines_ to null.
  // from: where its rows begin.
  Status OpenNextFile(const LinePlace& from);
  Status ReadHeader();
  // Returns whether the first line of a file is a header. The first file may decide it for all.
  // Errors: INVALID_ARGUMENT for a line that could be either.
  StatusOr<bool> IsHeader(const Line& line);
  // Returns the next line, with further ones that belong to a quoted cell.
  StatusOr<std::optional<Line>> NextLine();
  // Finds a change of the last opened file.
  Status CheckIdentity() const;

  std::optional<DataConfig> header_;  // None: the files have no header.
  bool finds_header_ = false;         // The next line decides whether the files have a header.
  std::optional<Line> first_row_;     // A row that was read because it could be a header.
  std::optional<char> separator_;     // Nothing: not CSV.
  std::vector<std::string> files_;
  FileIdentities* identities_;  // May be null.
  bool allow_pipes_;
  bool needs_labels_;
  bool has_comments_;  // Lines that begin with # are comments.
  std::optional<FileColumns> columns_;
  bool has_names_ = false;  // A file's header had the name of a column.
  size_t opened_ = 0;
  // Bytes of the files before each one, and of all; or empty.
  std::vector<double> starts_;
  std::unique_ptr<LineReader> lines_;  // The last opened file; null at the end.
};

}  // namespace simurgh
