#include "services/api/served_rows.h"

#include "absl/strings/str_cat.h"

#include "data/batch/encoded_batch.h"

namespace simurgh::api {
namespace {

// Most versions that a process uses.
constexpr size_t kMaxVersions = 16;

using VersionVector = flatbuffers::Vector<flatbuffers::Offset<wire::ServedVersion>>;

flatbuffers::Offset<VersionVector> EncodeVersions(flatbuffers::FlatBufferBuilder& builder,
                                                  std::span<const VersionName> versions) {
  std::vector<flatbuffers::Offset<wire::ServedVersion>> encoded;
  for (const VersionName& one : versions) {
    encoded.push_back(wire::CreateServedVersion(builder, one.step, one.checksum, one.training));
  }
  return builder.CreateVector(encoded);
}

std::vector<VersionName> DecodeVersions(const VersionVector* versions) {
  std::vector<VersionName> decoded;
  if (versions == nullptr) return decoded;
  for (const wire::ServedVersion* one : *versions) {
    decoded.push_back({one->step(), one->checksum(), one->training()});
  }
  return decoded;
}

}  // namespace

rpc::Outgoing<UseVersions::Request> EncodeUse(uint64_t user,
                                              std::span<const VersionName> versions) {
  flatbuffers::FlatBufferBuilder builder;
  const auto list = EncodeVersions(builder, versions);
  return {builder, wire::CreateUseVersionsRequest(builder, user, list)};
}

StatusOr<std::vector<VersionName>> DecodeUse(const wire::UseVersionsRequest& request) {
  if (request.versions() != nullptr && request.versions()->size() > kMaxVersions) {
    return absl::InvalidArgumentError(absl::StrCat("use versions: ", request.versions()->size(),
                                                   " versions; use at most ", kMaxVersions));
  }
  return DecodeVersions(request.versions());
}

rpc::Outgoing<UseVersions::Response> Encode(const ServerVersions& versions) {
  flatbuffers::FlatBufferBuilder builder;
  const auto list = EncodeVersions(builder, versions.versions);
  const auto problem = builder.CreateString(versions.problem);
  return {builder, wire::CreateUseVersionsResponse(builder, versions.server, versions.servers, list,
                                                   problem)};
}

ServerVersions Decode(const wire::UseVersionsResponse& response) {
  ServerVersions versions{.server = response.server(),
                          .servers = response.servers(),
                          .versions = DecodeVersions(response.versions())};
  if (response.problem() != nullptr) versions.problem = response.problem()->str();
  return versions;
}

rpc::Outgoing<ReadServedRows::Request> Encode(uint64_t checksum, const RowRead& read) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<wire::ServedGroup> groups;
  for (const RowRead::Group& group : read.groups) groups.emplace_back(group.table, group.ids);
  const auto list = builder.CreateVectorOfStructs(groups);
  return {builder,
          wire::CreateReadServedRowsRequest(builder, checksum, list,
                                            static_cast<uint8_t>(read.precision)),
          {read.ids}};
}

StatusOr<RowRead> DecodeRead(const wire::ReadServedRowsRequest& request, uint64_t ids) {
  RowRead read{.precision = static_cast<VectorPrecision>(request.precision())};
  if (request.precision() > static_cast<uint8_t>(VectorPrecision::kInt8)) {
    return absl::InvalidArgumentError(absl::StrCat("served rows: precision ", request.precision(),
                                                   " is unknown; use row-servers and servers of "
                                                   "predictions of one version"));
  }
  std::vector<RowRead::Group>& groups = read.groups;
  uint64_t described = 0;
  for (const wire::ServedGroup* group : *request.groups()) {
    const uint32_t table = group->table_index();
    if (!groups.empty() && table <= groups.back().table) {
      return absl::InvalidArgumentError(absl::StrCat("served rows: table ", table,
                                                     " follows table ", groups.back().table,
                                                     "; list each table once, in ascending order"));
    }
    if (group->ids() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("served rows: no ids of table ", table, "; leave the table out"));
    }
    groups.push_back({.table = table, .ids = group->ids()});
    described += group->ids();
  }
  if (described != ids || ids > kMaxBatchOccurrences) {
    return absl::InvalidArgumentError(
        absl::StrCat("served rows: the request has ", ids, " ids, its groups describe ", described,
                     "; at most ", kMaxBatchOccurrences, " are allowed"));
  }
  return read;
}

}  // namespace simurgh::api
