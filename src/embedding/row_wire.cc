#include "embedding/row_wire.h"

#include <optional>
#include <utility>

namespace simurgh {
namespace {

// Calls visit(group, ids, first byte, first float) for each group.
template <typename Visit>
void ForEachGroup(std::span<const RowGroup> groups, const Visit& visit) {
  size_t byte = 0;
  size_t number = 0;
  for (const RowGroup& group : groups) {
    const RowPayload payload = PayloadOf(group);
    visit(group, payload.ids, byte, number);
    byte += payload.bytes;
    number += payload.ids * group.dim;
  }
}

}  // namespace

void RowRequest::Add(std::vector<RowGroup> groups) {
  const RowPayload payload = PayloadOf(groups);
  servers.push_back({.groups = std::move(groups),
                     .first_id = id_count,
                     .id_count = payload.ids,
                     .first_byte = byte_count,
                     .byte_count = payload.bytes});
  id_count += payload.ids;
  byte_count += payload.bytes;
}

RowWire::RowWire(RowPrecision precision, const std::vector<uint32_t>& table_dims)
    : precision_(precision) {
  for (const uint32_t dim : table_dims) {
    codecs_.emplace_back(VectorPrecisionOf(precision), std::vector<uint32_t>{dim});
  }
}

RowRequest RowWire::RequestFor(const BatchPlan& plan) const {
  RowRequest request;
  for (const ServerShare& share : plan.servers) {
    std::vector<RowGroup> groups = share.groups;
    for (RowGroup& group : groups) group.precision = precision_;
    request.Add(std::move(groups));
  }
  return request;
}

void RowWire::Encode(const ServerRows& server, std::span<const float> rows,
                     std::span<std::byte> bytes) const {
  ForEachGroup(server.groups, [&](const RowGroup& group, size_t ids, size_t byte, size_t number) {
    const VectorCodec& code = codecs_[group.table];
    code.Encode(MatrixView<const float>(rows.data() + number, ids, group.dim), /*factor=*/1,
                /*key=*/std::nullopt, bytes.subspan(byte, ids * code.row_bytes()));
  });
}

void RowWire::Decode(const ServerRows& server, std::span<const std::byte> bytes,
                     std::span<float> rows) const {
  ForEachGroup(server.groups, [&](const RowGroup& group, size_t ids, size_t byte, size_t number) {
    const VectorCodec& code = codecs_[group.table];
    code.Decode(bytes.subspan(byte, ids * code.row_bytes()), /*factor=*/1,
                MatrixView<float>(rows.data() + number, ids, group.dim));
  });
}

}  // namespace simurgh
