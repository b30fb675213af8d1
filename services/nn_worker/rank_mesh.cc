#include "services/nn_worker/rank_mesh.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/check.h"
#include "collective/collective.h"
#include "services/api/peer_clients.h"
#include "services/api/reply.h"

namespace simurgh {
namespace {

rpc::Clock::time_point DeadlineOf(Channel channel, std::chrono::milliseconds timeout) {
  // The loading channel prefetches, and may wait for as long as evaluation or loaders take.
  return channel == Channel::kLoading ? rpc::Clock::time_point::max() : rpc::Clock::now() + timeout;
}

}  // namespace

RankMesh::RankMesh(IoThread& thread, const Options& options)
    : thread_(thread),
      options_(options),
      clients_(options.ranks),
      watchers_(options.ranks),
      changes_(thread.executor()),
      gone_(options.ranks) {
  for (uint32_t i = 1; i < ranks(); ++i) peers_.push_back((rank() + i) % ranks());
  for (std::vector<Line>& lines : lines_) lines.resize(ranks());
}

std::string RankMesh::NameOf(uint32_t rank) const {
  return absl::StrCat("rank ", rank, " of ", ranks(), " (nn_worker.instances.", rank, ")");
}

void RankMesh::Register(rpc::Server& server) {
  const auto place = [](const api::wire::ExchangeRequest& /*request*/, const auto& /*counts*/) {
    using Destinations = rpc::Destinations<api::Exchange::Request>;
    return StatusOr<Destinations>(rpc::SegmentDestination<std::byte>::kAllocate);
  };
  rpc::Register(server, api::kExchange, place,
                [this](auto request) { return OnExchange(std::move(request)); });
  rpc::Register(server, api::kAwaitEnd,
                [this](auto request) { return OnAwaitEnd(std::move(request)); });
}

Reply<api::Exchange> RankMesh::OnExchange(rpc::RequestOf<api::Exchange::Request> request) {
  const api::wire::ExchangeRequest& table = request.table();
  SIMURGH_CO_RETURN_IF_ERROR(co_await Admit(request.peer(), table.run(), request.deadline()));
  SIMURGH_CO_RETURN_IF_ERROR(Put(request.peer().index, table.channel(), table.number(),
                                 {request.segment<"part">(), request.owner<"part">()}));
  co_return rpc::Outgoing<api::Exchange::Response>();
}

Reply<api::AwaitEnd> RankMesh::OnAwaitEnd(rpc::RequestOf<api::AwaitEnd::Request> request) {
  SIMURGH_CO_RETURN_IF_ERROR(
      co_await Admit(request.peer(), request.table().run(), request.deadline()));
  std::optional<Failure> failure = FailureSoFar();
  while (!failure && !ended_) {
    if (!co_await changes_.Wait(request.deadline())) {
      co_return absl::CancelledError("the call has ended");
    }
    failure = FailureSoFar();
  }
  flatbuffers::FlatBufferBuilder builder;
  const auto reason = builder.CreateString(failure ? failure->others : "");
  const auto code = static_cast<uint32_t>(failure ? failure->code : absl::StatusCode::kOk);
  const auto root = api::wire::CreateAwaitEndResponse(builder, code, reason);
  co_return rpc::Outgoing<api::AwaitEnd::Response>(builder, root);
}

std::optional<RankMesh::Failure> RankMesh::FailureSoFar() {
  const MutexLock lock(mutex_);
  return failure_;
}

rpc::awaitable<Status> RankMesh::Admit(const rpc::Hello& sender, uint64_t run,
                                       rpc::Clock::time_point deadline) {
  if (sender.role != "nn-worker" || sender.index >= ranks() || sender.index == rank()) {
    co_return absl::InvalidArgumentError(
        absl::StrCat(sender.role, " ", sender.index, " is not another rank of ", NameOf(rank()),
                     "; use the same nn_worker.instances for all nn-workers"));
  }
  const auto until = api::AnswerBefore(deadline);
  while (run_ == 0 && !ended_ && co_await changes_.Wait(until)) {
  }
  if (run_ == 0) {
    co_return absl::UnavailableError(absl::StrCat(NameOf(rank()), " has not joined the run"));
  }
  if (run == run_) co_return absl::OkStatus();
  co_return absl::AbortedError(
      absl::StrCat(NameOf(rank()), " takes part in another run; restart all ranks"));
}

Status RankMesh::Put(uint32_t peer, uint8_t channel, uint64_t number, rpc::ReceivedSegment part) {
  if (channel >= kChannels) {
    return absl::InvalidArgumentError(
        absl::StrCat("exchange: channel ", channel, " is out of range; use 0 to ", kChannels - 1));
  }
  const MutexLock lock(mutex_);
  Line& line = lines_[channel][peer];
  if (number < line.taken) return absl::OkStatus();  // The message is a repetition.
  if (number >= line.taken + line.arrived.size()) {
    return absl::InvalidArgumentError(absl::StrCat("exchange: message ", number, " on channel ",
                                                   channel, " is out of range; message ",
                                                   line.taken, " is expected next"));
  }
  line.arrived[number % 2] = std::move(part);
  changed_[channel].NotifyAll();
  return absl::OkStatus();
}

void RankMesh::Expect(uint64_t run) {
  thread_.RunAndWait([&] {
    run_ = run;
    changes_.NotifyAll();
  });
}

Status RankMesh::Start(uint64_t run, const Dial& dial) {
  thread_.RunAndWait([&] {
    for (const uint32_t peer : peers_) {
      clients_[peer] = dial(peer);
      watchers_[peer] = dial(peer);
      run_ = run;
      Spawn(Attend(peer));
    }
    changes_.NotifyAll();
  });
  for (const uint32_t peer : peers_) Outgoing(Channel::kStep, peer, 1)[0] = std::byte{1};
  return Exchange(Channel::kStep, std::vector<size_t>(ranks(), 1), [] {}).status();
}

void RankMesh::End() {
  rpc::asio::co_spawn(thread_.executor(), Disconnect(), rpc::asio::use_future).get();
}

rpc::awaitable<void> RankMesh::Disconnect() {
  while (sending_ > 0 && !FailureSoFar()) co_await changes_.Wait(rpc::Clock::time_point::max());
  ended_ = true;
  changes_.NotifyAll();
  for (const uint32_t peer : peers_) {
    if (clients_[peer] == nullptr) continue;
    clients_[peer]->Stop();
    watchers_[peer]->Stop();
  }
  while (tasks_ > 0) co_await changes_.Wait(rpc::Clock::time_point::max());
  clients_.clear();
  watchers_.clear();
}

void RankMesh::Spawn(rpc::awaitable<void> task) {
  ++tasks_;
  rpc::asio::co_spawn(thread_.executor(), std::move(task),
                      [this](const std::exception_ptr& /*none*/) {
                        --tasks_;
                        changes_.NotifyAll();
                      });
}

rpc::awaitable<void> RankMesh::Attend(uint32_t peer) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateAwaitEndRequest(builder, run_);
  rpc::CallOptions options(rpc::Clock::time_point::max());
  options.patience = options_.timeout * 4 / 5;  // The error arrives before a wait times out.
  const auto response =
      co_await rpc::Call(*watchers_[peer], api::kAwaitEnd, {builder, root}, options);
  const MutexLock lock(mutex_);
  if (response.ok() && response->table().code() != 0) {
    const bool stopped =
        response->table().code() == static_cast<uint32_t>(absl::StatusCode::kCancelled);
    const auto* const reason = response->table().reason();
    (void)Fail({stopped ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable,
                reason == nullptr ? "" : reason->str()});
    co_return;
  }
  gone_[peer] = response.ok() ? "it has finished" : std::string(response.status().message());
  for (CondVar& changed : changed_) changed.NotifyAll();
}

rpc::awaitable<void> RankMesh::Send(uint32_t peer, Channel channel, uint64_t number,
                                    rpc::OutgoingSegment part) {
  const auto deadline = rpc::Clock::now() + options_.timeout;
  Status sent;
  do {
    flatbuffers::FlatBufferBuilder builder;
    const auto root =
        api::wire::CreateExchangeRequest(builder, run_, static_cast<uint8_t>(channel), number);
    sent = (co_await rpc::Call(*clients_[peer], api::kExchange,
                               {builder, root, {part.bytes, part.owner}}, api::Patient(deadline)))
               .status();
    // A lost connection does not end the run, unless Attend has lost the rank too.
    if (const MutexLock lock(mutex_); !gone_[peer].empty() || failure_) break;
  } while (absl::IsUnavailable(sent) && rpc::Clock::now() < deadline);
  --sending_;
  // A wait for messages reports a rank that is lost or silent.
  if (sent.ok() || absl::IsUnavailable(sent) || absl::IsDeadlineExceeded(sent) ||
      absl::IsCancelled(sent)) {
    co_return;
  }
  const MutexLock lock(mutex_);
  (void)Fail({sent.code(), absl::StrCat(NameOf(rank()), " cannot send to ", NameOf(peer), ": ",
                                        sent.message())});
}

std::span<std::byte> RankMesh::Outgoing(Channel channel, uint32_t peer, size_t bytes) {
  Line& line = LineOf(channel, peer);
  rpc::SegmentBuffer& buffer = line.buffers[next_[static_cast<size_t>(channel)] % 2];
  if (buffer.bytes.size() < bytes) {
    buffer = {};
    thread_.RunAndWait([&] { buffer = clients_[peer]->Allocate(bytes); });
  }
  line.outgoing = bytes;
  return buffer.bytes.first(bytes);
}

StatusOr<RankMesh::Messages> RankMesh::Exchange(Channel channel, std::span<const size_t> expected,
                                                absl::FunctionRef<void()> meanwhile) {
  {
    const MutexLock lock(mutex_);
    SIMURGH_RETURN_IF_ERROR(StatusOf(channel));
  }
  const uint64_t number = next_[static_cast<size_t>(channel)]++;
  std::vector<rpc::OutgoingSegment> parts(ranks());
  for (const uint32_t peer : peers_) {
    const Line& line = LineOf(channel, peer);
    const rpc::SegmentBuffer& buffer = line.buffers[number % 2];
    parts[peer] = {buffer.bytes.first(line.outgoing), buffer.owner};
  }
  rpc::asio::post(thread_.executor(), [this, channel, number, parts = std::move(parts)] {
    for (const uint32_t peer : peers_) {
      ++sending_;
      Spawn(Send(peer, channel, number, parts[peer]));
    }
  });
  meanwhile();
  Messages messages(ranks());
  for (const uint32_t peer : peers_) {
    SIMURGH_ASSIGN_OR_RETURN(messages[peer], Take(channel, peer, number, expected[peer]));
  }
  return messages;
}

StatusOr<rpc::ReceivedSegment> RankMesh::Take(Channel channel, uint32_t peer, uint64_t number,
                                              size_t expected) {
  const auto deadline = DeadlineOf(channel, options_.timeout);
  const MutexLock lock(mutex_);
  Line& line = LineOf(channel, peer);
  std::optional<rpc::ReceivedSegment>& arrived = line.arrived[number % 2];
  bool late = false;
  while (true) {
    SIMURGH_RETURN_IF_ERROR(StatusOf(channel));
    if (arrived) break;
    if (!gone_[peer].empty()) return FailByLoss(peer);
    if (late) {
      return Fail(
          {absl::StatusCode::kDeadlineExceeded,
           absl::StrCat(NameOf(peer), " sent nothing for ", options_.timeout.count(),
                        " ms (nn_worker.rank_timeout); see its log and restart all ranks")});
    }
    late = !changed_[static_cast<size_t>(channel)].WaitUntil(mutex_, deadline);
  }
  rpc::ReceivedSegment message = *std::exchange(arrived, std::nullopt);
  line.taken = number + 1;
  if (message.bytes.size() == expected) return message;
  return Fail({absl::StatusCode::kInvalidArgument,
               absl::StrCat(NameOf(peer), " sent ", message.bytes.size(), " bytes, expected ",
                            expected, "; use the same version and configuration on all ranks")});
}

Status RankMesh::StatusOf(Channel channel) const {
  if (failure_) return {failure_->code, failure_->own};
  if (!closed_[static_cast<size_t>(channel)]) return absl::OkStatus();
  return absl::CancelledError("ranks: the channel is closed");
}

Status RankMesh::Fail(Failure failure) {
  if (!failure_) {
    failure_ = std::move(failure);
    if (failure_->others.empty()) failure_->others = failure_->own;
    for (CondVar& changed : changed_) changed.NotifyAll();
    rpc::asio::post(thread_.executor(), [this] { changes_.NotifyAll(); });
  }
  return {failure_->code, failure_->own};
}

void RankMesh::Close(Channel channel) {
  const MutexLock lock(mutex_);
  closed_[static_cast<size_t>(channel)] = true;
  changed_[static_cast<size_t>(channel)].NotifyAll();
}

void RankMesh::Abort(const Status& reason) {
  const MutexLock lock(mutex_);
  const std::string message(reason.message());
  (void)Fail({reason.code(), message, absl::StrCat(NameOf(rank()), " stopped: ", message)});
}

Status RankMesh::AwaitLoss(std::chrono::milliseconds patience) {
  const auto deadline = rpc::Clock::now() + patience;
  const MutexLock lock(mutex_);
  while (!failure_) {
    for (const uint32_t peer : peers_) {
      if (!gone_[peer].empty()) return FailByLoss(peer);
    }
    if (!changed_[static_cast<size_t>(Channel::kStep)].WaitUntil(mutex_, deadline)) break;
  }
  return failure_ ? Status(failure_->code, failure_->own) : absl::OkStatus();
}

namespace {

// The part of `count` values that rank `owner` sums.
struct Part {
  size_t first;
  size_t count;
};

Part PartOf(size_t count, uint32_t ranks, uint32_t owner) {
  const size_t each = (count + ranks - 1) / ranks;
  const size_t first = std::min(count, each * owner);
  return {first, std::min(each, count - first)};
}

std::span<float> ResidualOf(std::span<float> residual, const Part& part) {
  return residual.empty() ? residual : residual.subspan(part.first, part.count);
}

class RankCollective final : public Collective {
 public:
  explicit RankCollective(RankMesh& mesh) : mesh_(mesh) {}
  ~RankCollective() override { mesh_.End(); }

  uint32_t rank() const override { return mesh_.rank(); }
  uint32_t ranks() const override { return mesh_.ranks(); }

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override;
  Status Sum(Channel channel, std::span<double> values) override;
  Status Gather(Channel channel, std::span<const std::byte> own, std::span<std::byte> all) override;
  void Close(Channel channel) override { mesh_.Close(channel); }
  void Abort(const Status& reason) override { mesh_.Abort(reason); }
  Status AwaitLoss(std::chrono::milliseconds patience) override {
    return mesh_.AwaitLoss(patience);
  }

 private:
  // Sends all ranks the same bytes.
  StatusOr<RankMesh::Messages> Share(
      Channel channel, std::span<const std::byte> own, std::span<const size_t> expected,
      absl::FunctionRef<void()> meanwhile = [] {});

  RankMesh& mesh_;
  // Reused between calls.
  std::array<std::vector<float>, kChannels> sums_;
  std::array<std::vector<std::byte>, kChannels> encoded_;
};

StatusOr<RankMesh::Messages> RankCollective::Share(Channel channel, std::span<const std::byte> own,
                                                   std::span<const size_t> expected,
                                                   absl::FunctionRef<void()> meanwhile) {
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) std::ranges::copy(own, mesh_.Outgoing(channel, peer, own.size()).begin());
  }
  return mesh_.Exchange(channel, expected, meanwhile);
}

Status RankCollective::Sum(Channel channel, std::span<float> values, ReducePrecision precision,
                           std::span<float> residual, absl::FunctionRef<void()> meanwhile) {
  if (!residual.empty()) SIMURGH_CHECK_EQ(residual.size(), values.size());
  if (precision == ReducePrecision::kF32) residual = {};
  // Two ranks send the same number of bytes either way, so one message replaces two consecutive
  // ones. Rounding rules that out, because it must give the same sums as on devices.
  if (ranks() == 2 && precision == ReducePrecision::kF32) {
    const std::vector<size_t> expected(ranks(), values.size_bytes());
    SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages,
                             Share(channel, std::as_bytes(values), expected, meanwhile));
    // Addition of two values commutes: both ends get the same bits.
    AddValues(messages[1 - rank()].bytes, precision, values);
    return absl::OkStatus();
  }
  // Every rank sums its part of all ranks' values, in rank order.
  std::vector<size_t> sizes(ranks());
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Part part = PartOf(values.size(), ranks(), peer);
    sizes[peer] = EncodedSize(part.count, precision);
    if (peer == rank()) continue;
    EncodeValues(values.subspan(part.first, part.count), precision, ResidualOf(residual, part),
                 mesh_.Outgoing(channel, peer, sizes[peer]));
  }
  const Part own = PartOf(values.size(), ranks(), rank());
  std::vector<float>& sums = sums_[static_cast<size_t>(channel)];
  sums.assign(own.count, 0.0F);
  {
    const std::vector<size_t> expected(ranks(), sizes[rank()]);
    SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages,
                             mesh_.Exchange(channel, expected, meanwhile));
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      if (peer == rank()) {
        AddValues(std::as_bytes(values.subspan(own.first, own.count)), ReducePrecision::kF32, sums);
      } else {
        AddValues(messages[peer].bytes, precision, sums);
      }
    }
  }
  // Then it sends the sums to all, encoded once.
  std::vector<std::byte>& encoded = encoded_[static_cast<size_t>(channel)];
  encoded.resize(sizes[rank()]);
  EncodeValues(sums, precision, ResidualOf(residual, own), encoded);
  SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages, Share(channel, encoded, sizes));
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    const Part part = PartOf(values.size(), ranks(), peer);
    DecodeValues(peer == rank() ? std::span<const std::byte>(encoded) : messages[peer].bytes,
                 precision, values.subspan(part.first, part.count));
  }
  return absl::OkStatus();
}

Status RankCollective::Sum(Channel channel, std::span<double> values) {
  std::vector<double> all(values.size() * ranks());
  SIMURGH_RETURN_IF_ERROR(
      Gather(channel, std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  std::ranges::fill(values, 0.0);
  for (size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
  return absl::OkStatus();
}

Status RankCollective::Gather(Channel channel, std::span<const std::byte> own,
                              std::span<std::byte> all) {
  SIMURGH_CHECK_EQ(all.size(), own.size() * ranks());
  const std::vector<size_t> expected(ranks(), own.size());
  SIMURGH_ASSIGN_OR_RETURN(const RankMesh::Messages messages, Share(channel, own, expected));
  for (uint32_t peer = 0; peer < ranks(); ++peer) {
    std::ranges::copy(peer == rank() ? own : messages[peer].bytes,
                      all.subspan(own.size() * peer).begin());
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Collective> NewRankCollective(RankMesh& mesh) {
  return std::make_unique<RankCollective>(mesh);
}

}  // namespace simurgh
