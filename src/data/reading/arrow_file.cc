#include "data/reading/arrow_file.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/file_descriptor.h"
#include "base/invalid.h"
#include "config/uri.h"
#include "data/reading/arrow_library.h"
#include "data/reading/row_source.h"

namespace simurgh {
namespace {

constexpr std::string_view kUnix = "unix:";

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
      if (!IsUri(path)) {
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
    ModuleMessage message;
    SIMURGH_RETURN_IF_ERROR(message.Of(module_.schema(reader_, schema.get(), message.room())));
    return schema;
  }
  StatusOr<ArrowOwner<ArrowSchema>> Select(std::span<const size_t> columns) override {
    ArrowOwner<ArrowSchema> types;
    ModuleMessage message;
    SIMURGH_RETURN_IF_ERROR(message.Of(
        module_.select(reader_, columns.data(), columns.size(), types.get(), message.room())));
    return types;
  }
  StatusOr<std::optional<ArrowOwner<ArrowArray>>> Next() override {
    ArrowOwner<ArrowArray> rows;
    ModuleMessage message;
    const simurgh_arrow_result result = module_.next(reader_, rows.get(), message.room());
    if (result == SIMURGH_ARROW_END) return std::nullopt;
    SIMURGH_RETURN_IF_ERROR(message.Of(result));
    return rows;
  }
  uint64_t Skip(uint64_t rows) override { return module_.skip(reader_, rows); }
  int64_t rows() const override { return module_.rows(reader_); }

 private:
  Status Open(const simurgh_arrow_input& input) {
    ModuleMessage message;
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

}  // namespace

StatusOr<std::unique_ptr<ArrowFile>> OpenArrowFile(const simurgh_arrow_module& module,
                                                   DataConfig::Format format,
                                                   const std::string& path) {
  return ModuleFile::Open(module, format, path);
}

StatusOr<std::unique_ptr<ArrowFile>> OpenArrowBytes(const simurgh_arrow_module& module,
                                                    std::string_view bytes) {
  return ModuleFile::Open(module, bytes);
}

TableFile::~TableFile() {
  if (stream_.release != nullptr) stream_.release(&stream_);
}

StatusOr<ArrowOwner<ArrowSchema>> TableFile::Schema() {
  ArrowOwner<ArrowSchema> schema;
  if (stream_.get_schema(&stream_, schema.get()) != 0) return Failure("its schema");
  return schema;
}

StatusOr<ArrowOwner<ArrowSchema>> TableFile::Select(std::span<const size_t> columns) {
  selection_.columns.assign(columns.begin(), columns.end());
  SIMURGH_ASSIGN_OR_RETURN(auto schema, Schema());
  selection_.children = static_cast<size_t>(schema.get()->n_children);
  return ChildrenOf(std::make_shared<const ArrowOwner<ArrowSchema>>(std::move(schema)),
                    selection_.columns);
}

StatusOr<std::optional<ArrowOwner<ArrowArray>>> TableFile::Next() {
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

Status TableFile::Failure(const char* what) {
  const char* const reason = stream_.get_last_error(&stream_);
  return absl::UnavailableError(absl::StrCat("the program cannot give ", what,
                                             reason == nullptr ? "" : ": ",
                                             reason == nullptr ? "" : reason));
}

}  // namespace simurgh
