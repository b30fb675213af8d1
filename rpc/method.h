#pragma once

// Typed methods, without macros: described once, registered with a server, called through a client.
//
//   inline constexpr rpc::MethodOf<rpc::MessageOf<ScaleRequest, rpc::Segment<"values", float>>,
//                                  rpc::MessageOf<rpc::NoTable, rpc::Segment<"scaled", float>>>
//       kScale{.number = 1, .name = "scale"};
//
// What arrives is verified before any code of the method sees it: the table by FlatBuffers' own
// verifier, the number of segments, and that each is a whole number of elements. A request that is
// malformed is answered with INVALID_ARGUMENT and its handler is not started; a response that is
// fails the call with INTERNAL.

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rpc/async.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/typed_message.h"

namespace simurgh::rpc {

// Request and Response are MessageOf. Both ends compile the same description.
template <typename RequestType, typename ResponseType>
struct MethodOf {
  using Request = RequestType;
  using Response = ResponseType;

  // From 1; it never changes its meaning.
  uint32_t number = 0;
  // For metrics, logs and errors; a literal.
  std::string_view name;

  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator MethodId() const { return {.number = number, .name = name}; }
};

// A request in the hands of a typed handler.
template <typename Message>
class RequestOf : public Received<Message> {
 public:
  RequestOf() = default;
  RequestOf(Received<Message> message, Request request)
      : Received<Message>(std::move(message)), rest_(std::move(request)) {}

  Clock::time_point deadline() const { return rest_.deadline; }
  const Trace& trace() const { return rest_.trace; }
  const Hello& peer() const { return *rest_.peer; }
  // See Request; AllocateTensor() gives it a type.
  SegmentBuffer Allocate(size_t bytes) const { return rest_.Allocate(bytes); }

 private:
  Request rest_;  // Without its message.
};

namespace internal {

template <typename Message>
typename Message::Counts CountsOf(std::span<const uint64_t> lengths) {
  typename Message::Counts counts{};
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = lengths[i] / Message::kElementBytes[i];
  return counts;
}

template <typename Message>
std::vector<IncomingSegment> Untyped(Destinations<Message> places) {
  return std::apply(
      [](auto&... place) {
        std::vector<IncomingSegment> untyped;
        untyped.reserve(sizeof...(place));
        (untyped.push_back({.bytes = std::as_writable_bytes(place.values),
                            .owner = std::move(place.owner),
                            .allocate = place.allocate}),
         ...);
        return untyped;
      },
      places);
}

template <typename Message, typename Place>
StatusOr<std::vector<IncomingSegment>> AskForPlaces(const Place& place,
                                                    std::span<const std::byte> metadata,
                                                    std::span<const uint64_t> lengths) {
  const auto ask = [&](const typename Message::Counts& counts) -> StatusOr<Destinations<Message>> {
    if constexpr (Message::kHasTable) {
      return place(*flatbuffers::GetRoot<typename Message::Table>(metadata.data()), counts);
    } else {
      return place(counts);
    }
  };
  SIMURGH_ASSIGN_OR_RETURN(Destinations<Message> places, ask(CountsOf<Message>(lengths)));
  return Untyped<Message>(std::move(places));
}

// As INTERNAL: the caller can do nothing about what its peer answers.
Status MalformedResponse(const Status& error);
Status UnexpectedCount(std::string_view method, std::string_view segment, uint64_t count,
                       uint64_t expected);

// Destinations for a caller who knows what will come.
template <typename Message>
class ExactPlaces {
 public:
  ExactPlaces(std::string_view method, Destinations<Message> places)
      : method_(method), places_(std::move(places)) {}

  StatusOr<std::vector<IncomingSegment>> operator()(std::span<const std::byte> metadata,
                                                    std::span<const uint64_t> lengths) const {
    const Status verified = Verify<Message>(method_, metadata, lengths);
    if (!verified.ok()) return MalformedResponse(verified);
    std::vector<IncomingSegment> places = Untyped<Message>(places_);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].allocate || places[i].bytes.size() == lengths[i]) continue;
      const size_t element = Message::kElementBytes[i];
      return UnexpectedCount(method_, Message::kNames[i], lengths[i] / element,
                             places[i].bytes.size() / element);
    }
    return places;
  }

 private:
  std::string_view method_;
  Destinations<Message> places_;
};

// Takes the call and not its arguments, which would only be moved once more.
template <typename Response>
[[nodiscard]] awaitable<StatusOr<Received<Response>>> Typed(
    std::string_view method, awaitable<StatusOr<IncomingMessage>> call) {
  StatusOr<IncomingMessage> response = co_await std::move(call);
  if (!response.ok()) co_return std::move(response).status();
  StatusOr<Received<Response>> received = Receive<Response>(method, *std::move(response));
  if (!received.ok()) co_return MalformedResponse(received.status());
  co_return std::move(received);
}

}  // namespace internal

// Registers a method.
//
// place: (const Request::Table&, const Request::Counts&) -> StatusOr<Destinations<Request>>, called
// when the table has been verified and before the payload is read; only the counts where there is
// no table. Its error refuses the request. handle: (RequestOf<Request>) ->
// awaitable<StatusOr<Outgoing<Response>>>; see Server.
template <typename Request, typename Response, typename Place, typename Handle>
void Register(Server& server, const MethodOf<Request, Response>& method, Place place,
              Handle handle) {
  server.Register(
      {.id = method,
       .placement = [name = method.name, place = std::move(place)](
                        std::span<const std::byte> metadata, std::span<const uint64_t> lengths)
           -> StatusOr<std::vector<IncomingSegment>> {
         SIMURGH_RETURN_IF_ERROR(Verify<Request>(name, metadata, lengths));
         return internal::AskForPlaces<Request>(place, metadata, lengths);
       },
       .handle = [name = method.name, handle = std::move(handle)](
                     rpc::Request raw) -> awaitable<StatusOr<OutgoingMessage>> {
         StatusOr<Received<Request>> message = Receive<Request>(name, std::move(raw.message));
         if (!message.ok()) co_return std::move(message).status();
         StatusOr<Outgoing<Response>> response =
             co_await handle(RequestOf<Request>(*std::move(message), std::move(raw)));
         if (!response.ok()) co_return std::move(response).status();
         co_return (*std::move(response)).TakeMessage();
       }});
}

// A method whose requests have no segments.
template <typename Request, typename Response, typename Handle>
  requires(Request::kSegments == 0)
void Register(Server& server, const MethodOf<Request, Response>& method, Handle handle) {
  const auto nowhere = [](const auto&...) -> StatusOr<Destinations<Request>> {
    return Destinations<Request>();
  };
  Register(server, method, nowhere, std::move(handle));
}

// Calls a method. place: as for Register, for the response.
// Errors: of Client::Call; of `place`; INTERNAL when the response is malformed.
template <typename Request, typename Response, typename Place>
  requires(!std::is_same_v<Place, Destinations<Response>>)
[[nodiscard]] awaitable<StatusOr<Received<Response>>> Call(
    Client& client, const MethodOf<Request, Response>& method, Outgoing<Request> request,
    Place place, CallOptions options) {
  Placement placement =
      [name = method.name, place = std::move(place)](
          std::span<const std::byte> metadata,
          std::span<const uint64_t> lengths) -> StatusOr<std::vector<IncomingSegment>> {
    const Status verified = Verify<Response>(name, metadata, lengths);
    if (!verified.ok()) return internal::MalformedResponse(verified);
    return internal::AskForPlaces<Response>(place, metadata, lengths);
  };
  return internal::Typed<Response>(
      method.name,
      client.Call(method, std::move(request).TakeMessage(), std::move(placement), options));
}

// Calls a method whose response must fill these places exactly.
// Errors: of Client::Call; INTERNAL when the response is malformed or of other lengths.
template <typename Request, typename Response>
[[nodiscard]] awaitable<StatusOr<Received<Response>>> Call(
    Client& client, const MethodOf<Request, Response>& method, Outgoing<Request> request,
    Destinations<Response> places, CallOptions options) {
  return internal::Typed<Response>(
      method.name,
      client.Call(method, std::move(request).TakeMessage(),
                  internal::ExactPlaces<Response>(method.name, std::move(places)), options));
}

// Calls a method whose response has no segments.
template <typename Request, typename Response>
  requires(Response::kSegments == 0)
[[nodiscard]] awaitable<StatusOr<Received<Response>>> Call(
    Client& client, const MethodOf<Request, Response>& method, Outgoing<Request> request,
    CallOptions options) {
  return Call(client, method, std::move(request), Destinations<Response>(), options);
}

}  // namespace simurgh::rpc
