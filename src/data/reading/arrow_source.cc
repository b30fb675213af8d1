#include "data/reading/arrow_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "base/file_descriptor.h"
#include "base/invalid.h"
#include "data/reading/arrow_rows.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_parser.h"
#include "data/reading/row_text.h"
#include "simurgh/arrow_module.h"

namespace simurgh {
namespace {

constexpr char kLibrary[] = "libsimurgh_arrow.so";
constexpr char kVariable[] = "SIMURGH_ARROW_MODULE";
constexpr std::string_view kUnix = "unix:";

// Room for a message of the module.
class Message {
 public:
  simurgh_arrow_message* room() { return &room_; }

  Status Of(simurgh_arrow_result result) const {
    const absl::string_view bytes(bytes_.data(), strnlen(bytes_.data(), bytes_.size()));
    // The status has the message as one line of printable characters.
    const std::string text =
        absl::StrReplaceAll(absl::CHexEscape(absl::StripTrailingAsciiWhitespace(bytes)),
                            {{"\\n", "; "}, {"\\'", "'"}, {"\\\"", "\""}});
    switch (result) {
      case SIMURGH_ARROW_OK:
      case SIMURGH_ARROW_END:
        return absl::OkStatus();
      case SIMURGH_ARROW_NOT_FOUND:
        return absl::NotFoundError(text);
      case SIMURGH_ARROW_DENIED:
        return absl::PermissionDeniedError(text);
      case SIMURGH_ARROW_FAILED:
        return absl::UnavailableError(text);
      case SIMURGH_ARROW_DAMAGED:
        return absl::DataLossError(text);
      case SIMURGH_ARROW_REFUSED:
        break;
    }
    return absl::FailedPreconditionError(text);
  }

 private:
  std::array<char, 1'024> bytes_{};
  simurgh_arrow_message room_{bytes_.data(), bytes_.size()};
};

std::vector<std::string> PlacesOfModule() {
  if (const char* const named = std::getenv(kVariable); named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code failed;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  std::vector<std::string> places = {(folder / kLibrary).string(),
                                     (folder / "../lib/simurgh" / kLibrary).string()};
  // In another program this code is part of libsimurgh.so, whose folder lies next to that of the
  // programs.
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&PlacesOfModule), &own) != 0 && *own.dli_fname == '/') {
    places.push_back(
        (std::filesystem::path(own.dli_fname).parent_path() / "../bin" / kLibrary).string());
  }
  return places;
}

// Loads the module, which then stays loaded.
StatusOr<const simurgh_arrow_module*> LoadModule() {
  const std::vector<std::string> places = PlacesOfModule();
  std::string found;
  for (const std::string& place : places) {
    if (std::filesystem::exists(place)) {
      found = place;
      break;
    }
  }
  if (found.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "Parquet and Arrow data need %s, and there is no %s; build it: scripts/bootstrap.sh "
        "--arrow gets Arrow C++, the next build makes the module; or name it in the environment "
        "variable %s",
        kLibrary, places.front(), kVariable));
  }
  void* const object = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* const reason = dlerror();
    return absl::FailedPreconditionError(
        absl::StrFormat("%s cannot be loaded: %s; it needs the Arrow libraries that it was built "
                        "with, see scripts/bootstrap.sh --arrow",
                        found, reason == nullptr ? "unknown reason" : reason));
  }
  void* const symbol = dlsym(object, SIMURGH_ARROW_ENTRY);
  const simurgh_arrow_module* const module =
      symbol == nullptr ? nullptr : reinterpret_cast<simurgh_arrow_entry_function>(symbol)();
  if (module == nullptr || module->version != SIMURGH_ARROW_VERSION) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s is not the module of this program's version; build both together", found));
  }
  return module;
}

StatusOr<const simurgh_arrow_module*> Module() {
  static const StatusOr<const simurgh_arrow_module*> module = LoadModule();
  return module;
}

// Set when a reader has opened the standard input, which can be read once in a process.
std::atomic<bool> standard_input_is_read = false;

StatusOr<FileDescriptor> OpenStream(const std::string& path) {
  if (path == "-" || path == "/dev/stdin") {
    if (standard_input_is_read.exchange(true)) {
      return absl::FailedPreconditionError(
          "standard input can be read once; set training.epochs: 1 and mean and stddev of dense "
          "columns, or use a socket, unix:PATH, or a file");
    }
    FileDescriptor input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!input.valid()) return ErrnoStatus(errno, "cannot read standard input");
    return input;
  }
  if (!path.starts_with(kUnix)) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
    return file;
  }
  const std::string_view place = std::string_view(path).substr(kUnix.size());
  sockaddr_un address{.sun_family = AF_UNIX};
  if (place.size() >= sizeof(address.sun_path)) {
    return Invalid("the path of a socket has at most %d bytes; shorten it",
                   sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, place.data(), place.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address),
                                   sizeof(address)) != 0) {
    return ErrnoStatus(errno, "cannot connect; start the program that listens there first");
  }
  return socket;
}

// The first bytes of IPC files, which streams lack.
constexpr std::string_view kMagic = "ARROW1";

bool HasMagic(int descriptor) {
  std::array<char, kMagic.size()> bytes{};
  return ::pread(descriptor, bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(kMagic.size()) &&
         std::string_view(bytes.data(), bytes.size()) == kMagic;
}

// One file, stream or table.
class ArrowFile {
 public:
  virtual ~ArrowFile() = default;

  virtual StatusOr<ArrowOwner<ArrowSchema>> Schema() = 0;
  // Chooses the columns of Next(), by their places in the schema. Returns their types.
  virtual StatusOr<ArrowOwner<ArrowSchema>> Select(std::span<const size_t> columns) = 0;
  // Returns the next rows; nothing: there are no more.
  virtual StatusOr<std::optional<ArrowOwner<ArrowArray>>> Next() = 0;
  virtual uint64_t Skip(uint64_t /*rows*/) { return 0; }
  // Returns the number of rows; below 0: it is not known.
  virtual int64_t rows() const { return -1; }
};

// One that the module reads.
class ModuleFile final : public ArrowFile {
 public:
  static StatusOr<std::unique_ptr<ArrowFile>> Open(const simurgh_arrow_module& module,
                                                   DataConfig::Format format,
                                                   const std::string& path) {
    auto file = std::make_unique<ModuleFile>(module);
    simurgh_arrow_input input{.kind = SIMURGH_ARROW_PARQUET,
                              .path = path.c_str(),
                              .descriptor = -1,
                              .bytes = nullptr,
                              .size = 0};
    if (format == DataConfig::Format::kArrow) {
      input.kind = SIMURGH_ARROW_IPC_FILE;
      if (!IsRemoteFile(path)) {
        SIMURGH_ASSIGN_OR_RETURN(file->stream_, OpenStream(path));
        if (!HasMagic(file->stream_.number())) {
          input.kind = SIMURGH_ARROW_IPC_STREAM;
          input.descriptor = file->stream_.number();
        }
      }
    }
    SIMURGH_RETURN_IF_ERROR(file->Open(input));
    return file;
  }
  static StatusOr<std::unique_ptr<ArrowFile>> Open(const simurgh_arrow_module& module,
                                                   std::string_view bytes) {
    auto file = std::make_unique<ModuleFile>(module);
    const bool is_file = bytes.starts_with(kMagic);
    SIMURGH_RETURN_IF_ERROR(
        file->Open({.kind = is_file ? SIMURGH_ARROW_IPC_FILE : SIMURGH_ARROW_IPC_STREAM,
                    .path = nullptr,
                    .descriptor = -1,
                    .bytes = bytes.data(),
                    .size = bytes.size()}));
    return file;
  }

  explicit ModuleFile(const simurgh_arrow_module& module) : module_(module) {}
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;
  ~ModuleFile() override {
    if (reader_ != nullptr) module_.close(reader_);
  }

  StatusOr<ArrowOwner<ArrowSchema>> Schema() override {
    ArrowOwner<ArrowSchema> schema;
    Message message;
    SIMURGH_RETURN_IF_ERROR(message.Of(module_.schema(reader_, schema.get(), message.room())));
    return schema;
  }
  StatusOr<ArrowOwner<ArrowSchema>> Select(std::span<const size_t> columns) override {
    ArrowOwner<ArrowSchema> types;
    Message message;
    SIMURGH_RETURN_IF_ERROR(message.Of(
        module_.select(reader_, columns.data(), columns.size(), types.get(), message.room())));
    return types;
  }
  StatusOr<std::optional<ArrowOwner<ArrowArray>>> Next() override {
    ArrowOwner<ArrowArray> rows;
    Message message;
    const simurgh_arrow_result result = module_.next(reader_, rows.get(), message.room());
    if (result == SIMURGH_ARROW_END) return std::nullopt;
    SIMURGH_RETURN_IF_ERROR(message.Of(result));
    return rows;
  }
  uint64_t Skip(uint64_t rows) override { return module_.skip(reader_, rows); }
  int64_t rows() const override { return module_.rows(reader_); }

 private:
  Status Open(const simurgh_arrow_input& input) {
    Message message;
    return message.Of(module_.open(&input, &reader_, message.room()));
  }

  const simurgh_arrow_module& module_;
  FileDescriptor stream_;
  simurgh_arrow_reader* reader_ = nullptr;
};

// Returns a struct of some of its children, which it shares.
template <typename Struct>
ArrowOwner<Struct> ChildrenOf(std::shared_ptr<const ArrowOwner<Struct>> whole,
                              std::span<const size_t> children) {
  struct Shared {
    std::shared_ptr<const ArrowOwner<Struct>> whole;
    std::vector<Struct*> children;
  };
  auto* const shared = new Shared{std::move(whole), {}};
  for (const size_t child : children) {
    shared->children.push_back(shared->whole->get()->children[child]);
  }
  ArrowOwner<Struct> part;
  *part.get() = *shared->whole->get();
  part.get()->n_children = static_cast<int64_t>(children.size());
  part.get()->children = shared->children.data();
  part.get()->private_data = shared;
  part.get()->release = [](Struct* released) {
    delete static_cast<Shared*>(released->private_data);
    released->release = nullptr;
  };
  return part;
}

// A table that a program of this process gives.
class TableFile final : public ArrowFile {
 public:
  // Takes over the stream.
  explicit TableFile(ArrowArrayStream* stream) : stream_(std::exchange(*stream, {})) {}
  // The columns of a table that are read.
  struct Selection {
    std::vector<size_t> columns;
    size_t children = 0;  // Number of the table's columns.
  };
  // Takes over a stream with a selection of a table with an equal schema.
  TableFile(ArrowArrayStream* stream, Selection selection)
      : stream_(std::exchange(*stream, {})), selection_(std::move(selection)) {}
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  ~TableFile() override {
    if (stream_.release != nullptr) stream_.release(&stream_);
  }

  StatusOr<ArrowOwner<ArrowSchema>> Schema() override {
    ArrowOwner<ArrowSchema> schema;
    if (stream_.get_schema(&stream_, schema.get()) != 0) return Failure("its schema");
    return schema;
  }
  StatusOr<ArrowOwner<ArrowSchema>> Select(std::span<const size_t> columns) override {
    selection_.columns.assign(columns.begin(), columns.end());
    SIMURGH_ASSIGN_OR_RETURN(auto schema, Schema());
    selection_.children = static_cast<size_t>(schema.get()->n_children);
    return ChildrenOf(std::make_shared<const ArrowOwner<ArrowSchema>>(std::move(schema)),
                      selection_.columns);
  }
  StatusOr<std::optional<ArrowOwner<ArrowArray>>> Next() override {
    ArrowOwner<ArrowArray> rows;
    if (stream_.get_next(&stream_, rows.get()) != 0) return Failure("its rows");
    if (rows.get()->release == nullptr) return std::nullopt;
    if (rows.get()->n_children != static_cast<int64_t>(selection_.children) ||
        rows.get()->offset != 0) {
      return absl::InvalidArgumentError("a record batch does not fit the schema");
    }
    return ChildrenOf(std::make_shared<const ArrowOwner<ArrowArray>>(std::move(rows)),
                      selection_.columns);
  }
  const Selection& selection() const { return selection_; }

 private:
  Status Failure(const char* what) {
    const char* const reason = stream_.get_last_error(&stream_);
    return absl::UnavailableError(absl::StrCat("the program cannot give ", what,
                                               reason == nullptr ? "" : ": ",
                                               reason == nullptr ? "" : reason));
  }

  ArrowArrayStream stream_;
  Selection selection_;
};

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
    const Status opened = Begin(ModuleFile::Open(*module_, config_.format, path), path);
    return opened.ok() ? opened : Annotate(opened, path);
  }

  Status Open(std::string_view bytes) override {
    return OpenData(ModuleFile::Open(*module_, bytes));
  }

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
        types->of_path.emplace_back(c, of_path.at(HeaderName(column)));
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

StatusOr<std::vector<RemoteFile>> ListRemoteFiles(const std::string& uri) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh_arrow_module* module, Module());
  std::vector<RemoteFile> files;
  Message message;
  const auto found = [](void* context, const simurgh_arrow_file* file) {
    static_cast<std::vector<RemoteFile>*>(context)->push_back(
        {.path = file->path, .bytes = file->bytes, .modified_ns = file->modified_ns});
  };
  const Status listed = message.Of(module->list(uri.c_str(), found, &files, message.room()));
  if (!listed.ok()) return Annotate(listed, uri);
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(uri, ": it names no .parquet file; check the path"));
  }
  return files;
}

namespace {

// Returns the files, with URIs replaced by the files that they name.
StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    if (!IsRemoteFile(file)) {
      all.push_back(file);
      continue;
    }
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<RemoteFile> remote, ListRemoteFiles(file));
    for (const RemoteFile& one : remote) all.push_back(one.path);
  }
  return all;
}

}  // namespace

StatusOr<std::vector<ColumnConfig>> ArrowColumns(DataConfig::Format format,
                                                 const std::string& path) {
  const auto module = Module();
  if (!module.ok()) return Annotate(module.status(), path);
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(NamedFiles(format, path)));
  if (files.empty()) return absl::NotFoundError(absl::StrCat(path, ": it names no file"));
  auto file = ModuleFile::Open(**module, format, files.front());
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
  const auto module = Module();
  if (!module.ok()) {
    return files.empty() ? module.status() : Annotate(module.status(), files.front());
  }
  SIMURGH_ASSIGN_OR_RETURN(std::vector<std::string> all, FilesOf(files));
  auto source = std::make_unique<ArrowSource>(*module, config, std::move(all), options);
  SIMURGH_RETURN_IF_ERROR(source->OpenNextFile());
  return source;
}

StatusOr<std::unique_ptr<ArrowRecords>> NewArrowRecords(const DataConfig& config) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh_arrow_module* module, Module());
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
