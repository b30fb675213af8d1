#pragma once

// The two ways to hand payload to gRPC.

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <grpcpp/impl/codegen/proto_buffer_reader.h>
#include <grpcpp/support/byte_buffer.h>

#include "base/aligned_buffer.h"
#include "bench/micro/rpc/grpc/echo.grpc.pb.h"

namespace simurgh::bench {

// The payload is the field of a message.
class FieldCodec {
 public:
  using Message = Payload;
  using Service = Echo::AsyncService;

  // Client: the payload differs from the one before at its ends only.
  void Put(std::span<const std::byte> payload, Message& message) {
    std::string& bytes = *message.mutable_bytes();
    const char* data = reinterpret_cast<const char*>(payload.data());
    if (bytes.size() != payload.size()) {
      bytes.assign(data, payload.size());
      return;
    }
    constexpr size_t kStamp = sizeof(uint64_t);
    const size_t last = payload.size() - kStamp;
    std::memcpy(bytes.data(), data, kStamp);
    std::memcpy(bytes.data() + last, data + last, kStamp);
  }

  // Client: the received payload.
  std::span<const std::byte> Land(Message& message, std::span<std::byte> /*place*/) {
    return std::as_bytes(std::span(message.bytes()));
  }

  // Server: sends the received payload.
  bool Answer(Message& request, Message& response) {
    response.mutable_bytes()->swap(*request.mutable_bytes());
    return true;
  }
};

// The payload is the message.
class ByteBufferCodec {
 public:
  using Message = grpc::ByteBuffer;
  using Service = Echo::WithRawMethod_Call<Echo::Service>;

  // The payload is borrowed until the response is there.
  void Put(std::span<const std::byte> payload, Message& message) {
    const grpc::Slice slice(payload.data(), payload.size(), grpc::Slice::STATIC_SLICE);
    message = grpc::ByteBuffer(&slice, 1);
  }

  std::span<const std::byte> Land(Message& message, std::span<std::byte> place) {
    return place.first(Copy(message, place));
  }

  // Into a buffer that gRPC gives back when it has been sent.
  bool Answer(Message& request, Message& response) {
    const size_t size = request.Length();
    auto lease = std::make_unique<Lease>(pool_.Lease(size));
    const std::span<std::byte> place = (*lease)->bytes().first(size);
    if (Copy(request, place) != size) return false;
    const auto give_back = [](void* owner) { delete static_cast<Lease*>(owner); };
    const grpc::Slice slice(place.data(), size, give_back, lease.release());
    response = grpc::ByteBuffer(&slice, 1);
    return true;
  }

 private:
  using Lease = std::shared_ptr<AlignedBuffer>;

  static constexpr size_t kPoolBytes = size_t{1} << 30;

  // Returns the bytes that fit, and lets go of the message.
  static size_t Copy(Message& from, std::span<std::byte> to) {
    size_t copied = 0;
    {
      grpc::ProtoBufferReader reader(&from);
      const void* data = nullptr;
      int size = 0;
      while (reader.Next(&data, &size)) {
        const size_t count = std::min(static_cast<size_t>(size), to.size() - copied);
        std::memcpy(to.data() + copied, data, count);
        copied += count;
      }
    }
    from.Clear();
    return copied;
  }

  BufferPool pool_{kPoolBytes};
};

}  // namespace simurgh::bench
