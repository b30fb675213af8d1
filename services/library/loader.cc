// The part of the C interface with which a program feeds a training.

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "config/cluster_config.h"
#include "data/batch/batch_builder.h"
#include "data/reading/arrow_source.h"
#include "data/reading/batch_reader.h"
#include "services/library/inputs.h"
#include "services/library/interface.h"
#include "services/loader_client/loader_client.h"
#include "services/runtime/signals_blocked.h"
#include "services/runtime/train_environment.h"
#include "simurgh/simurgh.h"
#include "telemetry/logging.h"

using simurgh::Batch;
using simurgh::Status;
using simurgh::StatusOr;

struct simurgh_loader {
  Status Open(const simurgh_loader_options& options);
  simurgh::Status CheckProcess() const { return simurgh::library::CheckProcess("loader", process); }
  // Feeds a batch, unless the trainer had it before this process. Returns whether training wants
  // more.
  StatusOr<bool> Feed(Batch batch);
  StatusOr<bool> FeedTables();
  StatusOr<bool> FeedSamples(const simurgh_samples& samples);
  Status CheckSamples(const simurgh_samples& samples) const;
  Status End();

  const pid_t process = getpid();
  uint32_t index = 0;
  std::optional<simurgh::ClusterConfig> config;  // With fitted statistics.
  std::optional<simurgh::InputsView> inputs;
  std::stop_source stop;
  std::unique_ptr<simurgh::LoaderClient> client;
  std::unique_ptr<simurgh::ArrowTableBatcher> tables;  // Null until a table is fed.
  std::optional<simurgh::BatchBuilder> builder;        // Nothing until samples are fed.
  uint64_t first_row = 0;                              // Number of the first row that is fed.
  uint64_t sample_rows = 0;                            // Rows of all batches of samples.
  uint64_t number = 0;                                 // Number of the next batch.
  bool is_wanted = true;
};

Status simurgh_loader::Open(const simurgh_loader_options& options) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(options.size, sizeof(options), "simurgh_loader_options"));
  SIMURGH_ASSIGN_OR_RETURN(const auto environment, simurgh::TrainEnvironment::Get());
  SIMURGH_ASSIGN_OR_RETURN(
      const simurgh::library::ConfigChoice choice,
      simurgh::library::ChooseConfig(environment, options.config_path, options.overrides,
                                     options.override_count));
  index = options.index;
  SIMURGH_RETURN_IF_ERROR(simurgh::InitLogging(
      absl::StrCat("loader/", index), options.log_level == nullptr ? "info" : options.log_level));
  SIMURGH_ASSIGN_OR_RETURN(config, simurgh::LoadClusterConfig(choice.path, choice.overrides,
                                                              simurgh::InputFiles::kCheck));
  const simurgh::ClusterConfig parsed = *config;  // The trainer compares its settings.
  simurgh::FileIdentities identities(config->data.on_change);
  SIMURGH_RETURN_IF_ERROR(simurgh::SetLoaderStatistics(*config, &identities));
  const simurgh::SignalsBlocked blocked;
  SIMURGH_ASSIGN_OR_RETURN(
      client,
      simurgh::LoaderClient::Open(
          parsed, {.loader = index, .input = simurgh::InputAgreement(*config)}, stop.get_token()));
  first_row = client->begin().next(index).row;
  inputs.emplace(*config, /*rank=*/0, /*has_masks=*/false);
  return absl::OkStatus();
}

StatusOr<bool> simurgh_loader::Feed(Batch batch) {
  if (client->HasTaken(number++)) return true;
  const uint64_t skipped = tables == nullptr ? 0 : tables->skipped_rows();
  const StatusOr<bool> wanted = client->Feed(std::move(batch), skipped);
  const Status& status = wanted.status();
  const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
                    absl::IsAborted(status) || absl::IsFailedPrecondition(status);
  if (lost) return simurgh::library::AsStartAgain(status);
  if (wanted.ok()) is_wanted = *wanted;
  return wanted;
}

StatusOr<bool> simurgh_loader::FeedTables() {
  while (is_wanted) {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, tables->Next());
    if (!batch) break;
    if (config->training.drop_last && batch->size() < config->training.batch_size) continue;
    batch->progress = {.share = index, .next = {0, first_row + batch->progress.next.row}};
    SIMURGH_RETURN_IF_ERROR(Feed(*std::move(batch)).status());
  }
  return is_wanted;
}

Status simurgh_loader::CheckSamples(const simurgh_samples& samples) const {
  const simurgh_inputs& known = inputs->get();
  if (samples.labels == nullptr || (samples.dense == nullptr && known.dense_width > 0)) {
    return absl::InvalidArgumentError("simurgh_samples: dense numbers or labels are missing");
  }
  for (uint64_t row = 0; samples.weights != nullptr && row < samples.rows; ++row) {
    const float weight = samples.weights[row];
    if (std::isfinite(weight) && weight >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("weights: sample ", row, " has ", weight,
                                                   ", expected a finite number, at least 0"));
  }
  for (uint64_t i = 0; i < known.feature_count; ++i) {
    const simurgh_ids& of = samples.features[i];
    const std::string place = absl::StrCat("feature '", known.features[i].name, "': ");
    bool ascends = of.offsets == nullptr || of.offsets[0] == 0;
    for (uint64_t row = 0; of.offsets != nullptr && row < samples.rows && ascends; ++row) {
      ascends = of.offsets[row] <= of.offsets[row + 1];
    }
    if (!ascends) {
      return absl::InvalidArgumentError(absl::StrCat(place, "its offsets do not ascend from 0"));
    }
    if (of.weights == nullptr) continue;
    const uint64_t count = of.offsets == nullptr ? samples.rows : of.offsets[samples.rows];
    for (uint64_t id = 0; id < count; ++id) {
      if (std::isfinite(of.weights[id])) continue;
      return absl::InvalidArgumentError(absl::StrCat(place, "id ", id, " has the weight ",
                                                     of.weights[id], ", expected a finite number"));
    }
  }
  return absl::OkStatus();
}

StatusOr<bool> simurgh_loader::FeedSamples(const simurgh_samples& samples) {
  SIMURGH_RETURN_IF_ERROR(CheckSamples(samples));
  const simurgh_inputs& known = inputs->get();
  for (uint64_t row = 0; row < samples.rows && is_wanted; ++row) {
    for (uint64_t label = 0; label < known.label_count; ++label) {
      builder->SetLabel(samples.labels[row * known.label_count + label], label);
    }
    if (samples.weights != nullptr) builder->SetWeight(samples.weights[row]);
    for (uint64_t column = 0; column < known.dense_width; ++column) {
      builder->SetDense(column, samples.dense[row * known.dense_width + column]);
    }
    for (uint64_t feature = 0; feature < known.feature_count; ++feature) {
      const simurgh_ids& of = samples.features[feature];
      const uint64_t first = of.offsets == nullptr ? row : of.offsets[row];
      const uint64_t end = of.offsets == nullptr ? row + 1 : of.offsets[row + 1];
      for (uint64_t i = first; i < end; ++i) {
        builder->AddId(feature, of.ids[i], of.weights == nullptr ? 1.0F : of.weights[i]);
      }
    }
    builder->EndSample();
    ++sample_rows;
    if (builder->size() < config->training.batch_size) continue;
    SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder->Build());
    batch.progress = {.share = index, .next = {0, first_row + sample_rows}};
    SIMURGH_RETURN_IF_ERROR(Feed(std::move(batch)).status());
  }
  return is_wanted;
}

Status simurgh_loader::End() {
  if (tables != nullptr) {
    tables->End();
    SIMURGH_RETURN_IF_ERROR(FeedTables().status());
  }
  if (builder && builder->size() > 0 && is_wanted && !config->training.drop_last) {
    SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder->Build());
    batch.progress = {.share = index, .next = {0, first_row + sample_rows}};
    SIMURGH_RETURN_IF_ERROR(Feed(std::move(batch)).status());
  }
  return client->End(tables == nullptr ? 0 : tables->skipped_rows());
}

int simurgh_loader_open(const simurgh_loader_options* options, simurgh_loader** loader) {
  return simurgh::library::Call([&]() -> Status {
    *loader = nullptr;
    auto opened = std::make_unique<simurgh_loader>();
    SIMURGH_RETURN_IF_ERROR(opened->Open(*options));
    *loader = opened.release();
    return absl::OkStatus();
  });
}

int simurgh_loader_inputs(simurgh_loader* loader, simurgh_inputs* inputs) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(
        simurgh::library::CheckSize(inputs->size, sizeof(*inputs), "simurgh_inputs"));
    *inputs = loader->inputs->get();
    return absl::OkStatus();
  });
}

int simurgh_loader_rows(simurgh_loader* loader, uint64_t* rows) {
  return simurgh::library::Call([&]() -> Status {
    *rows = loader->first_row;
    return absl::OkStatus();
  });
}

int simurgh_loader_feed_table(simurgh_loader* loader, struct ArrowArrayStream* table, int* wanted) {
  return simurgh::library::Call([&]() -> Status {
    const simurgh::library::ReleasedTable released(table);
    SIMURGH_RETURN_IF_ERROR(loader->CheckProcess());
    if (loader->builder) {
      return absl::InvalidArgumentError(
          "the loader feeds samples; a loader feeds one or the other");
    }
    if (loader->tables == nullptr) {
      const simurgh::ClusterConfig& config = *loader->config;
      loader->tables = simurgh::NewArrowTableBatcher(
          config.data, config.features, config.training.batch_size,
          {.keep_negatives = config.training.keep_negatives, .seed = config.seed});
    }
    SIMURGH_RETURN_IF_ERROR(loader->tables->Add(table));
    SIMURGH_ASSIGN_OR_RETURN(const bool more, loader->FeedTables());
    *wanted = more ? 1 : 0;
    return absl::OkStatus();
  });
}

int simurgh_loader_feed_samples(simurgh_loader* loader, const simurgh_samples* samples,
                                int* wanted) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(loader->CheckProcess());
    SIMURGH_RETURN_IF_ERROR(
        simurgh::library::CheckSize(samples->size, sizeof(*samples), "simurgh_samples"));
    if (loader->tables != nullptr) {
      return absl::InvalidArgumentError("the loader feeds tables; a loader feeds one or the other");
    }
    if (!loader->builder) {
      const simurgh::ClusterConfig& config = *loader->config;
      if (config.training.keep_negatives < 1) {
        return absl::InvalidArgumentError(
            "training.keep_negatives: samples with ready ids are not left out; set it to 1, or "
            "feed "
            "tables");
      }
      loader->builder.emplace(simurgh::NewBuilder(config.data, config.features));
    }
    SIMURGH_ASSIGN_OR_RETURN(const bool more, loader->FeedSamples(*samples));
    *wanted = more ? 1 : 0;
    return absl::OkStatus();
  });
}

int simurgh_loader_end(simurgh_loader* loader) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(loader->CheckProcess());
    return loader->End();
  });
}

int simurgh_loader_abandon(simurgh_loader* loader, const char* reason) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(loader->CheckProcess());
    return loader->client->Abandon(
        absl::UnknownError(reason == nullptr ? "the loader gave no reason" : reason));
  });
}

int simurgh_loader_stop(simurgh_loader* loader) {
  return simurgh::library::Call([&]() -> Status {
    loader->stop.request_stop();
    return absl::OkStatus();
  });
}

int simurgh_loader_close(simurgh_loader* loader) {
  return simurgh::library::Call([&]() -> Status {
    if (loader != nullptr) SIMURGH_RETURN_IF_ERROR(loader->CheckProcess());
    delete loader;
    return absl::OkStatus();
  });
}
