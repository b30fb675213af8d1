#include "bench/micro/rpc/workload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "bench/micro/rpc/tensor.h"

namespace simurgh::bench {
namespace {

constexpr double kWarmUpShare = 0.25;
constexpr double kMegabyte = 1e6;
constexpr double kGigabyte = 1e9;
// Fewer requests give no useful percentile. A slow point therefore takes longer than its `seconds`.
constexpr uint64_t kMinRequests = 5;

void Fill(std::span<std::byte> bytes, uint64_t seed) {
  Random random(seed);
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t value = random();
    std::memcpy(bytes.data() + at, &value, std::min(sizeof(value), bytes.size() - at));
  }
}

void Stamp(std::span<std::byte> bytes, uint64_t number) {
  std::memcpy(bytes.data(), &number, sizeof(number));
  std::memcpy(bytes.data() + bytes.size() - sizeof(number), &number, sizeof(number));
}

bool HasStamp(std::span<const std::byte> bytes, uint64_t number) {
  return std::memcmp(bytes.data(), &number, sizeof(number)) == 0 &&
         std::memcmp(bytes.data() + bytes.size() - sizeof(number), &number, sizeof(number)) == 0;
}

uint64_t NanosecondsBetween(Workload::Clock::time_point from, Workload::Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

struct Tensors {
  uint64_t client = 0;
  uint64_t server = 0;
};

// Tensors that each side holds at once.
Tensors TensorsOf(const Point& point) {
  const uint64_t one = point.in_flight;
  // Unanswered requests and their responses.
  if (point.work != Work::kEcho) return {.client = 2 * one, .server = 2 * one};
  // An echo sends from where it has received, and over shared memory from a copy of that; so does
  // its client.
  if (point.transport == "shm") return {.client = 3 * one, .server = 2 * one};
  return {.client = 2 * one, .server = one};
}

double SecondsBetween(Workload::Clock::time_point from, Workload::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string NameOf(Work work) {
  switch (work) {
    case Work::kEcho:
      return "echo";
    case Work::kReady:
      return "ready";
    case Work::kProduce:
      return "produce";
  }
  return "";
}

Workload::Workload(Point point, pid_t server)
    : point_(std::move(point)), client_(::getpid()), server_(server) {}

void Workload::Begin() {
  idle_client_ = MemoryOf(client_);
  idle_server_ = MemoryOf(server_);
  ForgetPeak(client_);
  ForgetPeak(server_);
  for (uint32_t i = 0; i < point_.in_flight; ++i) {
    Slot slot;
    slot.number = i + 1;
    if (point_.work == Work::kEcho) {
      slot.request = AlignedBuffer(point_.bytes);
      slot.response = AlignedBuffer(point_.bytes);
      Fill(slot.request.bytes(), i);
    }
    slots_.push_back(std::move(slot));
  }
  phase_began_ = Clock::now();
}

bool Workload::Start(uint32_t slot) {
  if (phase_ == Phase::kOver) return false;
  Slot& one = slots_[slot];
  if (point_.work != Work::kReady) one.number = next_number_++;
  if (point_.work == Work::kEcho) Stamp(one.request.bytes().first(point_.bytes), one.number);
  one.started = Clock::now();
  return true;
}

Status Workload::Finish(uint32_t slot, std::span<const std::byte> received) {
  const Slot& one = slots_[slot];
  if (received.size() != point_.bytes || !IsAnswer(one, received)) {
    return absl::DataLossError(absl::StrCat("request ", one.number, " got another's response"));
  }
  const Clock::time_point now = Clock::now();
  if (phase_ != Phase::kOver) {
    ++finished_;
    if (phase_ == Phase::kTimed) latencies_.Record(NanosecondsBetween(one.started, now));
    EndPhase(SecondsBetween(phase_began_, now));
  }
  if (point_.work == Work::kEcho && phase_ == Phase::kOver &&
      !std::ranges::equal(request(slot), received)) {
    return absl::DataLossError(absl::StrCat("request ", one.number, ": the response differs"));
  }
  return absl::OkStatus();
}

bool Workload::IsAnswer(const Slot& slot, std::span<const std::byte> received) const {
  return point_.work == Work::kEcho ? HasStamp(received, slot.number)
                                    : Consume(received) == slot.number;
}

void Workload::EndPhase(double elapsed) {
  if (finished_ < std::max<uint64_t>(point_.in_flight, kMinRequests)) return;
  if (phase_ == Phase::kWarmUp && elapsed >= kWarmUpShare * point_.seconds) {
    phase_ = Phase::kTimed;
    finished_ = 0;
    cpu_seconds_ = CpuOfBoth();
    machine_seconds_ = CpuSecondsOfMachine();
    phase_began_ = Clock::now();
  } else if (phase_ == Phase::kTimed && elapsed >= point_.seconds) {
    phase_ = Phase::kOver;
    cpu_seconds_ = CpuOfBoth() - cpu_seconds_;
    machine_seconds_ = CpuSecondsOfMachine() - machine_seconds_;
    timed_seconds_ = elapsed;
  }
}

Sample Workload::Result() const {
  const Memory client = MemoryOf(client_);
  const Memory server = MemoryOf(server_);
  const auto requests = static_cast<double>(finished_);
  const double gigabytes = requests * 2 * static_cast<double>(point_.bytes) / kGigabyte;
  const Tensors tensors = TensorsOf(point_);
  return Sample{
      .rps = requests / timed_seconds_,
      .gbps = gigabytes / timed_seconds_,
      .p50_us = latencies_.Quantile(0.5) / 1e3,
      .p99_us = latencies_.Quantile(0.99) / 1e3,
      .p999_us = latencies_.Quantile(0.999) / 1e3,
      .cpu_s_per_gb = cpu_seconds_ / gigabytes,
      .peak_rss_mb =
          static_cast<double>(std::max(client.peak_bytes, server.peak_bytes)) / kMegabyte,
      .extra_rss_mb = std::max(ExtraMegabytes(idle_client_, client, tensors.client),
                               ExtraMegabytes(idle_server_, server, tensors.server)),
      .other_cores = std::max(0.0, machine_seconds_ - cpu_seconds_) / timed_seconds_,
  };
}

double Workload::CpuOfBoth() const { return CpuSeconds(client_) + CpuSeconds(server_); }

double Workload::ExtraMegabytes(const Memory& idle, const Memory& end, uint64_t tensors) const {
  return (static_cast<double>(end.peak_bytes) - static_cast<double>(idle.resident_bytes) -
          static_cast<double>(tensors * point_.bytes)) /
         kMegabyte;
}

}  // namespace simurgh::bench
