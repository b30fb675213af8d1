#pragma once

// Messages with a compile-time description: a FlatBuffers table and named tensors.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <flatbuffers/flatbuffers.h>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "rpc/async.h"
#include "rpc/client.h"
#include "rpc/message.h"
#include "rpc/server.h"

namespace simurgh::rpc {

// A name as a template argument: Segment<"ids", uint64_t>.
template <size_t kSize>
struct SegmentName {
  consteval SegmentName(const char (&text)[kSize]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(text, kSize, characters);
  }
  constexpr std::string_view view() const { return {characters, kSize - 1}; }

  char characters[kSize];
};

// A tensor of a message: an array of T.
template <SegmentName kText, typename T>
struct Segment {
  static_assert(std::is_trivially_copyable_v<T>, "segments are bytes on the wire");
  using Element = T;
  static constexpr std::string_view kName = kText.view();
};

// The table type of a message without a table.
struct NoTable {};

// The destination of a tensor; see IncomingSegment.
template <typename T>
struct SegmentDestination {
  std::span<T> values;
  std::shared_ptr<void> owner = {};
  bool allocate = false;

  static const SegmentDestination kAllocate;
};
template <typename T>
inline const SegmentDestination<T> SegmentDestination<T>::kAllocate{.allocate = true};

// A destination of `count` values in memory of the pool.
template <typename T>
SegmentDestination<T> LeasedDestination(BufferPool& pool, uint64_t count) {
  auto buffer = pool.Lease(count * sizeof(T));
  const std::span<T> values = buffer->template as<T>(count);
  return {values, std::move(buffer)};
}

// A request or response: a table and segments in this order.
template <typename TableType, typename... SegmentTypes>
struct MessageOf {
  using Table = TableType;
  static constexpr size_t kSegments = sizeof...(SegmentTypes);
  static constexpr bool kHasTable = !std::is_same_v<Table, NoTable>;

  // The number of elements of each segment.
  using Counts = std::array<uint64_t, kSegments>;
  using Destinations = std::tuple<SegmentDestination<typename SegmentTypes::Element>...>;

  // The index of the segment with this name. Does not compile for an unknown name.
  template <SegmentName kName>
  static consteval size_t IndexOf() {
    constexpr std::array<bool, kSegments> kMatches{(SegmentTypes::kName == kName.view())...};
    constexpr size_t kFound = std::ranges::find(kMatches, true) - kMatches.begin();
    static_assert(kFound < kSegments, "the message has no segment of this name");
    return kFound;
  }
  template <SegmentName kName>
  using Element =
      std::tuple_element_t<IndexOf<kName>(), std::tuple<typename SegmentTypes::Element...>>;

  static constexpr std::array<size_t, kSegments> kElementBytes{
      sizeof(typename SegmentTypes::Element)...};
  static constexpr std::array<size_t, kSegments> kAlignments{
      alignof(typename SegmentTypes::Element)...};
  static constexpr std::array<std::string_view, kSegments> kNames{SegmentTypes::kName...};
};

// A tensor to send; see OutgoingSegment.
template <typename T>
struct SegmentSource {
  std::span<const T> values;
  std::shared_ptr<const void> owner = {};
};

namespace internal {

// Checks the number of segments, and that each is a whole number of elements.
// Errors: INVALID_ARGUMENT, naming `what` and the segment.
Status CheckSegments(std::string_view what, std::span<const std::string_view> names,
                     std::span<const size_t> element_bytes, std::span<const uint64_t> lengths);
// Errors: INVALID_ARGUMENT.
Status CheckAlignment(std::string_view what, std::span<const std::string_view> names,
                      std::span<const size_t> alignments,
                      std::span<const ReceivedSegment> segments);

}  // namespace internal

// A destination for each segment of a message.
template <typename Message>
using Destinations = typename Message::Destinations;

// The verified table of a message. what: the name of the method, for errors.
// Errors: INVALID_ARGUMENT.
template <typename Table>
StatusOr<const Table*> VerifiedTable(std::string_view what, std::span<const std::byte> metadata) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(metadata.data());
  flatbuffers::Verifier verifier(bytes, metadata.size());
  if (verifier.VerifyBuffer<Table>(nullptr)) return flatbuffers::GetRoot<Table>(bytes);
  return absl::InvalidArgumentError(std::string(what) + ": the metadata is malformed");
}

// Checks that a received message has this type.
// Errors: INVALID_ARGUMENT, naming `what`.
template <typename Message>
Status Verify(std::string_view what, std::span<const std::byte> metadata,
              std::span<const uint64_t> lengths) {
  if constexpr (Message::kHasTable) {
    SIMURGH_RETURN_IF_ERROR(VerifiedTable<typename Message::Table>(what, metadata).status());
  }
  return internal::CheckSegments(what, Message::kNames, Message::kElementBytes, lengths);
}

// A message to send.
template <typename Message>
class Outgoing;

template <typename Table, typename... Segments>
class Outgoing<MessageOf<Table, Segments...>> {
 public:
  // Finishes the builder with this root.
  Outgoing(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Table> root,
           SegmentSource<typename Segments::Element>... segments) {
    builder.Finish(root);
    message_.metadata = TakeMetadata(builder);
    Append(std::move(segments)...);
  }

  // Makes a message without a table.
  explicit Outgoing(SegmentSource<typename Segments::Element>... segments)
    requires std::is_same_v<Table, NoTable>
  {
    Append(std::move(segments)...);
  }

  const OutgoingMessage& message() const { return message_; }
  OutgoingMessage TakeMessage() && { return std::move(message_); }

 private:
  void Append(SegmentSource<typename Segments::Element>... segments) {
    message_.segments.reserve(sizeof...(Segments));
    (message_.segments.push_back({std::as_bytes(segments.values), std::move(segments.owner)}), ...);
  }

  OutgoingMessage message_;
};

// A received and verified message.
template <typename Message>
class Received {
 public:
  Received() = default;
  explicit Received(IncomingMessage message) : message_(std::move(message)) {}

  const typename Message::Table& table() const
    requires(Message::kHasTable)
  {
    return *flatbuffers::GetRoot<typename Message::Table>(message_.metadata.data());
  }

  // Lifetime: of this message or the segment's owner.
  template <SegmentName kName>
  auto segment() const {
    using Element = typename Message::template Element<kName>;
    const std::span<const std::byte> bytes = Raw<kName>().bytes;
    return std::span<const Element>(reinterpret_cast<const Element*>(bytes.data()),
                                    bytes.size() / sizeof(Element));
  }
  template <SegmentName kName>
  const std::shared_ptr<const void>& owner() const {
    return Raw<kName>().owner;
  }

 private:
  template <SegmentName kName>
  const ReceivedSegment& Raw() const {
    return message_.segments[Message::template IndexOf<kName>()];
  }

  IncomingMessage message_;
};

// Wraps a message whose placement has called Verify().
// Errors: INVALID_ARGUMENT when a segment received into kAllocate is misaligned for its elements.
template <typename Message>
StatusOr<Received<Message>> Receive(std::string_view what, IncomingMessage message) {
  SIMURGH_RETURN_IF_ERROR(
      internal::CheckAlignment(what, Message::kNames, Message::kAlignments, message.segments));
  return Received<Message>(std::move(message));
}

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

// Request and Response are MessageOf types. Both ends use the same description.
template <typename RequestType, typename ResponseType>
struct MethodOf {
  using Request = RequestType;
  using Response = ResponseType;

  // The number on the wire, from 1; never reused.
  uint32_t number = 0;
  // The name in metrics, logs and errors; a literal.
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
  Request rest_;  // The request without its message.
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

// Returns INTERNAL, because the caller cannot fix the response of its peer.
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
