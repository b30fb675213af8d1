// libsimurgh_arrow.so: reads Parquet and Arrow data, and writes vectors, by Arrow C++. See
// simurgh/arrow_module.h.

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/io_util.h>
#include <dlfcn.h>
#include <fnmatch.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <unistd.h>

#include "simurgh/arrow_module.h"

// A reader of one input. It is not in a namespace, because the interface names it.
struct simurgh_arrow_reader {
  virtual ~simurgh_arrow_reader() = default;
  virtual arrow::Result<std::shared_ptr<arrow::Schema>> Schema() = 0;
  virtual arrow::Result<std::shared_ptr<arrow::Schema>> Select(std::vector<int> columns) = 0;
  virtual int64_t Rows() const { return -1; }
  virtual uint64_t Skip(uint64_t /*rows*/) { return 0; }
  // Returns the next rows; null: there are no more.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
};

// A file of an object store.
struct simurgh_arrow_remote {
  std::shared_ptr<arrow::io::RandomAccessFile> file;
};

namespace simurgh {
namespace {

using RandomAccessFile = arrow::io::RandomAccessFile;

// Number of cells that are decoded at once. They and their ids fit into a cache.
constexpr int64_t kCells = int64_t{1} << 17;
constexpr int64_t kMinRows = 1'024;
constexpr int64_t kMaxRows = 65'536;
// Bytes of a column that are read at once.
constexpr int64_t kLocalBytes = int64_t{1} << 20;
constexpr int64_t kRemoteBytes = int64_t{8} << 20;

bool IsUri(std::string_view path) { return path.find("://") != path.npos; }

// Loads S3, which Arrow keeps in a separate library next to its others.
arrow::Status LoadS3() {
  static const arrow::Status loaded = [] {
    Dl_info about{};
    // Any function of libarrow tells its path.
    if (dladdr(reinterpret_cast<void*>(&arrow::internal::ErrnoFromStatus), &about) == 0 ||
        about.dli_fname == nullptr) {
      return arrow::Status::OK();
    }
    std::string library = about.dli_fname;
    const size_t at = library.rfind("libarrow");
    if (at == library.npos) return arrow::Status::OK();
    library.insert(at + std::strlen("libarrow"), "_s3");
    if (!std::filesystem::exists(library)) return arrow::Status::OK();  // S3 is in libarrow.
    return arrow::fs::LoadFileSystemFactories(library.c_str());
  }();
  return loaded;
}

// Returns the file system of a URI, and sets the path in it.
arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> FileSystemOf(const std::string& uri,
                                                                   std::string* path) {
  ARROW_RETURN_NOT_OK(LoadS3());
  auto files = arrow::fs::FileSystemFromUri(uri, path);
  // At exit, file systems must end before the libraries that they use.
  static const int registered = std::atexit([] { arrow::fs::EnsureFinalized(); });
  static_cast<void>(registered);
  return files;
}

arrow::Result<std::shared_ptr<RandomAccessFile>> OpenFile(const std::string& path) {
  if (!IsUri(path)) return arrow::io::ReadableFile::Open(path);
  std::string inner;
  ARROW_ASSIGN_OR_RAISE(const auto files, FileSystemOf(path, &inner));
  return files->OpenInputFile(inner);
}

void AddLeaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) AddLeaves(child, leaves);
}

// Returns whether a column that is written as places in a dictionary is also read so. Readers hash
// the values of a dictionary once.
bool HasDictionary(const parquet::arrow::SchemaField& field,
                   const parquet::ColumnDescriptor& column) {
  if (!field.is_leaf() || column.max_repetition_level() > 0 || column.max_definition_level() > 1) {
    return false;
  }
  switch (field.field->type()->id()) {
    case arrow::Type::INT32:
    case arrow::Type::UINT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT64:
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return true;
    default:
      return false;
  }
}

// Returns the dictionary of a column, whose first value is at `values`.
template <typename Number>
arrow::Result<std::shared_ptr<arrow::Array>> DictionaryOf(
    const Number* values, int64_t count, const std::shared_ptr<arrow::DataType>& type) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(Number));
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(bytes));
  if (bytes > 0) std::memcpy(buffer->mutable_data(), values, static_cast<size_t>(bytes));
  return arrow::MakeArray(arrow::ArrayData::Make(
      type, count, {nullptr, std::shared_ptr<arrow::Buffer>(std::move(buffer))}, 0));
}

template <>
arrow::Result<std::shared_ptr<arrow::Array>> DictionaryOf(
    const parquet::ByteArray* values, int64_t count, const std::shared_ptr<arrow::DataType>& type) {
  arrow::BinaryBuilder builder(type, arrow::default_memory_pool());
  ARROW_RETURN_NOT_OK(builder.Reserve(count));
  for (int64_t i = 0; i < count; ++i) {
    ARROW_RETURN_NOT_OK(builder.Append(values[i].ptr, static_cast<int32_t>(values[i].len)));
  }
  return builder.Finish();
}

// Reads the places of a column in its dictionary, in one row group.
class DictionaryReader {
 public:
  // Opens a column of a row group. Null unless all its values are places in the dictionary.
  static std::unique_ptr<DictionaryReader> Open(parquet::RowGroupReader& group, int leaf,
                                                std::shared_ptr<arrow::DataType> type) {
    auto reader = std::make_unique<DictionaryReader>();
    reader->column_ = group.ColumnWithExposeEncoding(leaf, parquet::ExposedEncoding::DICTIONARY);
    reader->type_ = std::move(type);
    const bool is_exposed =
        reader->column_->GetExposedEncoding() == parquet::ExposedEncoding::DICTIONARY;
    return is_exposed ? std::move(reader) : nullptr;
  }

  arrow::Result<std::shared_ptr<arrow::Array>> Next(int64_t rows) {
    switch (column_->type()) {
      case parquet::Type::INT32:
        return NextOf<parquet::Int32Type>(rows);
      case parquet::Type::INT64:
        return NextOf<parquet::Int64Type>(rows);
      default:
        return NextOf<parquet::ByteArrayType>(rows);
    }
  }

 private:
  template <typename Type>
  arrow::Result<std::shared_ptr<arrow::Array>> NextOf(int64_t rows) {
    auto& column = static_cast<parquet::TypedColumnReader<Type>&>(*column_);
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(rows * 4));
    auto* const places = reinterpret_cast<int32_t*>(buffer->mutable_data());
    levels_.resize(column_->descr()->max_definition_level() > 0 ? static_cast<size_t>(rows) : 0);
    int64_t count = 0;
    for (int64_t done = 0; done < rows;) {
      const typename Type::c_type* values = nullptr;
      int32_t size = 0;
      int64_t more = 0;
      const int64_t read = column.ReadBatchWithDictionary(
          rows - done, levels_.empty() ? nullptr : levels_.data() + done, nullptr, places + count,
          &more, &values, &size);
      if (read <= 0) {
        return arrow::Status::SerializationError("its row group lacks ", rows - done, " values");
      }
      if (dictionary_ == nullptr && values != nullptr) {
        ARROW_ASSIGN_OR_RAISE(dictionary_, DictionaryOf(values, size, type_));
      }
      done += read;
      count += more;
    }
    if (dictionary_ == nullptr) {
      ARROW_ASSIGN_OR_RAISE(dictionary_, arrow::MakeEmptyArray(type_));
    }
    std::shared_ptr<arrow::Buffer> valid;
    if (count < rows) {
      ARROW_ASSIGN_OR_RAISE(valid, Spread(places, count));
    }
    auto data = arrow::ArrayData::Make(arrow::dictionary(arrow::int32(), type_), rows,
                                       {std::move(valid), std::move(buffer)}, rows - count);
    data->dictionary = dictionary_->data();
    return arrow::MakeArray(std::move(data));
  }

  // Moves the first `count` places to the rows that are not null. Returns their bits.
  arrow::Result<std::shared_ptr<arrow::Buffer>> Spread(int32_t* places, int64_t count) const {
    const auto rows = static_cast<int64_t>(levels_.size());
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> valid, arrow::AllocateEmptyBitmap(rows));
    for (int64_t row = rows; row-- > 0;) {
      const bool is_valid = levels_[static_cast<size_t>(row)] > 0 && count > 0;
      places[row] = is_valid ? places[--count] : 0;
      arrow::bit_util::SetBitTo(valid->mutable_data(), row, is_valid);
    }
    return valid;
  }

  std::shared_ptr<parquet::ColumnReader> column_;
  std::shared_ptr<arrow::DataType> type_;  // Type of the values.
  std::shared_ptr<arrow::Array> dictionary_;
  std::vector<int16_t> levels_;
};

// Returns a dictionary array of `values`, whose places are 0, 1, 2, ...
arrow::Result<std::shared_ptr<arrow::Array>> AsDictionary(
    const std::shared_ptr<arrow::Array>& values) {
  const int64_t rows = values->length();
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> places, arrow::AllocateBuffer(rows * 4));
  auto* const first = reinterpret_cast<int32_t*>(places->mutable_data());
  std::iota(first, first + rows, 0);
  auto data = arrow::ArrayData::Make(arrow::dictionary(arrow::int32(), values->type()), rows,
                                     {nullptr, std::move(places)}, 0);
  data->dictionary = values->data();
  return arrow::MakeArray(std::move(data));
}

// Reads one row group after the other.
class ParquetReader final : public simurgh_arrow_reader {
 public:
  static arrow::Result<std::unique_ptr<simurgh_arrow_reader>> Open(const std::string& path) {
    auto reader = std::make_unique<ParquetReader>();
    ARROW_ASSIGN_OR_RAISE(reader->file_, OpenFile(path));
    reader->properties_.enable_buffered_stream();
    reader->properties_.set_buffer_size(IsUri(path) ? kRemoteBytes : kLocalBytes);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(reader->file_, reader->properties_));
    reader->metadata_ = builder.raw_reader()->metadata();
    ARROW_ASSIGN_OR_RAISE(reader->reader_, builder.Build());
    return reader;
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> Schema() override {
    std::shared_ptr<arrow::Schema> schema;
    ARROW_RETURN_NOT_OK(reader_->GetSchema(&schema));
    return schema;
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> Select(std::vector<int> columns) override {
    columns_ = std::move(columns);
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(false);
    std::vector<int> leaves;
    for (const int column : columns_) AddLeaves(field(column), leaves);
    const auto width = std::max<int64_t>(1, static_cast<int64_t>(leaves.size()));
    rows_at_once_ = std::clamp(kCells / width, kMinRows, kMaxRows);
    properties.set_batch_size(rows_at_once_);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file_, properties_, metadata_));
    ARROW_ASSIGN_OR_RAISE(reader_, builder.properties(properties)->Build());
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const int column : columns_) {
      const parquet::arrow::SchemaField& about = field(column);
      const bool is_dictionary =
          about.is_leaf() && HasDictionary(about, *metadata_->schema()->Column(about.column_index));
      are_dictionaries_.push_back(is_dictionary);
      fields.push_back(is_dictionary ? about.field->WithType(
                                           arrow::dictionary(arrow::int32(), about.field->type()))
                                     : about.field);
    }
    return arrow::schema(std::move(fields));
  }

  int64_t Rows() const override { return metadata_->num_rows(); }

  uint64_t Skip(uint64_t rows) override {
    uint64_t skipped = 0;
    if (left_ > 0) {
      if (rows < left_) return 0;
      skipped = left_;
      left_ = 0;
    }
    for (; group_ < metadata_->num_row_groups(); ++group_) {
      const auto count = static_cast<uint64_t>(metadata_->RowGroup(group_)->num_rows());
      if (rows - skipped < count) break;
      skipped += count;
    }
    return skipped;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    arrow::Status read;
    try {
      read = Read().Value(&batch);
    } catch (const std::exception& problem) {
      read = arrow::Status::SerializationError(problem.what());
    }
    if (!read.ok()) return Explain(read);
    return batch;
  }

 private:
  const parquet::arrow::SchemaField& field(int column) const {
    return reader_->manifest().schema_fields[static_cast<size_t>(column)];
  }

  // Opens the next row group with rows. Returns false if there is none.
  arrow::Result<bool> OpenGroup() {
    while (group_ < metadata_->num_row_groups() && metadata_->RowGroup(group_)->num_rows() <= 0) {
      ++group_;
    }
    if (group_ == metadata_->num_row_groups()) return false;
    const int group = group_++;
    left_ = static_cast<uint64_t>(metadata_->RowGroup(group)->num_rows());
    group_reader_ = reader_->parquet_reader()->RowGroup(group);
    dictionaries_.clear();
    std::vector<int> others;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const parquet::arrow::SchemaField& about = field(columns_[i]);
      dictionaries_.push_back(
          are_dictionaries_[i]
              ? DictionaryReader::Open(*group_reader_, about.column_index, about.field->type())
              : nullptr);
      if (dictionaries_.back() == nullptr) others.push_back(columns_[i]);
    }
    // Leaves of a file are in the order of its schema, and so are the columns of a batch.
    std::ranges::sort(others);
    places_.clear();
    for (const int column : columns_) {
      places_.push_back(
          static_cast<int>(std::ranges::lower_bound(others, column) - others.begin()));
    }
    std::vector<int> leaves;
    for (const int column : others) AddLeaves(field(column), leaves);
    batches_.reset();
    if (others.empty()) return true;
    ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader({group}, leaves));
    return true;
  }

  // Returns the next rows; null: there are no more.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Read() {
    if (left_ == 0) {
      ARROW_ASSIGN_OR_RAISE(const bool has_rows, OpenGroup());
      if (!has_rows) return nullptr;
    }
    int64_t rows = std::min(rows_at_once_, static_cast<int64_t>(left_));
    std::shared_ptr<arrow::RecordBatch> others;
    if (batches_ != nullptr) {
      do {
        ARROW_RETURN_NOT_OK(batches_->ReadNext(&others));
        if (others == nullptr) {
          return arrow::Status::SerializationError("row group ", group_ - 1, " lacks ", left_,
                                                   " rows");
        }
      } while (others->num_rows() == 0);
      rows = others->num_rows();
    }
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (dictionaries_[i] != nullptr) {
        ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), dictionaries_[i]->Next(rows));
      } else {
        arrays.push_back(others->column(places_[i]));
        if (are_dictionaries_[i]) {
          ARROW_ASSIGN_OR_RAISE(arrays.back(), AsDictionary(arrays.back()));
        }
      }
      fields.push_back(arrow::field("", arrays.back()->type()));
    }
    left_ -= std::min(left_, static_cast<uint64_t>(rows));
    return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows, std::move(arrays));
  }

  // Adds the name of the column that cannot be read, which Arrow's error lacks.
  arrow::Status Explain(const arrow::Status& problem) const {
    for (const int column : columns_) {
      const auto& field = reader_->manifest().schema_fields[static_cast<size_t>(column)];
      std::vector<int> leaves;
      AddLeaves(field, leaves);
      arrow::Status alone;
      std::shared_ptr<arrow::Table> table;
      try {
        alone = reader_->ReadRowGroup(group_ - 1, leaves).Value(&table);
      } catch (const std::exception& thrown) {
        alone = arrow::Status::SerializationError(thrown.what());
      }
      if (alone.ok()) continue;
      return alone.WithMessage("column '", field.field->name(), "': ", alone.message());
    }
    return problem;
  }

  std::shared_ptr<RandomAccessFile> file_;
  parquet::ReaderProperties properties_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> columns_;
  std::vector<bool> are_dictionaries_;  // Whether a column is handed on as a dictionary.
  int64_t rows_at_once_ = 0;
  int group_ = 0;      // The next group to open.
  uint64_t left_ = 0;  // Unread rows of the open group.
  // The members below belong to the open group.
  std::shared_ptr<parquet::RowGroupReader> group_reader_;
  std::vector<std::unique_ptr<DictionaryReader>> dictionaries_;  // One per column; or null.
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // Reads the columns without a dictionary.
  std::vector<int> places_;                            // Places of these columns in a batch.
};

arrow::ipc::IpcReadOptions IpcOptions() {
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  // Writers align buffers in files, but the file's memory may begin at any address.
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  return options;
}

// Reads record batches, one after the other.
class IpcFileReader final : public simurgh_arrow_reader {
 public:
  static arrow::Result<std::unique_ptr<simurgh_arrow_reader>> Open(
      std::shared_ptr<RandomAccessFile> file) {
    auto reader = std::make_unique<IpcFileReader>();
    reader->file_ = std::move(file);
    ARROW_ASSIGN_OR_RAISE(reader->reader_,
                          arrow::ipc::RecordBatchFileReader::Open(reader->file_, IpcOptions()));
    return reader;
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> Schema() override { return reader_->schema(); }

  arrow::Result<std::shared_ptr<arrow::Schema>> Select(std::vector<int> columns) override {
    std::vector<int> in_order = columns;
    std::ranges::sort(in_order);
    for (const int column : columns) {
      places_.push_back(
          static_cast<int>(std::ranges::lower_bound(in_order, column) - in_order.begin()));
    }
    arrow::ipc::IpcReadOptions options = IpcOptions();
    options.included_fields = std::move(in_order);
    // An empty list would mean all columns.
    if (!columns.empty()) {
      ARROW_ASSIGN_OR_RAISE(reader_, arrow::ipc::RecordBatchFileReader::Open(file_, options));
    }
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const int place : places_) fields.push_back(reader_->schema()->field(place));
    return arrow::schema(std::move(fields));
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (next_ < reader_->num_record_batches()) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, reader_->ReadRecordBatch(next_++));
      ARROW_RETURN_NOT_OK(batch->Validate());
      if (batch->num_rows() > 0) return batch->SelectColumns(places_);
    }
    return nullptr;
  }

 private:
  std::shared_ptr<RandomAccessFile> file_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  std::vector<int> places_;
  int next_ = 0;
};

// Reads a descriptor that cannot seek. The caller closes it.
class DescriptorStream final : public arrow::io::InputStream {
 public:
  explicit DescriptorStream(int descriptor) : descriptor_(descriptor) {}

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }

  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    int64_t done = 0;
    while (done < bytes) {
      const ssize_t count =
          ::read(descriptor_, static_cast<char*>(out) + done, static_cast<size_t>(bytes - done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        return arrow::internal::IOErrorFromErrno(errno, "cannot read the stream");
      }
      if (count == 0) break;
      done += count;
    }
    position_ += done;
    return done;
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(bytes));
    ARROW_ASSIGN_OR_RAISE(const int64_t count, Read(bytes, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(count));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  const int descriptor_;
  int64_t position_ = 0;
  bool closed_ = false;
};

class IpcStreamReader final : public simurgh_arrow_reader {
 public:
  static arrow::Result<std::unique_ptr<simurgh_arrow_reader>> Open(
      std::shared_ptr<arrow::io::InputStream> stream) {
    auto reader = std::make_unique<IpcStreamReader>();
    ARROW_ASSIGN_OR_RAISE(reader->reader_, arrow::ipc::RecordBatchStreamReader::Open(
                                               std::move(stream), IpcOptions()));
    return reader;
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> Schema() override { return reader_->schema(); }

  arrow::Result<std::shared_ptr<arrow::Schema>> Select(std::vector<int> columns) override {
    columns_ = std::move(columns);
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const int column : columns_) fields.push_back(reader_->schema()->field(column));
    return arrow::schema(std::move(fields));
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      ARROW_RETURN_NOT_OK(reader_->ReadNext(&batch));
      if (batch == nullptr) return nullptr;
      ARROW_RETURN_NOT_OK(batch->Validate());
      if (batch->num_rows() > 0) return batch->SelectColumns(columns_);
    }
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
  std::vector<int> columns_;
};

arrow::Result<std::unique_ptr<simurgh_arrow_reader>> Open(const simurgh_arrow_input& input) {
  if (input.kind == SIMURGH_ARROW_PARQUET) return ParquetReader::Open(input.path);
  const bool is_file = input.kind == SIMURGH_ARROW_IPC_FILE;
  if (input.path == nullptr && input.descriptor < 0) {
    auto memory = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(
        static_cast<const uint8_t*>(input.bytes), static_cast<int64_t>(input.size)));
    return is_file ? IpcFileReader::Open(std::move(memory))
                   : IpcStreamReader::Open(std::move(memory));
  }
  if (is_file) {
    ARROW_ASSIGN_OR_RAISE(auto file, OpenFile(input.path));
    return IpcFileReader::Open(std::move(file));
  }
  return IpcStreamReader::Open(std::make_shared<DescriptorStream>(input.descriptor));
}

simurgh_arrow_result ResultOf(const arrow::Status& status) {
  if (status.ok()) return SIMURGH_ARROW_OK;
  const int error = arrow::internal::ErrnoFromStatus(status);
  if (error == ENOENT) return SIMURGH_ARROW_NOT_FOUND;
  if (error == EACCES || error == EPERM) return SIMURGH_ARROW_DENIED;
  if (error != 0) return SIMURGH_ARROW_FAILED;
  if (status.IsNotImplemented()) return SIMURGH_ARROW_REFUSED;
  // Arrow gives the code of I/O errors to damaged content, too.
  return SIMURGH_ARROW_DAMAGED;
}

// Returns the status of a function that may throw, as a result and a message.
template <typename Function>
simurgh_arrow_result Guarded(simurgh_arrow_message* message, const Function& function) {
  arrow::Status status;
  try {
    status = function();
  } catch (const std::exception& problem) {
    status = arrow::Status::SerializationError(problem.what());
  }
  if (!status.ok() && message->size > 0) {
    const std::string text = status.message();
    const size_t count = std::min(text.size(), message->size - 1);
    std::memcpy(message->text, text.data(), count);
    message->text[count] = '\0';
  }
  return ResultOf(status);
}

simurgh_arrow_result OpenInput(const simurgh_arrow_input* input, simurgh_arrow_reader** reader,
                               simurgh_arrow_message* message) {
  return Guarded(message, [&] {
    ARROW_ASSIGN_OR_RAISE(auto opened, Open(*input));
    *reader = opened.release();
    return arrow::Status::OK();
  });
}

void CloseReader(simurgh_arrow_reader* reader) { delete reader; }

simurgh_arrow_result SchemaOf(simurgh_arrow_reader* reader, ArrowSchema* schema,
                              simurgh_arrow_message* message) {
  return Guarded(message, [&] {
    ARROW_ASSIGN_OR_RAISE(const auto all, reader->Schema());
    return arrow::ExportSchema(*all, schema);
  });
}

simurgh_arrow_result SelectColumns(simurgh_arrow_reader* reader, const size_t* columns,
                                   size_t count, ArrowSchema* types,
                                   simurgh_arrow_message* message) {
  return Guarded(message, [&] {
    ARROW_ASSIGN_OR_RAISE(const auto selected,
                          reader->Select(std::vector<int>(columns, columns + count)));
    return arrow::ExportSchema(*selected, types);
  });
}

int64_t RowsOf(simurgh_arrow_reader* reader) { return reader->Rows(); }

uint64_t SkipRows(simurgh_arrow_reader* reader, uint64_t rows) { return reader->Skip(rows); }

simurgh_arrow_result NextRows(simurgh_arrow_reader* reader, ArrowArray* rows,
                              simurgh_arrow_message* message) {
  bool is_end = false;
  const simurgh_arrow_result result = Guarded(message, [&] {
    ARROW_ASSIGN_OR_RAISE(const auto batch, reader->Next());
    is_end = batch == nullptr;
    return is_end ? arrow::Status::OK() : arrow::ExportRecordBatch(*batch, rows);
  });
  return is_end ? SIMURGH_ARROW_END : result;
}

// Returns the folder above the first part of a path that has a wildcard.
std::string FolderOfPattern(const std::string& path) {
  const size_t wildcard = path.find_first_of("*?[");
  return path.substr(0, path.rfind('/', wildcard));
}

// Returns the path as a part of a URI.
std::string Encoded(const std::string& path) {
  constexpr std::string_view kPlain = "-._~/=:@!$&'()+,;";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || kPlain.find(c) != kPlain.npos) {
      text += c;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

simurgh_arrow_result ListFiles(const char* uri, simurgh_arrow_file_function found, void* context,
                               simurgh_arrow_message* message) {
  return Guarded(message, [&]() -> arrow::Status {
    // The part of a URI before `?` names the file; the part after it has options.
    const std::string text = uri;
    const size_t scheme = text.find("://");
    const size_t options = text.find('?', scheme);
    const std::string tail = options == text.npos ? "" : text.substr(options);
    const std::string head = text.substr(0, options);
    const bool is_pattern = head.find_first_of("*[") != head.npos;
    const std::string base = is_pattern ? FolderOfPattern(head) : head;
    std::string path;
    ARROW_ASSIGN_OR_RAISE(const auto files, FileSystemOf(base + tail, &path));
    const std::string pattern = is_pattern ? path + head.substr(base.size()) : "";
    ARROW_ASSIGN_OR_RAISE(const arrow::fs::FileInfo about, files->GetFileInfo(path));
    std::vector<arrow::fs::FileInfo> all{about};
    const bool is_folder = about.type() == arrow::fs::FileType::Directory;
    if (is_folder) {
      arrow::fs::FileSelector selector;
      selector.base_dir = path;
      selector.recursive = true;
      ARROW_ASSIGN_OR_RAISE(all, files->GetFileInfo(selector));
    } else if (about.type() == arrow::fs::FileType::NotFound) {
      return arrow::internal::IOErrorFromErrno(ENOENT, "there is no such file or folder");
    }
    std::ranges::sort(all, {}, &arrow::fs::FileInfo::path);
    for (const arrow::fs::FileInfo& file : all) {
      if (!file.IsFile()) continue;
      if (is_pattern ? fnmatch(pattern.c_str(), file.path().c_str(), FNM_PATHNAME) != 0
                     : is_folder && !file.path().ends_with(".parquet")) {
        continue;
      }
      const std::string name = head.substr(0, scheme + 3) + Encoded(file.path()) + tail;
      const simurgh_arrow_file one{.path = name.c_str(),
                                   .bytes = static_cast<uint64_t>(file.size()),
                                   .modified_ns = file.mtime().time_since_epoch().count()};
      found(context, &one);
    }
    return arrow::Status::OK();
  });
}

simurgh_arrow_result OpenRemote(const char* uri, simurgh_arrow_remote** file, uint64_t* bytes,
                                simurgh_arrow_message* message) {
  return Guarded(message, [&]() -> arrow::Status {
    auto opened = std::make_unique<simurgh_arrow_remote>();
    ARROW_ASSIGN_OR_RAISE(opened->file, OpenFile(uri));
    ARROW_ASSIGN_OR_RAISE(const int64_t size, opened->file->GetSize());
    *bytes = static_cast<uint64_t>(size);
    *file = opened.release();
    return arrow::Status::OK();
  });
}

void CloseRemote(simurgh_arrow_remote* file) { delete file; }

simurgh_arrow_result ReadRemote(simurgh_arrow_remote* file, uint64_t byte, void* bytes, size_t size,
                                size_t* count, simurgh_arrow_message* message) {
  return Guarded(message, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(
        const int64_t read,
        file->file->ReadAt(static_cast<int64_t>(byte), static_cast<int64_t>(size), bytes));
    *count = static_cast<size_t>(read);
    return arrow::Status::OK();
  });
}

simurgh_arrow_result WriteVectors(const char* path, uint64_t rows, const int64_t* integers,
                                  const char* const* texts, const float* vectors, uint64_t width,
                                  simurgh_arrow_message* message) {
  constexpr int64_t kGroupRows = int64_t{1} << 16;
  return Guarded(message, [&]() -> arrow::Status {
    const auto count = static_cast<int64_t>(rows);
    std::shared_ptr<arrow::Array> ids;
    if (integers != nullptr) {
      ids = std::make_shared<arrow::Int64Array>(count, arrow::Buffer::Wrap(integers, rows));
    } else {
      arrow::StringBuilder builder;
      for (uint64_t row = 0; row < rows; ++row) ARROW_RETURN_NOT_OK(builder.Append(texts[row]));
      ARROW_RETURN_NOT_OK(builder.Finish(&ids));
    }
    const auto numbers = std::make_shared<arrow::FloatArray>(
        static_cast<int64_t>(rows * width), arrow::Buffer::Wrap(vectors, rows * width));
    ARROW_ASSIGN_OR_RAISE(const auto lists, arrow::FixedSizeListArray::FromArrays(
                                                numbers, static_cast<int32_t>(width)));
    const auto schema =
        arrow::schema({arrow::field("ids", ids->type()), arrow::field("vectors", lists->type())});
    const auto table = arrow::Table::Make(schema, {ids, lists}, count);
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::FileOutputStream::Open(path));
    ARROW_RETURN_NOT_OK(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file, kGroupRows));
    return file->Close();
  });
}

constexpr simurgh_arrow_module kModule{.version = SIMURGH_ARROW_VERSION,
                                       .open = OpenInput,
                                       .close = CloseReader,
                                       .schema = SchemaOf,
                                       .select = SelectColumns,
                                       .rows = RowsOf,
                                       .skip = SkipRows,
                                       .next = NextRows,
                                       .list = ListFiles,
                                       .open_remote = OpenRemote,
                                       .close_remote = CloseRemote,
                                       .read_remote = ReadRemote,
                                       .write_vectors = WriteVectors};

}  // namespace
}  // namespace simurgh

extern "C" __attribute__((visibility("default"))) const simurgh_arrow_module*
simurgh_arrow_entry() {
  return &simurgh::kModule;
}
