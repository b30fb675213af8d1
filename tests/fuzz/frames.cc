#include "tests/fuzz/frames.h"

#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {

std::vector<rpc::testing::RawFrame> OneOfEachKind() {
  std::vector<rpc::testing::RawFrame> frames{rpc::testing::HelloFrame({.cluster = "fuzz"})};
  for (const rpc::FrameKind kind :
       {rpc::FrameKind::kRequest, rpc::FrameKind::kResponse, rpc::FrameKind::kChunk,
        rpc::FrameKind::kCancel, rpc::FrameKind::kError, rpc::FrameKind::kGoaway,
        rpc::FrameKind::kPadding, rpc::FrameKind::kProof}) {
    rpc::testing::RawFrame& frame = frames.emplace_back();
    frame.header.kind = kind;
    const bool names_none = kind == rpc::FrameKind::kGoaway || kind == rpc::FrameKind::kPadding ||
                            kind == rpc::FrameKind::kProof;
    if (!names_none) frame.header.request_id = 7;
    if (kind == rpc::FrameKind::kProof) frame.metadata = Bytes(32);
    if (kind == rpc::FrameKind::kError) frame.header.code = 3;
    if (kind != rpc::FrameKind::kRequest && kind != rpc::FrameKind::kResponse) continue;
    frame.header.method = kEchoMethod;
    frame.header.deadline_ms = 1'000;
    frame.metadata = Bytes(24, std::byte{1});
    frame.segments = {Bytes(5), Bytes(), Bytes(90)};
  }
  frames.push_back(rpc::testing::GatheredChunk({{7, Bytes(5)}, {8, Bytes(90)}}));
  return frames;
}

}  // namespace simurgh::fuzz
