#pragma once

// Typed methods: described once, registered with a server, called through a client.
//
//   inline constexpr rpc::MethodOf<rpc::MessageOf<ScaleRequest, rpc::Segment<"values", float>>,
//                                  rpc::MessageOf<rpc::NoTable, rpc::Segment<"scaled", float>>>
//       kScale{.number = 1, .name = "scale"};
//
// The library verifies the table, the number of segments, and that each is a whole number of
// elements, before the method's code sees a message. A malformed request is answered with
// INVALID_ARGUMENT and its handler does not start; a malformed response fails the call with
// INTERNAL.

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

// Request and Response are MessageOf types. Both ends use the same description.
template <typename RequestType, typename ResponseType>
struct MethodOf {
  using Request = RequestType;
  using Response = ResponseType;

  // From 1; never reused.
  uint32_t number = 0;
  // For metrics, logs and errors; a literal.
  std::string_view name;
  // See Method.
  uint64_t max_head_bytes = 65'536;

  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator MethodId() const { return {.number = number, .name = name}; }
};

// A request, as passed to a typed handler.
template <typename Message>
class RequestOf : public Received<Message> {
 public:
  RequestOf() = default;
  RequestOf(Received<Message> message, Request request)
      : Received<Message>(std::move(message)), rest_(std::move(request)) {}

  Clock::time_point deadline() const { return rest_.deadline; }
  const Trace& trace() const { return rest_.trace; }
  const Hello& peer() const { return *rest_.peer; }
  // See Request::Allocate().
  SegmentBuffer Allocate(size_t bytes) const { return rest_.Allocate(bytes); }

 private:
  Request rest_;  // Without its message.
};

// The destinations of a request, and what its placement has read from the table: the handler's
// second argument, so that it does not read the table again.
template <typename Message, typename Reading>
struct PlacedWith {
  using Context = Reading;

  Destinations<Message> destinations;
  Context context;
};

namespace internal {

template <typename Message>
Placed Untyped(Destinations<Message> destinations) {
  return std::apply(
      [](auto&... destination) {
        std::vector<IncomingSegment> untyped;
        untyped.reserve(sizeof...(destination));
        (untyped.push_back({.bytes = std::as_writable_bytes(destination.values),
                            .owner = std::move(destination.owner),
                            .allocate = destination.allocate}),
         ...);
        return untyped;
      },
      destinations);
}

template <typename Message, typename Context>
Placed Untyped(PlacedWith<Message, Context> placed) {
  Placed untyped = Untyped<Message>(std::move(placed.destinations));
  untyped.context = std::make_shared<Context>(std::move(placed.context));
  return untyped;
}

// Calls place(table, counts), without the table if there is none.
template <typename Message, typename Place>
auto CallPlace(const Place& place, std::span<const std::byte> metadata,
               std::span<const uint64_t> lengths) {
  typename Message::Counts counts{};
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = lengths[i] / Message::kElementBytes[i];
  if constexpr (Message::kHasTable) {
    return place(*flatbuffers::GetRoot<typename Message::Table>(metadata.data()), counts);
  } else {
    return place(counts);
  }
}

template <typename Message, typename Place>
StatusOr<Placed> PlaceUntyped(const Place& place, std::span<const std::byte> metadata,
                              std::span<const uint64_t> lengths) {
  auto placed = CallPlace<Message>(place, metadata, lengths);
  if (!placed.ok()) return std::move(placed).status();
  return Untyped<Message>(*std::move(placed));
}

template <typename Message, typename Place>
using PlacedBy =
    typename decltype(CallPlace<Message>(std::declval<const Place&>(), {}, {}))::value_type;

// INTERNAL, because the caller cannot fix the response of its peer.
Status MalformedResponse(const Status& error);
Status UnexpectedCount(std::string_view method, std::string_view segment, uint64_t count,
                       uint64_t expected);

// Takes the call instead of its arguments, to save a move.
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
// place: (const Request::Table&, const Request::Counts&) -> StatusOr<Destinations<Request>>, or
// StatusOr<PlacedWith<Request, Context>>; without the table if there is none. Called with a
// verified table before the payload is read; its error refuses the request. handle:
// (RequestOf<Request>), or (RequestOf<Request>, Context&) ->
// awaitable<StatusOr<Outgoing<Response>>>; see Server.
template <typename Request, typename Response, typename Place, typename Handle>
void Register(Server& server, const MethodOf<Request, Response>& method, Place place,
              Handle handle) {
  server.Register({.id = method,
                   .max_head_bytes = method.max_head_bytes,
                   .placement = [name = method.name, place = std::move(place)](
                                    std::span<const std::byte> metadata,
                                    std::span<const uint64_t> lengths) -> StatusOr<Placed> {
                     SIMURGH_RETURN_IF_ERROR(Verify<Request>(name, metadata, lengths));
                     return internal::PlaceUntyped<Request>(place, metadata, lengths);
                   },
                   .handle = [name = method.name, handle = std::move(handle)](
                                 rpc::Request raw) -> awaitable<StatusOr<OutgoingMessage>> {
                     StatusOr<Received<Request>> message =
                         Receive<Request>(name, std::move(raw.message));
                     if (!message.ok()) co_return std::move(message).status();
                     const std::shared_ptr<void> context = std::move(raw.context);
                     const auto call = [&] {
                       RequestOf<Request> request(*std::move(message), std::move(raw));
                       using PlacedAs = internal::PlacedBy<Request, Place>;
                       if constexpr (requires { typename PlacedAs::Context; }) {
                         return handle(std::move(request),
                                       *static_cast<typename PlacedAs::Context*>(context.get()));
                       } else {
                         return handle(std::move(request));
                       }
                     };
                     StatusOr<Outgoing<Response>> response = co_await call();
                     if (!response.ok()) co_return std::move(response).status();
                     co_return (*std::move(response)).TakeMessage();
                   }});
}

// Registers a method whose requests have no segments.
template <typename Request, typename Response, typename Handle>
  requires(Request::kSegments == 0)
void Register(Server& server, const MethodOf<Request, Response>& method, Handle handle) {
  const auto nowhere = [](const auto&...) -> StatusOr<Destinations<Request>> {
    return Destinations<Request>();
  };
  Register(server, method, nowhere, std::move(handle));
}

// Calls a method. place: as for Register(), for the response.
// Errors: of Client::Call; of `place`; INTERNAL when the response is malformed.
template <typename Request, typename Response, typename Place>
  requires(!std::is_same_v<Place, Destinations<Response>>)
[[nodiscard]] awaitable<StatusOr<Received<Response>>> Call(
    Client& client, const MethodOf<Request, Response>& method, Outgoing<Request> request,
    Place place, CallOptions options) {
  Placement placement = [name = method.name, place = std::move(place)](
                            std::span<const std::byte> metadata,
                            std::span<const uint64_t> lengths) -> StatusOr<Placed> {
    const Status verified = Verify<Response>(name, metadata, lengths);
    if (!verified.ok()) return internal::MalformedResponse(verified);
    return internal::PlaceUntyped<Response>(place, metadata, lengths);
  };
  return internal::Typed<Response>(
      method.name,
      client.Call(method, std::move(request).TakeMessage(), std::move(placement), options));
}

// Calls a method whose response has exactly the lengths of the destinations.
// Errors: of Client::Call; INTERNAL when the response is malformed or of other lengths.
template <typename Request, typename Response>
[[nodiscard]] awaitable<StatusOr<Received<Response>>> Call(
    Client& client, const MethodOf<Request, Response>& method, Outgoing<Request> request,
    Destinations<Response> destinations, CallOptions options) {
  Placement placement = [name = method.name, destinations = std::move(destinations)](
                            std::span<const std::byte> metadata,
                            std::span<const uint64_t> lengths) -> StatusOr<Placed> {
    const Status verified = Verify<Response>(name, metadata, lengths);
    if (!verified.ok()) return internal::MalformedResponse(verified);
    std::vector<IncomingSegment> untyped = internal::Untyped<Response>(destinations).destinations;
    for (size_t i = 0; i < untyped.size(); ++i) {
      if (untyped[i].allocate || untyped[i].bytes.size() == lengths[i]) continue;
      const size_t element = Response::kElementBytes[i];
      return internal::UnexpectedCount(name, Response::kNames[i], lengths[i] / element,
                                       untyped[i].bytes.size() / element);
    }
    return untyped;
  };
  return internal::Typed<Response>(
      method.name,
      client.Call(method, std::move(request).TakeMessage(), std::move(placement), options));
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
