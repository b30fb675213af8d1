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

#include <flatbuffers/flatbuffers.h>

#include "rpc/message.h"
#include "simurgh/base/status.h"

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

  // Without a table.
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

}  // namespace simurgh::rpc
