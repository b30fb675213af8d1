#include "telemetry/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <boost/crc.hpp>

namespace simurgh {
namespace {

static_assert(std::endian::native == std::endian::little, "Both formats are little-endian.");

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A serialised protocol buffer.
class Message {
 public:
  Message& Number(uint32_t field, uint64_t value) {
    Key(field, 0);
    Varint(value);
    return *this;
  }
  Message& Double(uint32_t field, double value) {
    Key(field, 1);
    bytes_.append(BytesOf(value));
    return *this;
  }
  Message& Float(uint32_t field, float value) {
    Key(field, 5);
    bytes_.append(BytesOf(value));
    return *this;
  }
  // A text, another message, or numbers side by side.
  Message& Bytes(uint32_t field, std::string_view bytes) {
    Key(field, 2);
    Varint(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  Message& Of(uint32_t field, const Message& message) { return Bytes(field, message.bytes_); }
  Message& Doubles(uint32_t field, std::span<const double> values) {
    return Bytes(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(uint32_t field, uint32_t type) { Varint(field << 3 | type); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

// Fields of Event.
constexpr uint32_t kWallTime = 1;
constexpr uint32_t kStep = 2;
constexpr uint32_t kFileVersion = 3;
constexpr uint32_t kSummary = 5;
constexpr uint32_t kSessionLog = 7;

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message EventAt(uint64_t step, double time) {
  return Message().Double(kWallTime, time).Number(kStep, step);
}

// value: a message Summary.Value without its tag.
std::string SummaryEvent(uint64_t step, double time, std::string_view tag, const Message& value) {
  const Message tagged_value = Message().Bytes(1, Message().Bytes(1, tag).bytes() + value.bytes());
  return EventAt(step, time).Of(kSummary, tagged_value).bytes();
}

// The checksum of a record: CRC-32C, rotated and with an offset.
uint32_t MaskedCrc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + 0xA282EAD8U;
}

}  // namespace

StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& directory,
                                                       uint64_t step) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(directory, ": ", error.message()));
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const double now = Now();
  // TensorBoard reads the files of a directory in the order of their names.
  const std::string path = absl::StrFormat("%s/events.out.tfevents.%017.6f.%s.%d", directory, now,
                                           host.data(), getpid());
  std::unique_ptr<EventFile> file(new EventFile(path));
  if (!file->file_) {
    const std::string reason = std::generic_category().message(errno);
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", reason));
  }
  file->Write(Message().Double(kWallTime, now).Bytes(kFileVersion, "brain.Event:2").bytes());
  // A start of a session hides events from its step on.
  const Message started = Message().Number(1, 1);
  file->Write(EventAt(step + 1, now).Of(kSessionLog, started).bytes());
  SIMURGH_RETURN_IF_ERROR(file->Flush());
  return file;
}

void EventFile::AddScalar(uint64_t step, double time, std::string_view tag, double value) {
  Write(SummaryEvent(step, time, tag, Message().Float(2, static_cast<float>(value))));
}

void EventFile::AddHistogram(uint64_t step, double time, std::string_view tag,
                             std::span<const float> values) {
  constexpr size_t kRanges = 30;
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  if (finite.empty()) return;
  const auto [least, most] = std::ranges::minmax(finite);
  const double width = (most - least) / kRanges;
  std::vector<double> ends(kRanges);
  for (size_t i = 0; i < kRanges; ++i) ends[i] = least + width * static_cast<double>(i + 1);
  ends.back() = most;
  std::vector<double> counts(kRanges, 0.0);
  double sum = 0;
  double squares = 0;
  for (const double value : finite) {
    const double range = width > 0 ? (value - least) / width : 0.0;
    counts[std::min(static_cast<size_t>(range), kRanges - 1)] += 1;
    sum += value;
    squares += value * value;
  }
  const Message histogram = Message()
                                .Double(1, least)
                                .Double(2, most)
                                .Double(3, static_cast<double>(finite.size()))
                                .Double(4, sum)
                                .Double(5, squares)
                                .Doubles(6, ends)
                                .Doubles(7, counts);
  Write(SummaryEvent(step, time, tag, Message().Of(5, histogram)));
}

void EventFile::AddText(uint64_t step, double time, std::string_view tag, std::string_view text) {
  constexpr uint64_t kString = 7;
  const Message plugin = Message().Of(1, Message().Bytes(1, "text"));
  const Message shape = Message().Of(2, Message().Number(1, 1));
  const Message tensor = Message().Number(1, kString).Of(2, shape).Bytes(8, text);
  Write(SummaryEvent(step, time, tag, Message().Of(8, tensor).Of(9, plugin)));
}

Status EventFile::Flush() {
  if (file_.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": cannot be written; check the disk"));
}

void EventFile::Write(std::string_view event) {
  const uint64_t size = event.size();
  file_ << BytesOf(size) << BytesOf(MaskedCrc(BytesOf(size))) << event << BytesOf(MaskedCrc(event));
}

}  // namespace simurgh
