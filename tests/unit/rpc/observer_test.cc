// Reports of calls at both ends.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

struct Reported {
  std::string method;
  absl::StatusCode code;
  uint64_t trace_id, span_id;
  uint64_t request_bytes, response_bytes;
  bool operator==(const Reported&) const = default;
};

struct CallRecorder : Observer {
  void OnCallStart(const MethodId& method) override { started.emplace_back(method.name); }
  void OnCallEnd(const CallReport& report) override {
    CHECK(report.end <= Clock::now());
    CHECK(Clock::now() - report.end < std::chrono::minutes(1));
    CHECK(report.waited.count() >= 0);
    CHECK(report.waited <= report.duration);
    ended.push_back({std::string(report.method.name), report.status.code(), report.trace.trace_id,
                     report.trace.span_id, report.request_bytes, report.response_bytes});
  }
  std::vector<std::string> started;
  std::vector<Reported> ended;
};

// Both ends, each with a recorder.
struct RecordedEnds {
  explicit RecordedEnds(Handler work)
      : server(loop.executor(), TestHello("server"), {}, &at_server) {
    server.Register(EchoMethod());
    server.Register({.id = kWork, .placement = NoSegments(), .handle = std::move(work)});
    REQUIRE(server.Listen("127.0.0.1:0") == absl::OkStatus());
    client = std::make_unique<Client>(loop.executor(), server.address(), TestHello("client"),
                                      ClientOptions(), &at_client);
  }
  Status Call(const MethodId& method, OutgoingMessage request, const CallOptions& options) {
    return loop.Run(client->Call(method, std::move(request), IntoVectors(), options)).status();
  }

  testing::Loop loop;
  CallRecorder at_server, at_client;
  Server server;
  std::unique_ptr<Client> client;
};

TEST_CASE("both ends report a call by name, trace, code and bytes") {
  Trace seen;
  RecordedEnds ends([&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
    seen = request.trace;
    co_return absl::NotFoundError("no such row");
  });
  const Trace trace{.trace_id = 0xfeedULL << 40, .span_id = 77};
  CHECK(ends.Call(kEcho, Message(Text("12345"), {Bytes(100), Bytes(5'000)}), {Soon(), trace}) ==
        absl::OkStatus());
  const Reported echo{"echo", absl::StatusCode::kOk, trace.trace_id, 77, 5'105, 5'105};
  CHECK(ends.at_client.ended == std::vector{echo});
  CHECK(ends.at_server.ended == std::vector{echo});

  CHECK(absl::IsNotFound(ends.Call(kWork, Message(Text("123")), {Soon(), trace})));
  CHECK(seen.trace_id == trace.trace_id);
  CHECK(seen.span_id == trace.span_id);
  const Reported work{"work", absl::StatusCode::kNotFound, trace.trace_id, 77, 3, 0};
  CHECK(ends.at_client.ended.back() == work);
  CHECK(ends.at_server.ended.back() == work);
  CHECK(ends.at_client.started == std::vector<std::string>{"echo", "work"});
  CHECK(ends.at_server.started == ends.at_client.started);
}

TEST_CASE("a server reports refused requests, and unknown methods under one name") {
  RecordedEnds ends(EchoMethod().handle);
  CHECK(absl::IsInvalidArgument(ends.Call(kWork, Message(Text("1"), {Bytes(9)}), Soon())));
  CHECK(absl::IsUnimplemented(ends.Call({.number = 99, .name = "lost"}, Message({}), Soon())));
  CHECK(ends.at_server.ended ==
        std::vector<Reported>{{"work", absl::StatusCode::kInvalidArgument, 0, 0, 10, 0},
                              {"unknown", absl::StatusCode::kUnimplemented, 0, 0, 0, 0}});
  CHECK(ends.at_client.ended.back().method == "lost");
  CHECK(ends.at_server.started == std::vector<std::string>{"work", "unknown"});
}

TEST_CASE("every call that starts ends") {
  std::unique_ptr<Hang> hang;
  RecordedEnds ends([&](Request request) { return (*hang)(std::move(request)); });
  hang = std::make_unique<Hang>(ends.loop.executor());
  CHECK(absl::IsDeadlineExceeded(ends.Call(kWork, {}, Clock::now())));
  size_t late = 0;
  for (; ends.at_server.started.empty(); ++late) {  // A slow machine connects later.
    CHECK(absl::IsDeadlineExceeded(ends.Call(kWork, {}, In(std::chrono::milliseconds(200)))));
  }
  const auto handler_ended = [&]() -> awaitable<void> {
    while (ends.at_server.ended.empty()) co_await asio::post(asio::use_awaitable);
  };
  ends.loop.Run(handler_ended());
  // The deadline or the client's CANCEL ends it.
  const absl::StatusCode code = ends.at_server.ended.back().code;
  CHECK((code == absl::StatusCode::kDeadlineExceeded || code == absl::StatusCode::kCancelled));

  const auto lose = [&]() -> awaitable<Status> {
    co_await hang->started.Wait(Soon());
    co_await ends.server.Drain(Clock::now());
    co_return absl::OkStatus();
  };
  const auto call = [&]() -> awaitable<Status> {
    const auto lost = co_await ends.client->Call(kWork, {}, NoSegments(), Soon());
    co_return lost.status();
  };
  CHECK(absl::IsUnavailable(ends.loop.Run(Both(call(), lose()))));
  CHECK(ends.at_client.started.size() == 2 + late);
  CHECK(ends.at_client.ended.size() == 2 + late);
  CHECK(ends.at_client.ended.back().code == absl::StatusCode::kUnavailable);
  CHECK(ends.at_server.started.size() >= 2);
  CHECK(ends.at_server.started.size() <= 1 + late);
  CHECK(ends.at_server.ended.size() == ends.at_server.started.size());
}

}  // namespace
}  // namespace simurgh::rpc
