#include "bench/micro/rpc/grpc/peer_grpc.h"

#include <deque>
#include <optional>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"

#include "bench/micro/rpc/grpc/codec.h"

namespace simurgh::bench {
namespace {

constexpr char kMethod[] = "/simurgh.bench.Echo/Call";
constexpr auto kTimeout = std::chrono::seconds(60);

// Larger frames and a larger look-ahead than the defaults are a few percent faster.
constexpr int kFrameBytes = (1 << 24) - 1;
constexpr int kLookaheadBytes = 64 << 20;

grpc::ChannelArguments Tuned() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  return arguments;
}

Status StatusOf(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// One call at the server, again and again.
template <typename Codec>
class Call {
 public:
  Call(typename Codec::Service& service, grpc::ServerCompletionQueue& queue, Codec& codec)
      : service_(service), queue_(queue), codec_(codec) {
    Await();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The step that was begun has ended.
  void Step() {
    if (answering_) return Await();
    answering_ = true;
    if (codec_.Answer(request_, response_)) {
      writer_->Finish(response_, grpc::Status::OK, this);
    } else {
      writer_->FinishWithError(grpc::Status(grpc::StatusCode::DATA_LOSS, "cannot be read"), this);
    }
  }

 private:
  void Await() {
    answering_ = false;
    writer_.reset();
    context_.emplace();
    writer_.emplace(&*context_);
    service_.RequestCall(&*context_, &request_, &*writer_, &queue_, &queue_, this);
  }

  typename Codec::Service& service_;
  grpc::ServerCompletionQueue& queue_;
  Codec& codec_;
  bool answering_ = false;
  typename Codec::Message request_, response_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<typename Codec::Message>> writer_;
};

template <typename Codec>
Status Serve(const Point& point, const std::string& address,
             const std::function<void(const std::string&)>& listening) {
  Codec codec;
  typename Codec::Service service;
  grpc::ServerBuilder builder;
  int port = 0;
  const std::string uri = point.transport == "unix" ? absl::StrCat("unix:", address) : address;
  builder.AddListeningPort(uri, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError(absl::StrCat("cannot listen on ", uri));

  std::deque<Call<Codec>> calls;
  for (uint32_t i = 0; i < point.in_flight; ++i) calls.emplace_back(service, *queue, codec);
  listening(point.transport == "unix"
                ? uri
                : absl::StrCat(address.substr(0, address.rfind(':')), ":", port));
  void* call = nullptr;
  bool ok = false;
  while (queue->Next(&call, &ok)) static_cast<Call<Codec>*>(call)->Step();
  return absl::OkStatus();
}

// A slot at the client.
template <typename Codec>
struct Slot {
  uint32_t number = 0;
  typename Codec::Message request, response;
  grpc::Status status;
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<typename Codec::Message>> reader;
};

template <typename Codec>
class Driver {
 public:
  Driver(const std::shared_ptr<grpc::Channel>& channel, Workload& workload)
      : stub_(channel), workload_(workload), slots_(workload.point().in_flight) {}

  Status Run() {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      slots_[i].number = i;
      Start(slots_[i]);
    }
    void* tag = nullptr;
    bool ok = false;
    while (running_ > 0 && queue_.Next(&tag, &ok)) {
      auto& slot = *static_cast<Slot<Codec>*>(tag);
      --running_;
      SIMURGH_RETURN_IF_ERROR(StatusOf(slot.status));
      const auto received = codec_.Land(slot.response, workload_.response(slot.number));
      SIMURGH_RETURN_IF_ERROR(workload_.Finish(slot.number, received));
      Start(slot);
    }
    return absl::OkStatus();
  }

 private:
  void Start(Slot<Codec>& slot) {
    if (!workload_.Start(slot.number)) return;
    ++running_;
    codec_.Put(workload_.request(slot.number), slot.request);
    slot.reader.reset();
    slot.context.emplace();
    slot.context->set_deadline(std::chrono::system_clock::now() + kTimeout);
    slot.reader = stub_.PrepareUnaryCall(&*slot.context, kMethod, slot.request, &queue_);
    slot.reader->StartCall();
    slot.reader->Finish(&slot.response, &slot.status, &slot);
  }

  grpc::TemplatedGenericStub<typename Codec::Message, typename Codec::Message> stub_;
  Workload& workload_;
  Codec codec_;
  grpc::CompletionQueue queue_;
  std::deque<Slot<Codec>> slots_;
  uint32_t running_ = 0;
};

template <typename Codec>
Status Drive(const Point& /*point*/, const std::string& address, Workload& workload) {
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), Tuned());
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kTimeout)) {
    return absl::UnavailableError(absl::StrCat("no connection to ", address));
  }
  workload.Begin();
  return Driver<Codec>(channel, workload).Run();
}

}  // namespace

Peer GrpcPeer() { return {.name = "grpc", .serve = Serve<FieldCodec>, .drive = Drive<FieldCodec>}; }

Peer GrpcByteBufferPeer() {
  return {
      .name = "grpc-bytebuffer", .serve = Serve<ByteBufferCodec>, .drive = Drive<ByteBufferCodec>};
}

}  // namespace simurgh::bench
