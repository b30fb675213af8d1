#include "data/reading/arrow_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#define XXH_INLINE_ALL  // A call costs as much as the hash of a short text.
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/hash.h"
#include "base/invalid.h"
#include "base/text.h"
#include "config/nearest.h"
#include "data/reading/arrow_types.h"
#include "data/reading/csv_cells.h"
#include "tensor/half.h"

namespace simurgh {
namespace {

using arrow::IsInteger;
using arrow::IsSet;
using arrow::IsText;
using arrow::NotRead;
using arrow::ReadWidth;
using arrow::Type;
using arrow::Values;
using arrow::ValuesOf;

constexpr double kExactIntegers = 9'007'199'254'740'992;  // A double holds all up to it.

// Lists of values: the outermost array of a column, or kNone if it has no lists.
struct Lists {
  enum class Kind : uint8_t { kNone, kSmall, kLarge, kFixed };
  Kind kind = Kind::kNone;
  int32_t width = 0;  // kFixed: elements of a list.

  const uint8_t* validity = nullptr;
  const void* offsets = nullptr;
  int64_t offset = 0;
  int64_t end_of_data = 0;
  const uint8_t* struct_validity = nullptr;  // Validity of elements that are structs.
  int64_t struct_offset = 0;
};

Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("its Arrow array is damaged: ", std::string(what)));
}

// Takes the elements [first, first + count) of an array.
Status TakeValues(const ArrowArray& array, Values& values) {
  const auto needed = [&]() -> int64_t {
    switch (values.type) {
      case Type::kNull:
        return 0;
      case Type::kText:
      case Type::kLargeText:
        return 3;
      default:
        return 2;
    }
  }();
  if (array.length < 0 || array.offset < 0 ||
      array.offset > std::numeric_limits<int64_t>::max() - array.length) {
    return Damaged("its length or offset is negative");
  }
  if (array.n_buffers < needed || (needed > 0 && array.buffers == nullptr)) {
    return Damaged(absl::StrCat("it has ", array.n_buffers, " buffers, its type has ", needed));
  }
  values.offset = array.offset;
  values.length = array.length;
  if (values.dictionary != nullptr) values.dictionary->length = 0;
  if (array.length == 0 || values.type == Type::kNull) return absl::OkStatus();
  values.validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  values.offsets =
      values.type == Type::kText || values.type == Type::kLargeText ? array.buffers[1] : nullptr;
  values.data = values.offsets == nullptr ? array.buffers[1] : array.buffers[2];
  if (array.buffers[1] == nullptr && (values.type != Type::kFixedText || values.width > 0)) {
    return Damaged("a buffer is missing");
  }
  const int64_t end = array.offset + array.length;
  if (values.type == Type::kText) {
    values.end_of_data = static_cast<const int32_t*>(values.offsets)[end];
  } else if (values.type == Type::kLargeText) {
    values.end_of_data = static_cast<const int64_t*>(values.offsets)[end];
  } else if (values.type == Type::kTextView) {
    if (array.n_buffers < 3) return Damaged("the sizes of its buffers are missing");
    values.buffers = array.buffers + 2;
    values.count_of_buffers = array.n_buffers - 3;
    values.sizes = static_cast<const int64_t*>(array.buffers[array.n_buffers - 1]);
    if (values.count_of_buffers > 0 && values.sizes == nullptr) {
      return Damaged("the sizes of its buffers are missing");
    }
  }
  if (values.end_of_data > 0 && values.data == nullptr) return Damaged("a buffer is missing");
  if (values.dictionary == nullptr) return absl::OkStatus();
  if (array.dictionary == nullptr) return Damaged("its dictionary is missing");
  return TakeValues(*array.dictionary, *values.dictionary);
}

// Calls `use` with an element that is an integer or a place in a dictionary.
template <typename Function>
auto WithInteger(const Values& values, int64_t i, const Function& use) {
  switch (values.type) {
    case Type::kInt8:
      return use(values.at<int8_t>(i));
    case Type::kUInt8:
      return use(values.at<uint8_t>(i));
    case Type::kInt16:
      return use(values.at<int16_t>(i));
    case Type::kUInt16:
      return use(values.at<uint16_t>(i));
    case Type::kInt32:
      return use(values.at<int32_t>(i));
    case Type::kUInt32:
      return use(values.at<uint32_t>(i));
    case Type::kUInt64:
      return use(values.at<uint64_t>(i));
    default:
      return use(values.at<int64_t>(i));
  }
}

// Room for the digits of numbers whose texts are used.
class Digits {
 public:
  static constexpr size_t kBytes = 32;  // Bytes for one number.

  // Forgets the texts, and makes room for `numbers`.
  void Reset(size_t numbers) {
    if (room_.size() < numbers * kBytes) room_.resize(numbers * kBytes);
    next_ = room_.data();
  }
  template <typename Number>
  std::string_view Text(Number number) {
    char* const begin = next_;
    next_ = std::to_chars(begin, begin + kBytes, number).ptr;
    return {begin, static_cast<size_t>(next_ - begin)};
  }

 private:
  std::vector<char> room_;
  char* next_ = nullptr;
};

StatusOr<std::string_view> TextAt(const Values& values, int64_t i) {
  const auto between = [&](int64_t begin, int64_t end) -> StatusOr<std::string_view> {
    if (begin < 0 || begin > end || end > values.end_of_data) {
      return Damaged("offsets of texts do not ascend");
    }
    return std::string_view(static_cast<const char*>(values.data) + begin,
                            static_cast<size_t>(end - begin));
  };
  const int64_t place = values.offset + i;
  switch (values.type) {
    case Type::kText: {
      const auto* offsets = static_cast<const int32_t*>(values.offsets);
      return between(offsets[place], offsets[place + 1]);
    }
    case Type::kLargeText: {
      const auto* offsets = static_cast<const int64_t*>(values.offsets);
      return between(offsets[place], offsets[place + 1]);
    }
    case Type::kFixedText:
      return std::string_view(static_cast<const char*>(values.data) + place * values.width,
                              static_cast<size_t>(values.width));
    default: {
      // A view: the length, then the text or, of long ones, 4 bytes, the buffer and the offset.
      const char* const view = static_cast<const char*>(values.data) + place * 16;
      std::array<int32_t, 4> parts;
      std::memcpy(parts.data(), view, 16);
      const int64_t length = parts[0];
      if (length < 0) return Damaged("the length of a text is negative");
      if (length <= 12) return std::string_view(view + 4, static_cast<size_t>(length));
      if (parts[2] < 0 || parts[2] >= values.count_of_buffers || parts[3] < 0 ||
          parts[3] + length > values.sizes[parts[2]] || values.buffers[parts[2]] == nullptr) {
        return Damaged("a text is outside of its buffer");
      }
      return std::string_view(static_cast<const char*>(values.buffers[parts[2]]) + parts[3],
                              static_cast<size_t>(length));
    }
  }
}

// Returns the digits of a decimal, without its scale.
__extension__ using Integer = __int128;
Integer DecimalAt(const Values& values, int64_t i) {
  Integer number = 0;
  const char* const bytes = static_cast<const char*>(values.data) +
                            (values.offset + i) * static_cast<int64_t>(values.width);
  if (values.width == 4) return values.at<int32_t>(i);
  if (values.width == 8) return values.at<int64_t>(i);
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

// Returns an element as a number, or nothing for a text.
std::optional<double> NumberAt(const Values& values, int64_t i) {
  switch (values.type) {
    case Type::kBool: {
      const int64_t bit = values.offset + i;
      return static_cast<const uint8_t*>(values.data)[bit / 8] >> (bit % 8) & 1;
    }
    case Type::kHalf:
      return FromHalf(Half::kF16, values.at<uint16_t>(i));
    case Type::kFloat:
      return values.at<float>(i);
    case Type::kDouble:
      return values.at<double>(i);
    case Type::kDecimal: {
      // A division rounds once, a product with .1 twice.
      const auto digits = static_cast<double>(DecimalAt(values, i));
      const double power = std::pow(10.0, std::abs(values.scale));
      return values.scale < 0 ? digits * power : digits / power;
    }
    default:
      return WithInteger(values, i, [](auto number) { return static_cast<double>(number); });
  }
}

// Returns the text of an id that is a float or a decimal. Integers up to 2^53, and decimals without
// a scale of any size, are written as integers.
std::string_view FloatText(const Values& values, int64_t i, double number, Digits& digits) {
  if (values.type == Type::kDecimal && values.scale == 0) {
    const Integer integer = DecimalAt(values, i);
    if (integer == static_cast<int64_t>(integer)) return digits.Text(static_cast<int64_t>(integer));
    if (integer == static_cast<Integer>(static_cast<uint64_t>(integer))) {
      return digits.Text(static_cast<uint64_t>(integer));
    }
  }
  if (std::abs(number) <= kExactIntegers && number == std::floor(number)) {
    return digits.Text(static_cast<int64_t>(number));
  }
  return values.type == Type::kFloat ? digits.Text(static_cast<float>(number))
                                     : digits.Text(number);
}

// Replaces an element of a dictionary array by the value it refers to. Returns false for a null.
StatusOr<bool> Follow(const Values*& values, int64_t& i) {
  if (!values->is_valid(i)) return false;
  if (values->dictionary == nullptr) return true;
  const auto place =
      WithInteger(*values, i, [](auto number) { return static_cast<uint64_t>(number); });
  values = values->dictionary.get();
  if (place >= static_cast<uint64_t>(values->length)) {
    return Damaged("a place is outside of its dictionary");
  }
  i = static_cast<int64_t>(place);
  return values->is_valid(i);
}

// Returns an element as text; none: it is missing.
StatusOr<std::optional<std::string_view>> IdAt(const Values& all, int64_t i, Digits& digits) {
  const Values* values = &all;
  SIMURGH_ASSIGN_OR_RETURN(const bool has_value, Follow(values, i));
  if (!has_value) return std::nullopt;
  if (IsText(values->type)) return TextAt(*values, i);
  if (Type::kHalf <= values->type && values->type <= Type::kDecimal) {
    const double number = *NumberAt(*values, i);
    if (std::isnan(number)) return std::nullopt;
    return FloatText(*values, i, number, digits);
  }
  if (values->type == Type::kBool) return digits.Text(*NumberAt(*values, i) != 0 ? 1 : 0);
  return WithInteger(*values, i, [&](auto number) { return digits.Text(number); });
}

// Sets a cell to an element: a text or a number. A time in a column of dates is in seconds.
Status SetNumber(const Values& all, int64_t i, bool is_date, Cell& cell) {
  const Values* values = &all;
  SIMURGH_ASSIGN_OR_RETURN(const bool has_value, Follow(values, i));
  if (!has_value) return absl::OkStatus();
  if (IsText(values->type)) {
    SIMURGH_ASSIGN_OR_RETURN(cell.text, TextAt(*values, i));
    cell.kind = Cell::Kind::kText;
    return absl::OkStatus();
  }
  const double number = *NumberAt(*values, i);
  if (std::isnan(number)) return absl::OkStatus();
  cell.kind = Cell::Kind::kNumber;
  cell.number = is_date && values->seconds > 0 ? number * values->seconds : number;
  return absl::OkStatus();
}

// Computes HashText() of the texts of ids.
class IdHasher {
 public:
  IdHasher(uint64_t seed, const std::vector<std::string>& missing_values)
      : seed_(Mix64(seed)), missing_(missing_values), known_(kKnown) {
    known_[0].bits = 1;  // Matches no number at first, since 1 is kept elsewhere.
    for (const std::string& text : missing_values) {
      may_be_integer_ = may_be_integer_ || text.find_first_of("0123456789") != text.npos;
    }
  }

  // Sets the hash and returns 1, or returns 0 if the text is missing.
  size_t Hash(std::string_view text, uint64_t* hash) const {
    if (std::ranges::find(missing_, text) != missing_.end()) return 0;
    *hash = Of(text);
    return 1;
  }

  template <typename Number>
  size_t HashInteger(Number number, uint64_t* hash) {
    // A column does not have signed and unsigned numbers of the same bits.
    const auto bits = static_cast<uint64_t>(number);
    Known& known = known_[PlaceOf(bits)];
    if (known.bits != bits) [[unlikely]] {
      std::array<char, 24> digits;
      const char* const end =
          std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
      const std::string_view text(digits.data(), static_cast<size_t>(end - digits.data()));
      if (may_be_integer_ && std::ranges::find(missing_, text) != missing_.end()) return 0;
      known = {.bits = bits, .hash = Of(text)};
    }
    *hash = known.hash;
    return 1;
  }

 private:
  static constexpr size_t kKnown = 4'096;
  struct Known {
    uint64_t bits = 0;
    uint64_t hash = 0;
  };

  static size_t PlaceOf(uint64_t bits) { return bits * 0x9e3779b97f4a7c15ULL >> 52; }
  uint64_t Of(std::string_view text) const {
    return XXH3_64bits_withSeed(text.data(), text.size(), seed_);
  }

  uint64_t seed_;
  std::vector<std::string> missing_;
  bool may_be_integer_ = false;  // The text of an integer may be missing.
  std::vector<Known> known_;     // Integers that were hashed last.
};
static_assert(uint64_t{1} << (64 - 52) == 4'096);

Status NotStruct() {
  return absl::InvalidArgumentError("the Arrow data have no columns; send record batches");
}

}  // namespace

// The memory of a dictionary's values.
struct DictionaryPlace {
  const void* validity = nullptr;
  const void* data = nullptr;
  const void* offsets = nullptr;
  int64_t offset = 0;
  int64_t length = 0;

  bool operator==(const DictionaryPlace&) const = default;
};

struct HashedDictionaries::Hashed {
  DictionaryPlace place;
  std::shared_ptr<const ArrowOwner<ArrowArray>> batch;  // Keeps the memory of `place`.
  // The hashes of each value, none or one, and where they end.
  std::vector<uint64_t> hashes;
  std::vector<uint32_t> ends;
};

HashedDictionaries::HashedDictionaries(size_t columns) : columns_(columns) {}
HashedDictionaries::~HashedDictionaries() = default;

struct ArrowRows::Column {
  ColumnConfig config;
  Lists lists;
  Values values;
  std::optional<Values> weights;  // Weights of the values of a list.

  Digits digits;  // Digits of the row.
  std::vector<std::string_view> list;
  std::vector<float> list_weights;

  std::optional<IdHasher> hasher;
  RowHashes ids;                                   // Hashed ids of all rows.
  HashedDictionaries::Of* dictionaries = nullptr;  // This column's, shared by all threads.
  std::shared_ptr<const HashedDictionaries::Hashed> dictionary;  // The last one used.

  bool has_lists() const { return lists.kind != Lists::Kind::kNone; }
  Status Take(const ArrowArray& array, int64_t rows);
  // Sets `ids` of the rows from `first` on. batch: that of the array.
  Status HashRows(int64_t first, int64_t rows,
                  const std::shared_ptr<const ArrowOwner<ArrowArray>>& batch);
  Status HashDictionary(const std::shared_ptr<const ArrowOwner<ArrowArray>>& batch);
  // Appends the hashes of values or, with `each_end`, sets the hashes and where those of each value
  // end; no ends if each value has one.
  Status HashValues(const Values& of, int64_t first, int64_t end, bool each_end,
                    std::vector<uint64_t>& into, std::vector<uint32_t>& value_ends);
  // Returns the range of a row's list; empty for a missing one.
  StatusOr<std::pair<int64_t, int64_t>> ListOf(int64_t row) const;
  Status TakeList(const ArrowArray& array);
  Status Read(int64_t row, Cell& cell);
  Status ReadList(int64_t first, int64_t end, Cell& cell);
};

ArrowRows::ArrowRows() = default;
ArrowRows::~ArrowRows() = default;
ArrowRows::ArrowRows(ArrowRows&&) noexcept = default;
ArrowRows& ArrowRows::operator=(ArrowRows&&) noexcept = default;

StatusOr<std::vector<size_t>> FindArrowColumns(const DataConfig& config, const ArrowSchema& schema,
                                               bool needs_labels,
                                               const std::set<std::string>& elsewhere) {
  if (schema.format == nullptr || std::string_view(schema.format) != "+s") return NotStruct();
  std::map<std::string_view, size_t> places;
  std::map<std::string_view, size_t> repeated;
  std::vector<std::string> names;
  for (int64_t i = 0; i < schema.n_children; ++i) {
    const char* const name = schema.children[i]->name;
    const std::string_view text = name == nullptr ? "" : name;
    if (!places.emplace(text, static_cast<size_t>(i)).second) repeated.emplace(text, 0);
    names.emplace_back(text);
  }
  std::vector<size_t> found;
  for (size_t i = 0; i < config.columns.size(); ++i) {
    const ColumnConfig& column = config.columns[i];
    const std::string& name = HeaderName(column);
    const auto place = places.find(name);
    const bool is_needed =
        column.kind != ColumnConfig::Kind::kSkip && (needs_labels || !IsTarget(column.kind));
    if (place == places.end() && is_needed && !column.may_lack && !elsewhere.contains(name)) {
      return Invalid("there is no column %s; %s; rename it, or set data.columns.%d.header_name",
                     Quoted(name), NearestRemedy("column", name, names), i);
    }
    if (is_needed && repeated.contains(name)) {
      return Invalid("column %s is there twice; rename one", Quoted(name));
    }
    found.push_back(place == places.end() ? FileColumns::kAbsent : place->second);
  }
  return found;
}

StatusOr<ArrowRows> ArrowRows::Create(const ArrowSchema& schema,
                                      std::vector<ColumnConfig> columns) {
  if (schema.format == nullptr || std::string_view(schema.format) != "+s" ||
      schema.n_children != static_cast<int64_t>(columns.size())) {
    return NotStruct();
  }
  ArrowRows rows;
  for (size_t c = 0; c < columns.size(); ++c) {
    const std::string name = absl::StrFormat("column '%s'", columns[c].name);
    Column column{.config = std::move(columns[c])};
    const ArrowSchema* inner = schema.children[c];
    const std::string_view format = inner->format;
    if (format == "+l" || format == "+m") column.lists.kind = Lists::Kind::kSmall;
    if (format == "+L") column.lists.kind = Lists::Kind::kLarge;
    if (format.starts_with("+w:")) {
      column.lists.kind = Lists::Kind::kFixed;
      if (!ReadWidth(format, "+w:", &column.lists.width)) {
        return Annotate(NotRead(format), name);
      }
    }
    if (column.lists.kind != Lists::Kind::kNone) {
      const bool is_vector = column.config.width > 1;
      if (column.config.kind != ColumnConfig::Kind::kId && !is_vector) {
        return Invalid(
            "%s: it has lists, but is no id column; give it kind: id or, for vectors of numbers, "
            "the width",
            name);
      }
      if (inner->n_children != 1) return Annotate(NotRead(format), name);
      inner = inner->children[0];
      if (std::string_view(inner->format) == "+s" && inner->n_children == 2) {
        auto weights = ValuesOf(*inner->children[1]);
        if (!weights.ok()) return Annotate(weights.status(), name);
        column.weights = *std::move(weights);
        if (IsText(column.weights->type) || column.weights->dictionary != nullptr) {
          return Invalid("%s: the second part of its structs, the weight, is no number", name);
        }
        inner = inner->children[0];
      }
    }
    auto values = ValuesOf(*inner);
    if (!values.ok()) return Annotate(values.status(), name);
    column.values = *std::move(values);
    rows.columns_.push_back(std::move(column));
    rows.read_.push_back(c);
  }
  return rows;
}

Status ArrowRows::Column::TakeList(const ArrowArray& array) {
  const bool is_fixed = lists.kind == Lists::Kind::kFixed;
  if (array.n_buffers < (is_fixed ? 1 : 2) || array.buffers == nullptr) {
    return Damaged("a buffer of its lists is missing");
  }
  if (array.n_children != 1 || array.children == nullptr) return Damaged("it has no values");
  lists.validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  lists.offset = array.offset;
  if (!is_fixed) {
    lists.offsets = array.buffers[1];
    if (lists.offsets == nullptr) return Damaged("a buffer of its lists is missing");
  }
  const ArrowArray* inner = array.children[0];
  lists.end_of_data = inner->length;
  if (weights) {
    if (inner->n_children != 2 || inner->children == nullptr) return Damaged("it has no weights");
    if (inner->offset < 0 || inner->length < 0 || inner->n_buffers < 1) {
      return Damaged("its length or offset is negative");
    }
    lists.struct_offset = inner->offset;
    lists.struct_validity =
        inner->null_count == 0 ? nullptr : static_cast<const uint8_t*>(inner->buffers[0]);
    for (int64_t child = 0; child < 2; ++child) {
      if (inner->children[child]->length < inner->offset + inner->length) {
        return Damaged("values or weights are missing");
      }
    }
    SIMURGH_RETURN_IF_ERROR(TakeValues(*inner->children[0], values));
    SIMURGH_RETURN_IF_ERROR(TakeValues(*inner->children[1], *weights));
    values.offset += inner->offset;
    weights->offset += inner->offset;
    return absl::OkStatus();
  }
  return TakeValues(*inner, values);
}

Status ArrowRows::Column::Take(const ArrowArray& array, int64_t rows) {
  if (array.length < 0 || array.offset < 0 || array.length < rows) {
    return Damaged(absl::StrCat("it has ", array.length, " of ", rows, " rows"));
  }
  if (rows == 0) return absl::OkStatus();
  return lists.kind == Lists::Kind::kNone ? TakeValues(array, values) : TakeList(array);
}

Status ArrowRows::Take(std::shared_ptr<const ArrowOwner<ArrowArray>> batch, size_t first,
                       size_t count) {
  rows_ = 0;
  batch_ = std::move(batch);
  const ArrowArray& array = *batch_->get();
  if (array.n_children != static_cast<int64_t>(columns_.size()) || array.length < 0 ||
      array.offset < 0 || (array.n_children > 0 && array.children == nullptr) ||
      first + count > static_cast<size_t>(array.length)) {
    return absl::DataLossError("an Arrow record batch does not fit its schema");
  }
  if (array.null_count > 0 && array.n_buffers > 0 && array.buffers[0] != nullptr) {
    return absl::DataLossError("an Arrow record batch has null rows");
  }
  first_ = array.offset + static_cast<int64_t>(first);
  // Threads with other rows of the batch begin at other columns, and hash other dictionaries.
  const size_t start =
      first * columns_.size() / std::max<size_t>(1, static_cast<size_t>(array.length));
  for (size_t i = 0; i < columns_.size(); ++i) {
    const size_t c = (start + i) % columns_.size();
    Column& column = columns_[c];
    Status taken = column.Take(*array.children[c], array.offset + array.length);
    if (taken.ok() && column.hasher) {
      taken = column.HashRows(first_, static_cast<int64_t>(count), batch_);
    }
    if (!taken.ok()) {
      return Annotate(taken, absl::StrFormat("column '%s'", columns_[c].config.name));
    }
  }
  rows_ = count;
  return absl::OkStatus();
}

void ArrowRows::Release() {
  rows_ = 0;
  batch_.reset();
  for (Column& column : columns_) {
    column.dictionary.reset();
    if (column.dictionaries == nullptr) continue;
    const MutexLock lock(column.dictionaries->mutex);
    column.dictionaries->last.reset();  // It is found by addresses of the batch.
  }
}

StatusOr<std::pair<int64_t, int64_t>> ArrowRows::Column::ListOf(int64_t row) const {
  const int64_t place = lists.offset + row;
  if (!IsSet(lists.validity, place)) return std::pair<int64_t, int64_t>(0, 0);
  std::pair<int64_t, int64_t> range;
  if (lists.kind == Lists::Kind::kFixed) {
    range = {place * lists.width, (place + 1) * lists.width};
  } else if (lists.kind == Lists::Kind::kSmall) {
    const auto* const offsets = static_cast<const int32_t*>(lists.offsets);
    range = {offsets[place], offsets[place + 1]};
  } else {
    const auto* const offsets = static_cast<const int64_t*>(lists.offsets);
    range = {offsets[place], offsets[place + 1]};
  }
  if (range.first < 0 || range.first > range.second || range.second > lists.end_of_data) {
    return Damaged("offsets of lists do not ascend");
  }
  return range;
}

Status ArrowRows::Column::HashDictionary(
    const std::shared_ptr<const ArrowOwner<ArrowArray>>& batch) {
  const Values& of = *values.dictionary;
  const DictionaryPlace place{of.validity, of.data, of.offsets, of.offset, of.length};
  if (dictionary != nullptr && dictionary->place == place) return absl::OkStatus();
  const MutexLock lock(dictionaries->mutex);
  if (dictionaries->last == nullptr || dictionaries->last->place != place) {
    auto hashed = std::make_shared<HashedDictionaries::Hashed>();
    hashed->place = place;
    hashed->batch = batch;
    SIMURGH_RETURN_IF_ERROR(HashValues(of, 0, of.length, true, hashed->hashes, hashed->ends));
    dictionaries->last = std::move(hashed);
  }
  dictionary = dictionaries->last;
  return absl::OkStatus();
}

Status ArrowRows::Column::HashValues(const Values& of, int64_t first, int64_t end, bool each_end,
                                     std::vector<uint64_t>& into,
                                     std::vector<uint32_t>& value_ends) {
  Status status;
  // add: sets the hash of an element, and returns how many it has.
  const auto for_each = [&](const auto& add) {
    size_t count = each_end ? 0 : into.size();
    size_t next_end = 0;
    into.resize(count + static_cast<size_t>(end - first));
    if (each_end) value_ends.resize(static_cast<size_t>(end - first));
    for (int64_t i = first; i < end; ++i) {
      if (of.is_valid(i)) count += add(i, into.data() + count);
      if (each_end) value_ends[next_end++] = static_cast<uint32_t>(count);
    }
    into.resize(count);
    return status;
  };
  if (of.dictionary != nullptr) {
    const std::vector<uint64_t>& dictionary_hashes = dictionary->hashes;
    const std::vector<uint32_t>& dictionary_ends = dictionary->ends;
    const auto known = static_cast<uint64_t>(dictionary_ends.size());
    const bool has_all = of.validity == nullptr && dictionary_hashes.size() == known;
    if (has_all && of.type == Type::kInt32) {  // The most frequent case has a separate loop.
      const auto* const places = static_cast<const uint32_t*>(of.data) + of.offset + first;
      const auto count = static_cast<size_t>(end - first);
      if (count > 0 && *std::max_element(places, places + count) >= known) {
        return Damaged("a place is outside of its dictionary");
      }
      const size_t before = each_end ? 0 : into.size();
      into.resize(before + count);
      for (size_t i = 0; i < count; ++i) into[before + i] = dictionary_hashes[places[i]];
      if (each_end) value_ends.clear();
      return absl::OkStatus();
    }
    return for_each([&](int64_t i, uint64_t* hash) -> size_t {
      const auto place =
          WithInteger(of, i, [](auto number) { return static_cast<uint64_t>(number); });
      if (place >= known) {
        status = Damaged("a place is outside of its dictionary");
        return 0;
      }
      const uint32_t before = place == 0 ? 0 : dictionary_ends[place - 1];
      if (before == dictionary_ends[place]) return 0;
      *hash = dictionary_hashes[before];
      return 1;
    });
  }
  if (of.type == Type::kInt64) {  // The most frequent type has a separate loop.
    return for_each(
        [&](int64_t i, uint64_t* hash) { return hasher->HashInteger(of.at<int64_t>(i), hash); });
  }
  if (IsInteger(of.type)) {
    return for_each([&](int64_t i, uint64_t* hash) {
      return WithInteger(of, i, [&](auto number) { return hasher->HashInteger(number, hash); });
    });
  }
  return for_each([&](int64_t i, uint64_t* hash) -> size_t {
    digits.Reset(1);
    const auto text = IdAt(of, i, digits);
    if (!text.ok()) status = text.status();
    if (!text.ok() || !*text) return 0;
    return hasher->Hash(**text, hash);
  });
}

Status ArrowRows::Column::HashRows(int64_t first, int64_t rows,
                                   const std::shared_ptr<const ArrowOwner<ArrowArray>>& batch) {
  if (rows > 0 && values.dictionary != nullptr) SIMURGH_RETURN_IF_ERROR(HashDictionary(batch));
  if (rows > 0 && !has_lists()) {
    return HashValues(values, first, first + rows, true, ids.hashes, ids.ends);
  }
  ids.hashes.clear();
  ids.ends.clear();
  for (int64_t row = first; row < first + rows; ++row) {
    SIMURGH_ASSIGN_OR_RETURN(const auto range, ListOf(row));
    SIMURGH_RETURN_IF_ERROR(
        HashValues(values, range.first, range.second, false, ids.hashes, ids.ends));
    ids.ends.push_back(static_cast<uint32_t>(ids.hashes.size()));
  }
  return absl::OkStatus();
}

bool ArrowRows::HasWeights(size_t column) const { return columns_[column].weights.has_value(); }

bool ArrowRows::CanHash(size_t column) const {
  const Column& one = columns_[column];
  return one.config.kind == ColumnConfig::Kind::kId && !one.weights &&
         ((one.config.separator == '\0' && !one.config.integers) ||
          !IsText((one.values.dictionary == nullptr ? one.values : *one.values.dictionary).type));
}

void ArrowRows::Hash(size_t column, uint64_t seed, const std::vector<std::string>& missing_values,
                     HashedDictionaries& dictionaries) {
  columns_[column].hasher.emplace(seed, missing_values);
  columns_[column].dictionaries = &dictionaries.columns_[column];
  std::erase(read_, column);
}

ArrowRows::RowHashes& ArrowRows::Hashes(size_t column) { return columns_[column].ids; }

Status ArrowRows::Column::ReadList(int64_t first, int64_t end, Cell& cell) {
  list.clear();
  list_weights.clear();
  digits.Reset(static_cast<size_t>(end - first));
  for (int64_t i = first; i < end; ++i) {
    if (weights && !IsSet(lists.struct_validity, lists.struct_offset + i)) continue;
    SIMURGH_ASSIGN_OR_RETURN(const auto id, IdAt(values, i, digits));
    if (!id) continue;
    list.push_back(*id);
    if (!weights) continue;
    // A missing weight is 1.
    const double weight = weights->is_valid(i) ? *NumberAt(*weights, i) : 1.0;
    list_weights.push_back(static_cast<float>(weight));
  }
  cell.kind = Cell::Kind::kList;
  cell.list = list;
  cell.weights = list_weights;
  return absl::OkStatus();
}

Status ArrowRows::Column::Read(int64_t row, Cell& cell) {
  cell.kind = Cell::Kind::kMissing;
  cell.weights = {};
  if (has_lists()) {
    if (!IsSet(lists.validity, lists.offset + row)) return absl::OkStatus();
    SIMURGH_ASSIGN_OR_RETURN(const auto range, ListOf(row));
    return ReadList(range.first, range.second, cell);
  }
  using Kind = ColumnConfig::Kind;
  if (config.kind == Kind::kLabel || config.kind == Kind::kWeight || config.kind == Kind::kDense) {
    SIMURGH_RETURN_IF_ERROR(SetNumber(values, row, config.date, cell));
    const Values& known = values.dictionary == nullptr ? values : *values.dictionary;
    // A feature can have the ids of a dense column, and a double does not hold all integers.
    const bool is_integer =
        IsInteger(known.type) || (known.type == Type::kDecimal && known.scale == 0);
    const bool is_exact = std::abs(cell.number) <= kExactIntegers || config.kind != Kind::kDense ||
                          config.date || !is_integer;
    if (cell.kind != Cell::Kind::kNumber || is_exact) return absl::OkStatus();
  }
  digits.Reset(1);
  SIMURGH_ASSIGN_OR_RETURN(const auto text, IdAt(values, row, digits));
  if (!text) return absl::OkStatus();
  cell.kind = Cell::Kind::kText;
  cell.text = *text;
  return absl::OkStatus();
}

Status ArrowRows::Read(size_t row, std::span<Cell* const> cells, bool with_hashed) {
  const int64_t place = first_ + static_cast<int64_t>(row);
  const auto read = [&](size_t c) {
    const Status status = columns_[c].Read(place, *cells[c]);
    if (status.ok()) return status;
    return Annotate(status, absl::StrFormat("column '%s'", columns_[c].config.name));
  };
  for (const size_t c : read_) SIMURGH_RETURN_IF_ERROR(read(c));
  for (size_t c = 0; with_hashed && c < columns_.size(); ++c) {
    if (columns_[c].hasher) SIMURGH_RETURN_IF_ERROR(read(c));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
