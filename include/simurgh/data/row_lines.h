#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/file_identity.h"

namespace simurgh {

class LineReader;

// Longest line, without its end.
inline constexpr size_t kMaxLineBytes = size_t{1024} * 1024;

// A line of a file.
struct Line {
  std::string_view text;  // Without its end.
  bool whole = true;      // False: longer than kMaxLineBytes; `text` is empty.
};

// INVALID_ARGUMENT for a line that is not whole.
Status LongLineError();

// Reads the rows of files as text, in order: without headers and blank lines.
//
// Threads: one owner.
class RowLines {
 public:
  // Opens the first file. identities, allow_pipes: see ReadOptions.
  // Errors: of OpenByteStream; those of files that change; INVALID_ARGUMENT for a header with the
  // configured columns in another order. Other names in a header are accepted, and labels may be
  // missing.
  static StatusOr<RowLines> Open(const DataConfig& config, std::vector<std::string> files,
                                 FileIdentities* identities, bool allow_pipes);
  ~RowLines();
  RowLines(RowLines&&) noexcept;

  // The next row; nothing at the end. Lifetime: until the next call.
  // Errors: as Open, and of reading; with file and line.
  StatusOr<std::optional<Line>> Next();

  size_t files_opened() const { return opened_; }
  // Share of the bytes of all files that the rows so far have, from 0 to 1; 0: unknown.
  double part() const;
  // File and line of the last row. Requires a row.
  const std::string& file() const { return files_[opened_ - 1]; }
  size_t line_number() const;
  // Adds file and line to an error.
  Status AtLine(const Status& status) const;

 private:
  RowLines(std::optional<CsvConfig> header, std::vector<std::string> files,
           FileIdentities* identities, bool allow_pipes);

  // Opens the next file and passes its header; after the last file, sets lines_ to null.
  Status OpenNextFile();
  Status PassHeader();
  // Finds a change of the last opened file.
  Status CheckIdentity() const;

  std::optional<CsvConfig> header_;  // None: the files have no header.
  std::vector<std::string> files_;
  FileIdentities* identities_;  // May be null.
  bool allow_pipes_;
  size_t opened_ = 0;
  std::vector<double> starts_;  // By file and for the end: bytes of the files before; or empty.
  std::unique_ptr<LineReader> lines_;  // The last opened file; null at the end.
};

}  // namespace simurgh
