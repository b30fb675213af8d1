#include "services/nn_worker/loader_methods.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/text.h"
#include "config/cluster_config.h"
#include "data/reading/batch_reader.h"
#include "services/api/loader_rpc.h"
#include "services/api/peer_clients.h"
#include "services/api/reply.h"

namespace simurgh {
namespace {

// Compares the inputs. An empty one means that the loader's batches are not from training files.
Status CheckInput(const std::string& own, const flatbuffers::String* loader) {
  if (loader == nullptr || loader->size() == 0) return absl::OkStatus();
  const std::string difference = SettingsDifference(own, "trainer", loader->str(), "loader");
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the configurations of loader and trainer differ: ", difference,
                   "; use the same file, overrides, training files and plug-ins for both"));
}

rpc::Outgoing<api::FeedBatch::Response> Encode(LoaderBuffer::Answer answer) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root =
      api::wire::CreateFeedBatchResponse(builder, answer != LoaderBuffer::Answer::kEnough);
  return {builder, root};
}

}  // namespace

struct LoaderService::Methods {
  static Reply<api::OpenFeed> Open(rpc::RequestOf<api::OpenFeed::Request> request,
                                   LoaderService& service) {
    const auto& table = request.table();
    const size_t ranks = service.config_.nn_worker.instances.size();
    if (table.ranks() != ranks || table.rank() != service.rank_) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("the loader expects nn-worker ", table.rank(), " of ", table.ranks(),
                       ", this is ", service.rank_, " of ", ranks,
                       " (from 0); use the same nn_worker.instances for all processes"));
    }
    const size_t loaders = service.config_.loaders.instances.size();
    if (table.loaders() != loaders) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("the loader has ", table.loaders(), " loaders.instances, the trainer has ",
                       loaders, "; use the same loaders.instances for all processes"));
    }
    if (Status status = CheckInput(service.input_, table.input()); !status.ok()) {
      spdlog::warn("refused loader {}: {}", table.loader(), std::string(status.message()));
      co_return status;
    }
    SIMURGH_CO_ASSIGN_OR_RETURN(const LoaderBuffer::Opened opened,
                                service.buffer_.Open(table.loader()));
    spdlog::info("loader connected: loader={} loaders={} taken_batches={}", table.loader(), loaders,
                 opened.taken);
    flatbuffers::FlatBufferBuilder builder;
    const auto position = builder.CreateString(opened.position.ToText());
    const auto root =
        api::wire::CreateOpenFeedResponse(builder, opened.taken, position, opened.session);
    co_return rpc::Outgoing<api::OpenFeed::Response>(builder, root);
  }

  // A waiting batch holds its encoded bytes only, and a loader has few calls in flight.
  static Reply<api::FeedBatch> Feed(rpc::RequestOf<api::FeedBatch::Request> request,
                                    const std::shared_ptr<api::FedBatch>& fed,
                                    LoaderService& service) {
    const rpc::Clock::time_point deadline = api::AnswerBefore(request.deadline());
    const auto waiters = service.waiters_;
    const auto& table = request.table();
    size_t bytes = 0;
    if (!table.idle()) {
      SIMURGH_CO_ASSIGN_OR_RETURN(bytes, api::FeedBytes(*fed, service.config_));
    }
    while (true) {
      SIMURGH_CO_ASSIGN_OR_RETURN(
          LoaderBuffer::Reservation reserved,
          service.buffer_.Reserve(table.loader(), table.number(), bytes, table.session()));
      if (reserved.answer == LoaderBuffer::Answer::kRoom && table.idle()) {
        SIMURGH_CO_RETURN_IF_ERROR(reserved.place->Fill(
            {.idle = true, .progress = api::DecodeProgress(table)}, table.skipped()));
      } else if (reserved.answer == LoaderBuffer::Answer::kRoom) {
        auto decoded = co_await rpc::RunOn(service.decoding_.get_executor(),
                                           [&] { return api::DecodeFeed(*fed, service.config_); });
        SIMURGH_CO_ASSIGN_OR_RETURN(Batch batch, std::move(decoded));
        batch.progress = api::DecodeProgress(table);
        SIMURGH_CO_RETURN_IF_ERROR(reserved.place->Fill(std::move(batch), table.skipped()));
      } else if (reserved.answer != LoaderBuffer::Answer::kWait) {
        const bool is_batch = reserved.answer == LoaderBuffer::Answer::kTaken && !table.idle();
        if (is_batch) service.batches_.Add();
        co_return Encode(reserved.answer);
      } else {
        service.waits_.Add();
        if (!co_await waiters->Wait(deadline)) {
          co_return absl::ResourceExhaustedError("the trainer is busy; feed the batch again");
        }
      }
    }
  }

  static Reply<api::EndFeed> End(rpc::RequestOf<api::EndFeed::Request> request,
                                 LoaderService& service) {
    const auto& table = request.table();
    if (table.error() != nullptr) {
      SIMURGH_CO_RETURN_IF_ERROR(service.buffer_.Abandon(
          table.loader(), table.error()->string_view(), table.start_again()));
      co_return rpc::Outgoing<api::EndFeed::Response>();
    }
    SIMURGH_CO_RETURN_IF_ERROR(
        service.buffer_.End(table.loader(), table.batches(), table.skipped(), table.short_step()));
    spdlog::info("loader ended: loader={} batches={} bad_rows={}", table.loader(), table.batches(),
                 table.skipped());
    co_return rpc::Outgoing<api::EndFeed::Response>();
  }
};

LoaderService::LoaderService(const ClusterConfig& config, uint32_t rank, LoaderBuffer& buffer,
                             MetricRegistry& registry, rpc::asio::any_io_executor executor)
    : config_(config),
      rank_(rank),
      input_(InputAgreement(config)),
      buffer_(buffer),
      batches_(registry.Get(kFedBatchesTotal)),
      waits_(registry.Get(kFeedWaitsTotal)),
      waiters_(std::make_shared<rpc::WaitList>(executor)) {
  buffer_.SetOnChange([waiters = waiters_, executor] {
    rpc::asio::post(executor, [waiters] { waiters->NotifyAll(); });
  });
}

LoaderService::~LoaderService() {
  buffer_.SetOnChange(nullptr);
  decoding_.join();
}

void LoaderService::Register(rpc::Server& server) {
  rpc::Register(server, api::kOpenFeed,
                [this](auto request) { return Methods::Open(std::move(request), *this); });
  const size_t dense_width = DenseColumns(config_.data).size();
  const size_t tasks = LabelColumns(config_.data).size();
  const bool is_weighted = HasSampleWeights(config_.data);
  rpc::Register(
      server, api::kFeedBatch,
      [dense_width, tasks, is_weighted](const api::wire::FeedBatchRequest& /*request*/,
                                        const api::FeedBatch::Request::Counts& counts) {
        return api::PlaceFeed(counts, dense_width, tasks, is_weighted);
      },
      [this](auto request, auto& fed) { return Methods::Feed(std::move(request), fed, *this); });
  rpc::Register(server, api::kEndFeed,
                [this](auto request) { return Methods::End(std::move(request), *this); });
}

}  // namespace simurgh
