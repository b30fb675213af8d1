#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_ps/row_methods.h"
#include "tests/simulation/memory_disk.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/process_files.h"
#include "tests/simulation/world.h"

namespace simurgh::simulation {

// The ids of a request to one server, and its rows or gradients.
struct RowMessage {
  uint64_t map_version = 0;
  StepId step_id;
  NeededPushes needed;  // A push has none.
  std::vector<RowGroup> groups;
  std::vector<uint64_t> ids;
  std::vector<float> rates;   // Of a push, by group.
  std::vector<float> values;  // Rows or gradients.
};

// A process that owns rows: a ParameterServer whose threads are events of the simulation.
class Server {
 public:
  template <typename Answer>
  using Reply = std::function<void(StatusOr<Answer>)>;

  Server(World& world, Disk& disk, const ClusterConfig& config, uint32_t index);
  ~Server();  // The process dies.

  Process& process() { return process_; }
  const ParameterServer& rows() const { return *rows_; }
  bool HasBegun(uint64_t run) const { return begun_ == run; }

  // As the methods of methods.cc. The reply is left out when the process dies. A pull's reply
  // has the rows.
  void Pull(const RowMessage& request, const Reply<std::vector<float>>& reply);
  void Push(std::shared_ptr<const RowMessage> message, Reply<PushReport> reply);
  void ReadAhead(std::shared_ptr<const RowMessage> message);
  void Save(SaveRowsCall call, const Reply<SaveProgress>& reply);
  void Restore(RestoreRowsCall call, const Reply<SaveProgress>& reply);
  void EndRun(const StepId& step_id) { runs_.End(step_id); }

 private:
  Status Admit(const RowMessage& message, RunGuard::Request request);

  // An io_context, whose handlers are events.
  struct Context {
    boost::asio::io_context io;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work =
        boost::asio::make_work_guard(io);
    bool is_scheduled = false;
  };
  class Thread;

  // Schedules the next handlers of all contexts.
  void Kick();
  void RunOne(Context& context);
  template <typename Answer>
  void Spawn(rpc::awaitable<StatusOr<Answer>> call, Reply<Answer> reply);

  World& world_;
  Process& process_;
  ProcessFiles files_;
  const uint32_t index_;
  const ClusterConfig config_;
  const BucketMap map_{static_cast<uint32_t>(config_.embedding_ps.instances.size()),
                       config_.embedding_ps.partitions};
  MetricRegistry registry_;
  ServerMetrics metrics_{registry_, config_};
  uint64_t begun_ = 0;  // The last run that has begun.
  RunGuard runs_{config_.embedding_ps};
  std::vector<std::unique_ptr<Context>> contexts_;  // The first one runs the requests.
  std::vector<std::weak_ptr<MemoryDisk*>> cold_disks_;
  std::unique_ptr<ParameterServer> rows_;
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);
};

}  // namespace simurgh::simulation
