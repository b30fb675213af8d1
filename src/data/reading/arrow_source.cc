#include "data/reading/arrow_source.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/invalid.h"
#include "data/reading/arrow_file.h"
#include "data/reading/arrow_library.h"
#include "data/reading/arrow_rows.h"
#include "data/reading/csv_cells.h"
#include "data/reading/remote_file.h"
#include "data/reading/row_parser.h"
#include "data/reading/row_text.h"
#include "simurgh/arrow_module.h"

namespace simurgh {
namespace {

void AppendText(const Cell& cell, char separator, std::string& text) {
  switch (cell.kind) {
    case Cell::Kind::kMissing:
      return;
    case Cell::Kind::kText:
      return AppendCsvCell(cell.text, text);
    case Cell::Kind::kNumber:
      text.append(NumberText(cell.number).view());
      return;
    case Cell::Kind::kList: {
      std::string joined;
      for (const std::string_view id : cell.list) {
        if (!joined.empty()) joined.push_back(separator);
        joined.append(id);
      }
      return AppendCsvCell(joined, text);
    }
  }
}

// Returns the columns that folders of a path give, as in `day=2024-01-31/part.parquet`. Source:
// Apache Hive.
std::map<std::string, std::string> ColumnsOfPath(std::string_view path) {
  std::map<std::string, std::string> columns;
  for (size_t end = path.find('/'); end != path.npos; end = path.find('/')) {
    const std::string_view folder = path.substr(0, end);
    path.remove_prefix(end + 1);
    const size_t sign = folder.find('=');
    if (sign == folder.npos || sign == 0) continue;
    std::string value;
    for (size_t i = sign + 1; i < folder.size(); ++i) {
      const std::string_view digits = folder.substr(i + 1, 2);
      uint8_t byte = 0;
      const bool is_escape =
          folder[i] == '%' && digits.size() == 2 &&
          std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr == digits.data() + 2;
      value.push_back(is_escape ? static_cast<char>(byte) : folder[i]);
      if (is_escape) i += 2;
    }
    if (value == "__HIVE_DEFAULT_PARTITION__") value.clear();
    columns[std::string(folder.substr(0, sign))] = std::move(value);
  }
  return columns;
}

// The columns of a file that are read, with their types.
struct FileTypes {
  std::string path;
  ArrowOwner<ArrowSchema> schema;     // Types of the columns that are read.
  std::vector<ColumnConfig> columns;  // Configuration of the columns that are read.
  std::vector<size_t> read;           // Their places among the configured columns.
  std::vector<std::pair<size_t, std::string>> of_path;  // Configured columns with one value.
  std::unique_ptr<HashedDictionaries> dictionaries;
};

// Rows of a record batch.
class ArrowBlock final : public RowBlock {
 public:
  std::shared_ptr<const FileTypes> types;
  std::shared_ptr<const ArrowOwner<ArrowArray>> batch;
  size_t first = 0;     // Index of the first row in the batch.
  uint64_t before = 0;  // Rows of the file before the first row.
};

class ArrowParser final : public BlockParser {
 public:
  // hashable: configured columns whose ids can be hashed at once.
  ArrowParser(const DataConfig& config, bool needs_labels, std::span<const size_t> hashable,
              std::unique_ptr<RowConsumer> consumer)
      : config_(config), lines_(LinesOf(config)), cells_(config.columns.size()) {
    for (size_t c = 0; c < config.columns.size(); ++c) {
      if (IsTarget(config.columns[c].kind) && !needs_labels) continue;
      order_.push_back(&cells_[c]);
    }
    for (const RowConsumer::Hashed& one : consumer->TakeHashed(hashable)) {
      hashed_.push_back({.of = one});
    }
    parser_ = NewRowParser(config_, !needs_labels, std::move(consumer));
  }

  Status Take(RowBlock& of_rows) override {
    auto& block = static_cast<ArrowBlock&>(of_rows);
    block_ = &block;
    Status taken = types_ == block.types ? absl::OkStatus() : SetTypes(block.types);
    // The batch ends with its last block.
    if (taken.ok()) taken = rows_->Take(std::move(block.batch), block.first, block.rows);
    return taken.ok() ? taken : Annotate(taken, block.types->path);
  }

  Status Parse(size_t row, BatchBuilder& builder) override {
    SIMURGH_RETURN_IF_ERROR(rows_->Read(row, row_cells_, /*with_hashed=*/false));
    return parser_->ParseCells(order_, {}, builder);
  }

  void AddColumns(const std::vector<uint32_t>& kept, BatchBuilder& builder) override {
    for (const Hashed& one : hashed_) {
      ArrowRows::RowHashes& all = rows_->Hashes(one.place);
      if (kept.size() == rows_->rows() && one.is_last) {
        builder.SetIds(one.of.feature, all.hashes, all.ends);
        continue;
      }
      std::vector<uint64_t> ids;
      std::vector<uint32_t> ends;
      for (const uint32_t row : kept) {
        const std::span<const uint64_t> of_row = all.of(row);
        ids.insert(ids.end(), of_row.begin(), of_row.end());
        ends.push_back(static_cast<uint32_t>(ids.size()));
      }
      builder.SetIds(one.of.feature, ids, ends);
    }
  }

  void Release() override {
    if (rows_) rows_->Release();
  }

  std::string TakeWarning() override { return parser_->TakeWarning(); }

  std::string Text(size_t row) override {
    std::string text;
    if (!rows_->Read(row, row_cells_, /*with_hashed=*/true).ok()) return text;
    for (size_t c = 0; c < cells_.size(); ++c) {
      if (c > 0) text.push_back(',');
      AppendText(cells_[c], lines_.columns[c].separator, text);
    }
    return text;
  }

  std::string Place(size_t row) const override {
    return absl::StrCat(types_->path, ": row ", block_->before + row + 1);
  }

 private:
  Status SetTypes(std::shared_ptr<const FileTypes> types) {
    types_ = nullptr;
    SIMURGH_ASSIGN_OR_RETURN(rows_, ArrowRows::Create(*types->schema.get(), types->columns));
    std::ranges::fill(cells_, Cell());
    row_cells_.clear();
    for (const size_t column : types->read) row_cells_.push_back(&cells_[column]);
    for (const auto& [column, text] : types->of_path) {
      cells_[column] = {.kind = Cell::Kind::kText, .text = text};
    }
    for (Hashed& one : hashed_) {
      one.place =
          static_cast<size_t>(std::ranges::find(types->read, one.of.column) - types->read.begin());
      if (one.place == types->read.size() || !rows_->CanHash(one.place)) {
        return Invalid("column '%s': its type differs from that of the first file; convert one",
                       config_.columns[one.of.column].name);
      }
      rows_->Hash(one.place, one.of.seed, config_.missing_values, *types->dictionaries);
    }
    for (size_t i = 0; i < hashed_.size(); ++i) {
      hashed_[i].is_last = std::ranges::count(std::span(hashed_).subspan(i + 1), hashed_[i].place,
                                              &Hashed::place) == 0;
    }
    types_ = std::move(types);
    return absl::OkStatus();
  }

  struct Hashed {
    RowConsumer::Hashed of;
    size_t place = 0;      // Index among the columns of rows_.
    bool is_last = false;  // The column has no further feature.
  };

  const DataConfig config_;
  const DataConfig lines_;  // Format of Text().
  std::unique_ptr<RowParser> parser_;
  std::vector<Hashed> hashed_;
  std::vector<Cell> cells_;         // One per configured column.
  std::vector<const Cell*> order_;  // Cells in the parser's order.

  const ArrowBlock* block_ = nullptr;
  std::shared_ptr<const FileTypes> types_;
  std::vector<Cell*> row_cells_;  // Cells of the columns that are read.
  std::optional<ArrowRows> rows_;
};

class ArrowSource : public ArrowRecords {
 public:
  // module: may be null for tables.
  ArrowSource(const simurgh_arrow_module* module, const DataConfig& config,
              std::vector<std::string> files, const ReadOptions& options)
      : module_(module),
        config_(config),
        needs_labels_(!options.ignore_labels),
        copies_skipped_(options.copies_skipped),
        identities_(options.identities),
        files_(std::move(files)) {}

  std::unique_ptr<RowBlock> NewBlock() const override { return std::make_unique<ArrowBlock>(); }
  std::unique_ptr<BlockParser> NewParser(std::unique_ptr<RowConsumer> consumer) const override {
    return std::make_unique<ArrowParser>(config_, needs_labels_, hashable_, std::move(consumer));
  }

  Status OpenNextFile() {
    if (file_ != nullptr) SIMURGH_RETURN_IF_ERROR(CheckIdentity());
    Close();
    if (opened_ == files_.size()) return absl::OkStatus();
    const std::string& path = files_[opened_++];
    SIMURGH_RETURN_IF_ERROR(CheckIdentity());
    const Status opened = Begin(OpenArrowFile(*module_, config_.format, path), path);
    return opened.ok() ? opened : Annotate(opened, path);
  }

  Status Open(std::string_view bytes) override { return OpenData(OpenArrowBytes(*module_, bytes)); }

  StatusOr<bool> HasRows() override {
    if (batch_ != nullptr) return true;
    return TakeBatch();
  }

  StatusOr<bool> Read(RowBlock& of_rows) override {
    auto& block = static_cast<ArrowBlock&>(of_rows);
    while (file_ != nullptr) {
      SIMURGH_ASSIGN_OR_RETURN(const bool has_rows, HasRows());
      if (!has_rows) {
        SIMURGH_RETURN_IF_ERROR(OpenNextFile());
        continue;
      }
      block.first_part = part();
      block.files_opened = opened_;
      block.types = types_;
      block.batch = batch_;
      block.first = next_;
      block.before = before_;
      const auto cells = std::max<size_t>(1, types_->columns.size());
      block.rows =
          std::min({left(), std::clamp(kBlockCells / cells, kMinRows, kMaxRows), block.max_rows});
      Pass(block.rows);
      block.last_part = part();
      return true;
    }
    return false;
  }

  uint64_t Skip(uint64_t rows) override {
    if (file_ == nullptr) return 0;
    const uint64_t skipped = batch_ == nullptr ? 0 : std::min<uint64_t>(rows, left());
    if (skipped > 0) Pass(skipped);
    if (batch_ != nullptr) return skipped;
    const uint64_t more = file_->Skip(rows - skipped);
    before_ += more;
    return skipped + more;
  }

  size_t files_opened() const override { return opened_; }

  double part() const override {
    if (file_ == nullptr) return 1;
    const int64_t rows = file_->rows();
    if (rows < 0) return 0;
    const double of_file = rows == 0 ? 1 : static_cast<double>(before_) / static_cast<double>(rows);
    return (static_cast<double>(opened_ - 1) + of_file) / static_cast<double>(files_.size());
  }

 protected:
  // Goes before the first row of data whose schema and columns are those of the open file.
  void OpenSame(std::unique_ptr<ArrowFile> file) {
    Close();
    file_ = std::move(file);
  }

  // Goes before the first row of data that is no file.
  Status OpenData(StatusOr<std::unique_ptr<ArrowFile>> data) {
    Close();
    opened_ = files_.size();
    const Status opened = Begin(std::move(data), files_.back());
    return opened.ok() ? opened : Annotate(opened, files_.back());
  }

 private:
  // Limits of a block. Its cells and their ids fit into a cache.
  static constexpr size_t kBlockCells = size_t{1} << 17;
  static constexpr size_t kMinRows = 256;
  static constexpr size_t kMaxRows = 16'384;

  void Close() {
    batch_.reset();
    file_.reset();
    next_ = 0;
    before_ = 0;
  }

  Status Begin(StatusOr<std::unique_ptr<ArrowFile>> file, const std::string& path) {
    SIMURGH_ASSIGN_OR_RETURN(file_, std::move(file));
    SIMURGH_ASSIGN_OR_RETURN(const auto schema, file_->Schema());
    const std::map<std::string, std::string> of_path = ColumnsOfPath(path);
    std::set<std::string> names;
    for (const auto& [name, text] : of_path) names.insert(name);
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<size_t> places,
                             FindArrowColumns(config_, *schema.get(), needs_labels_, names));
    auto types = std::make_shared<FileTypes>();
    types->path = path;
    std::vector<size_t> chosen;  // Places of the columns in the file.
    for (size_t c = 0; c < places.size(); ++c) {
      const ColumnConfig& column = config_.columns[c];
      const bool is_used = (column.kind != ColumnConfig::Kind::kSkip ||
                            (copies_skipped_ && places[c] != FileColumns::kAbsent)) &&
                           (needs_labels_ || !IsTarget(column.kind));
      if (!is_used) continue;
      if (places[c] == FileColumns::kAbsent) {
        const auto found = of_path.find(HeaderName(column));
        if (found != of_path.end()) types->of_path.emplace_back(c, found->second);
        continue;
      }
      chosen.push_back(places[c]);
      types->columns.push_back(column);
      types->read.push_back(c);
    }
    SIMURGH_ASSIGN_OR_RETURN(types->schema, file_->Select(chosen));
    SIMURGH_ASSIGN_OR_RETURN(const ArrowRows rows,
                             ArrowRows::Create(*types->schema.get(), types->columns));
    types->dictionaries = std::make_unique<HashedDictionaries>(types->columns.size());
    if (types_ == nullptr) {
      for (size_t i = 0; i < types->read.size(); ++i) {
        // Criteo's ids are numbers, not hashes of texts.
        if (rows.CanHash(i) && config_.format != DataConfig::Format::kCriteo)
          hashable_.push_back(types->read[i]);
      }
    }
    types_ = std::move(types);
    return absl::OkStatus();
  }

  // Takes the next rows of the open file. Returns false if there are none.
  StatusOr<bool> TakeBatch() {
    for (;;) {
      auto next = file_->Next();
      if (!next.ok()) {
        SIMURGH_RETURN_IF_ERROR(CheckIdentity());  // A change is the likely cause.
        return Annotate(next.status(), files_[opened_ - 1]);
      }
      if (!next->has_value()) return false;
      const int64_t rows = (*next)->get()->length;
      if (rows < 0) return absl::DataLossError(absl::StrCat(files_[opened_ - 1], ": damaged rows"));
      if (rows == 0) continue;
      batch_ = std::make_shared<const ArrowOwner<ArrowArray>>(**std::move(next));
      return true;
    }
  }

  size_t left() const { return static_cast<size_t>(batch_->get()->length) - next_; }
  void Pass(size_t rows) {
    before_ += rows;
    next_ += rows;
    if (left() > 0) return;
    batch_.reset();
    next_ = 0;
  }

  Status CheckIdentity() const {
    const std::string& path = files_[opened_ - 1];
    return identities_ == nullptr || IsStream(path) ? absl::OkStatus() : identities_->Check(path);
  }

  const simurgh_arrow_module* const module_;
  const DataConfig config_;
  const bool needs_labels_;
  const bool copies_skipped_;
  FileIdentities* const identities_;  // May be null.
  const std::vector<std::string> files_;
  std::vector<size_t> hashable_;  // Configured columns that can be hashed, by the first file.

  size_t opened_ = 0;
  std::unique_ptr<ArrowFile> file_;                      // The last opened file; null at the end.
  std::shared_ptr<const FileTypes> types_;               // Types of file_.
  std::shared_ptr<const ArrowOwner<ArrowArray>> batch_;  // Has unread rows; or null.
  size_t next_ = 0;                                      // Next row of the batch.
  uint64_t before_ = 0;                                  // Rows of the file before that row.
};

class TableSource final : public ArrowSource {
 public:
  TableSource(const DataConfig& config, const ReadOptions& options)
      : ArrowSource(/*module=*/nullptr, config, {"table"}, options) {}

  Status Add(ArrowArrayStream* table) {
    auto file = std::make_unique<TableFile>(table);
    const TableFile& opened = *file;
    SIMURGH_RETURN_IF_ERROR(OpenData(std::move(file)));
    selection_ = opened.selection();
    return absl::OkStatus();
  }
  // Takes over a table with the schema of the last one.
  void AddLike(ArrowArrayStream* table) {
    OpenSame(std::make_unique<TableFile>(table, selection_));
  }
  void End() { has_ended_ = true; }

  bool is_idle() const override { return !has_ended_; }
  size_t files_opened() const override { return 0; }
  double part() const override { return 0; }

 private:
  bool has_ended_ = false;
  TableFile::Selection selection_;  // The last table has these columns.
};

// Passes the type and name of each part of a schema to use(text), until it returns false.
template <typename Use>
bool ForEachText(const ArrowSchema& schema, const Use& use) {
  const std::string_view format = schema.format == nullptr ? "" : schema.format;
  const std::string_view name = schema.name == nullptr ? "" : schema.name;
  if (!use(format) || !use(":") || !use(name) || !use("(")) return false;
  for (int64_t child = 0; child < schema.n_children; ++child) {
    if (!ForEachText(*schema.children[child], use)) return false;
  }
  if (schema.dictionary != nullptr && !ForEachText(*schema.dictionary, use)) return false;
  return use(")");
}

std::string TextOf(const ArrowSchema& schema) {
  std::string text;
  (void)ForEachText(schema, [&](std::string_view part) {
    text += part;
    return true;
  });
  return text;
}

bool HasText(const ArrowSchema& schema, std::string_view text) {
  const bool is_start = ForEachText(schema, [&](std::string_view part) {
    if (!text.starts_with(part)) return false;
    text.remove_prefix(part.size());
    return true;
  });
  return is_start && text.empty();
}

}  // namespace

StatusOr<std::vector<ColumnConfig>> ArrowColumns(DataConfig::Format format,
                                                 const std::string& path) {
  const auto module = ArrowModule();
  if (!module.ok()) return Annotate(module.status(), path);
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                           WithRemoteFiles(NamedFiles(format, path)));
  if (files.empty()) return absl::NotFoundError(absl::StrCat(path, ": it names no file"));
  auto file = OpenArrowFile(**module, format, files.front());
  if (!file.ok()) return Annotate(file.status(), files.front());
  SIMURGH_ASSIGN_OR_RETURN(const auto schema, (*file)->Schema());
  std::vector<size_t> all(static_cast<size_t>(schema.get()->n_children));
  std::iota(all.begin(), all.end(), size_t{0});
  SIMURGH_ASSIGN_OR_RETURN(const auto types, (*file)->Select(all));
  std::vector<ColumnConfig> columns;
  for (const size_t i : all) {
    ArrowSchema* type = types.get()->children[i];
    ColumnConfig column{.name = schema.get()->children[i]->name, .kind = ColumnConfig::Kind::kId};
    const ArrowSchema alone{.format = "+s", .n_children = 1, .children = &type};
    const auto rows = ArrowRows::Create(alone, {column});
    if (!rows.ok() || rows->HasWeights(0)) column.kind = ColumnConfig::Kind::kSkip;
    if (std::string_view(type->format).starts_with('+')) column.separator = kListSeparator;
    columns.push_back(std::move(column));
  }
  return columns;
}

StatusOr<std::unique_ptr<RowSource>> OpenArrowSource(const DataConfig& config,
                                                     const std::vector<std::string>& files,
                                                     const ReadOptions& options) {
  const auto module = ArrowModule();
  if (!module.ok()) {
    return files.empty() ? module.status() : Annotate(module.status(), files.front());
  }
  SIMURGH_ASSIGN_OR_RETURN(std::vector<std::string> all, WithRemoteFiles(files));
  auto source = std::make_unique<ArrowSource>(*module, config, std::move(all), options);
  SIMURGH_RETURN_IF_ERROR(source->OpenNextFile());
  return source;
}

StatusOr<std::unique_ptr<ArrowRecords>> NewArrowRecords(const DataConfig& config) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh_arrow_module* module, ArrowModule());
  return std::make_unique<ArrowSource>(module, config, std::vector<std::string>{"record"},
                                       ReadOptions());
}

namespace {

class TableBatcher final : public ArrowTableBatcher {
 public:
  TableBatcher(const DataConfig& config, const std::vector<FeatureConfig>& features,
               size_t batch_size, const ReadOptions& options)
      : config_(WithColumns(config)),
        features_(features),
        batch_size_(batch_size),
        options_(options) {}

  Status Add(ArrowArrayStream* table) override {
    if (options_.short_batches) {
      ArrowOwner<ArrowSchema> schema;
      const bool has_schema = table->get_schema(table, schema.get()) == 0;
      if (source_ != nullptr && has_schema && HasText(*schema.get(), schema_)) {
        source_->AddLike(table);
        return absl::OkStatus();
      }
      // A parser hashes the columns that the first table's types allow.
      skipped_before_ = skipped_rows();
      source_ = nullptr;
      reader_ = nullptr;
      schema_ = has_schema ? TextOf(*schema.get()) : "";
    }
    if (source_ != nullptr) return source_->Add(table);
    auto source = std::make_unique<TableSource>(config_, options_);
    SIMURGH_RETURN_IF_ERROR(source->Add(table));
    TableSource* const opened = source.get();
    SIMURGH_ASSIGN_OR_RETURN(
        reader_, NewReaderOf(config_, features_, std::move(source), batch_size_, options_));
    source_ = opened;
    return absl::OkStatus();
  }

  StatusOr<std::optional<Batch>> Next() override {
    if (reader_ == nullptr) return std::nullopt;
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader_->Next());
    if (batch && batch->idle) return std::nullopt;
    return batch;
  }

  void End() override {
    if (source_ != nullptr) source_->End();
  }

  uint64_t skipped_rows() const override {
    return skipped_before_ + (reader_ == nullptr ? 0 : reader_->skipped_rows());
  }

 private:
  // Returns the configuration with the columns that its format implies.
  static DataConfig WithColumns(DataConfig config) {
    config.columns = ColumnsOf(config);
    return config;
  }

  const DataConfig config_;
  const std::vector<FeatureConfig> features_;
  const size_t batch_size_;
  const ReadOptions options_;
  std::string schema_;             // The last table has this schema, with short_batches.
  uint64_t skipped_before_ = 0;    // Earlier readers skipped these.
  TableSource* source_ = nullptr;  // The reader's; null before the first table.
  std::unique_ptr<BatchReader> reader_;
};

}  // namespace

std::unique_ptr<ArrowTableBatcher> NewArrowTableBatcher(const DataConfig& config,
                                                        const std::vector<FeatureConfig>& features,
                                                        size_t batch_size,
                                                        const ReadOptions& options) {
  return std::make_unique<TableBatcher>(config, features, batch_size, options);
}

}  // namespace simurgh
