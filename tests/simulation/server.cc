#include "tests/simulation/server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include <boost/asio/post.hpp>

#include "rpc/async.h"

namespace simurgh::simulation {
namespace {

const auto kNoDeadline = rpc::Clock::time_point::max();

std::future<void> Done() {
  std::promise<void> done;
  done.set_value();
  return done.get_future();
}

}  // namespace

// A partition's thread.
class Server::Thread : public PartitionThread {
 public:
  Thread(Server& server, Context& context) : server_(server), context_(context) {}

  boost::asio::any_io_executor executor() override { return context_.io.get_executor(); }

  // Waits at once: the simulation has one thread.
  std::future<void> Run(std::function<void()> function) override {
    bool is_done = false;
    boost::asio::post(context_.io, [&] {
      function();
      is_done = true;
    });
    server_.Kick();
    Process& process = server_.process_;
    while (!is_done) {
      const bool waits = Fiber::Current() != nullptr && process.alive;
      if (waits && server_.world_.Pause(process, 1 + server_.world_.random.Below(30))) continue;
      if (!is_done) context_.io.poll_one();
    }
    return Done();
  }

 private:
  Server& server_;
  Context& context_;
};

Server::Server(World& world, Disk& disk, const ClusterConfig& config, uint32_t index)
    : world_(world),
      process_(world.AddProcess(absl::StrCat("server ", index))),
      files_(world, process_, disk),
      index_(index),
      config_(config) {
  contexts_.push_back(std::make_unique<Context>());
  const auto start_partition = [this](const std::string& /*name*/) {
    contexts_.push_back(std::make_unique<Context>());
    return std::make_unique<Thread>(*this, *contexts_.back());
  };
  const auto start_task = [this](std::function<void()> task) -> std::function<void()> {
    const std::shared_ptr<Fiber> fiber = world_.Start(process_, std::move(task));
    return [fiber] {
      while (!fiber->done()) fiber->Resume();
    };
  };
  const auto make_cold_disk = [this, &disk](const std::string& /*directory*/) {
    auto made = std::make_unique<MemoryDisk>(world_, disk, [this] { Kick(); });
    cold_disks_.push_back(made->handle());
    return made;
  };
  rows_ = ParameterServer::Create(config_, metrics_, index_,
                                  {.files = files_,
                                   .start_partition = start_partition,
                                   .make_cold_disk = make_cold_disk,
                                   .start_save = start_task,
                                   .start_load = start_task})
              .value();
}

Server::~Server() {
  process_.alive = false;
  *exists_ = false;
  World::Drain(process_);
  // Ends the requests in progress. No reply leaves.
  rows_->CloseBarriers();
  size_t handlers = 1;
  while (handlers > 0) {
    handlers = 0;
    for (const auto& disk : cold_disks_) {
      if (const auto open = disk.lock()) (*open)->Finish();
    }
    for (const auto& context : contexts_) handlers += context->io.poll();
  }
  rows_.reset();
}

void Server::Kick() {
  for (const auto& context : contexts_) {
    if (std::exchange(context->is_scheduled, true)) continue;
    world_.After(1 + world_.random.Below(40), [this, exists = exists_, context = context.get()] {
      if (*exists) RunOne(*context);
    });
  }
}

void Server::RunOne(Context& context) {
  context.is_scheduled = false;
  if (process_.paused_until > world_.now()) {
    context.is_scheduled = true;
    world_.After(process_.paused_until - world_.now(), [this, exists = exists_, &context] {
      if (*exists) RunOne(context);
    });
    return;
  }
  if (context.io.poll_one() > 0) Kick();
}

template <typename Answer>
void Server::Spawn(rpc::awaitable<StatusOr<Answer>> call, Reply<Answer> reply) {
  rpc::asio::co_spawn(
      contexts_[0]->io, std::move(call),
      [this, reply = std::move(reply)](const std::exception_ptr& thrown, StatusOr<Answer> answer) {
        if (thrown) world_.Fail("a request has thrown an exception");
        if (process_.alive) reply(std::move(answer));
      });
  Kick();
}

Status Server::Admit(const RowMessage& message, RunGuard::Request request) {
  if (message.map_version != map_.version()) {
    return absl::FailedPreconditionError("the request uses another bucket map");
  }
  return runs_.Admit(message.step_id.run, request, world_.time());
}

void Server::Pull(const RowMessage& request, const Reply<std::vector<float>>& reply) {
  const Status admitted = Admit(request, RunGuard::Request::kPull);
  if (!admitted.ok()) return reply(admitted);
  const auto message = std::make_shared<RowMessage>(request);
  const PullRowsCall call{.step_id = message->step_id,
                          .needed = message->needed,
                          .groups = message->groups,
                          .ids = message->ids,
                          .rows = std::as_writable_bytes(std::span(message->values)),
                          .owner = message,
                          .client = message->step_id.run * 8 + message->step_id.rank};
  Spawn<PullReport>(rows_->Pull(call, kNoDeadline),
                    [message, reply](const StatusOr<PullReport>& report) {
                      reply(report.ok() ? StatusOr<std::vector<float>>(message->values)
                                        : StatusOr<std::vector<float>>(report.status()));
                    });
}

void Server::Push(std::shared_ptr<const RowMessage> message, Reply<PushReport> reply) {
  const Status admitted = Admit(*message, RunGuard::Request::kPush);
  if (!admitted.ok()) return reply(admitted);
  const PushRowsCall call{.step_id = message->step_id,
                          .groups = message->groups,
                          .learning_rates = message->rates,
                          .ids = message->ids,
                          .gradients = std::as_bytes(std::span(message->values)),
                          .owner = {},
                          .client = message->step_id.run * 8 + message->step_id.rank};
  Spawn<PushReport>(rows_->Push(call, kNoDeadline),
                    [message, reply](StatusOr<PushReport> report) { reply(std::move(report)); });
}

void Server::ReadAhead(std::shared_ptr<const RowMessage> message) {
  const auto rows = api::ParsedRows::Parse(message->groups, {}, rows_->shape());
  if (!rows.ok()) return;  // Another bucket map.
  rows_->ReadAhead(*rows, message->ids, std::make_shared<decltype(message)>(message));
  Kick();
}

void Server::Save(SaveRowsCall call, const Reply<SaveProgress>& reply) {
  const Status admitted = runs_.Admit(
      call.run, call.probe ? RunGuard::Request::kProbe : RunGuard::Request::kPull, world_.time());
  if (!admitted.ok()) return reply(admitted);
  call.server = index_;
  Spawn<SaveProgress>(rows_->SaveRows(std::move(call), kNoDeadline), reply);
}

void Server::Restore(RestoreRowsCall call, const Reply<SaveProgress>& reply) {
  const Status admitted = runs_.Admit(call.run, RunGuard::Request::kBegin, world_.time());
  if (!admitted.ok()) return reply(admitted);
  call.server = index_;
  const uint64_t run = call.run;
  Spawn<SaveProgress>(rows_->RestoreRows(std::move(call), kNoDeadline),
                      [this, run, reply](StatusOr<SaveProgress> progress) {
                        if (progress.ok() && progress->done) {
                          runs_.Begin(run);
                          begun_ = run;
                        }
                        reply(std::move(progress));
                      });
}

}  // namespace simurgh::simulation
