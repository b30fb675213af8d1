#include "tests/simulation/cluster.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/step_id.h"
#include "model/model_directory.h"
#include "model/row_files.h"
#include "tests/simulation/trainer.h"

namespace simurgh::simulation {
namespace {

// A run without progress ends.
constexpr uint64_t kMaxEvents = 500'000;
constexpr Microseconds kMaxTime = 60'000'000;
constexpr Microseconds kSupervision = 5'000;

bool IsPassing(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

std::string Describe(const ExpectedRow& row) {
  std::string text = absl::StrCat("uses=", row.uses, " recency=", row.recency, " values=");
  for (const float value : row.values) absl::StrAppend(&text, " ", value);
  return text;
}

StatusOr<ExpectedRows> ReadRows(const Plan& plan, const Checkpoint& checkpoint) {
  ExpectedRows rows;
  for (uint32_t t = 0; t < plan.config.tables.size(); ++t) {
    const TableConfig& table = plan.config.tables[t];
    const std::vector<TensorSpec> tensors = Table::FileTensors(table, 0);
    std::vector<std::string> names;
    for (const TensorSpec& tensor : tensors) names.push_back(tensor.name);
    SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> files, OpenRows(checkpoint, table.name));
    for (SavedRows& file : files) {
      SIMURGH_RETURN_IF_ERROR(file.ForEachPiece(names, [&](SavedRows::Parts parts) -> Status {
        for (size_t i = 0; i < parts[0].size() / sizeof(uint64_t); ++i) {
          uint64_t id = 0;
          uint16_t uses = 0;
          ExpectedRow row;
          std::memcpy(&id, parts[0].data() + i * sizeof(id), sizeof(id));
          std::memcpy(&uses, parts[1].data() + i * sizeof(uses), sizeof(uses));
          std::memcpy(&row.recency, parts[2].data() + i * sizeof(id), sizeof(id));
          row.uses = uses;
          for (size_t part = 3; part < parts.size(); ++part) {
            const uint64_t bytes = tensors[part].row_bytes();
            const size_t at = row.values.size();
            row.values.resize(at + bytes / sizeof(float));
            std::memcpy(&row.values[at], parts[part].data() + i * bytes, bytes);
          }
          if (!rows.emplace(std::pair(t, id), row).second) {
            return absl::DataLossError(absl::StrCat("id ", id, " has two rows"));
          }
        }
        return absl::OkStatus();
      }));
    }
  }
  return rows;
}

std::string DescribeDifference(const ExpectedRows& rows, const ExpectedRows& expected,
                               bool compares_uses, bool compares_recency) {
  for (const auto& [key, row] : expected) {
    const auto found = rows.find(key);
    const std::string name = absl::StrCat("table ", key.first, ", id ", key.second, ": ");
    if (found == rows.end()) return absl::StrCat(name, "no row instead of ", Describe(row));
    const ExpectedRow& other = found->second;
    const bool has_uses = compares_uses ? other.uses == row.uses : other.uses >= row.uses;
    const bool has_recency = !compares_recency || other.recency == row.recency;
    if (other.values != row.values || !has_uses || !has_recency) {
      return absl::StrCat(name, Describe(other), " instead of ", Describe(row));
    }
  }
  if (rows.size() == expected.size()) return "";
  return absl::StrCat(rows.size(), " rows instead of ", expected.size());
}

StatusOr<DenseState> ReadDense(const Checkpoint& checkpoint) {
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, checkpoint.OpenTensors("dense.safetensors"));
  DenseState dense;
  std::span<float> state(dense.state);
  SIMURGH_RETURN_IF_ERROR(
      file.Read("w", 0, kDim, std::as_writable_bytes(std::span(dense.weights))));
  SIMURGH_RETURN_IF_ERROR(file.Read("steps", 0, 1, std::as_writable_bytes(state.first(1))));
  SIMURGH_RETURN_IF_ERROR(file.Read("sum", 0, kDim, std::as_writable_bytes(state.subspan(1))));
  return dense;
}

}  // namespace

Cluster::Cluster(World& world, const Plan& plan, const Oracle& oracle)
    : world_(world), plan_(plan), oracle_(oracle), config_(plan.config), faults_left_(plan.faults) {
  disk_.on_operation = [this] {
    if (faults_left_ > 0 && world_.Chance(plan_.fault_at_file_one_in)) ScheduleFault();
  };
  disk_.on_published = [this](const std::string& attempt) {
    const uint64_t generation = std::stoull(attempt.substr(attempt.rfind('-') + 1));
    if (generation >= taken_over_) return;
    world_.Fail(absl::StrCat("generation ", generation, " completes ", attempt,
                             " after generation ", taken_over_, " has taken over"));
  };
}

Cluster::~Cluster() {
  starts_.clear();
  servers_.clear();
}

Microseconds Cluster::Delay() {
  constexpr Microseconds kUsual = 800;
  const Microseconds late = world_.Chance(plan_.late_one_in) ? world_.random.Below(200'000) : 0;
  return 50 + world_.random.Below(kUsual) + late;
}

void Cluster::Run() {
  servers_.resize(config_.embedding_ps.instances.size());
  for (uint32_t i = 0; i < servers_.size(); ++i) StartServer(i);
  StartTraining();
  Supervise();
  while (!is_over_ && world_.problem().empty()) {
    if (!world_.RunOne()) return world_.Fail("nothing happens any more");
    if (world_.events() > kMaxEvents || world_.now() > kMaxTime) {
      return world_.Fail("training does not end");
    }
    if (faults_left_ > 0 && world_.Chance(plan_.fault_one_in)) ScheduleFault();
  }
}

void Cluster::StartServer(uint32_t index) {
  if (index >= servers_.size() || servers_[index] != nullptr) return;
  world_.Note(absl::StrCat("server ", index, " starts"));
  servers_[index] = std::make_unique<Server>(world_, disk_, config_, index);
}

void Cluster::KillServer(uint32_t index) {
  world_.Note(absl::StrCat("server ", index, " dies"));
  servers_[index] = nullptr;
  world_.After(world_.random.Below(100'000), [this, index] { StartServer(index); });
}

void Cluster::StartTraining() {
  starts_training_ = false;
  if (plan_.moves_rows && !starts_.empty() && world_.Chance(3)) {
    servers_.clear();
    config_.embedding_ps.instances.resize(1 + world_.random.Below(3));
    config_.embedding_ps.partitions = static_cast<uint32_t>(1 + world_.random.Below(2));
    servers_.resize(config_.embedding_ps.instances.size());
    world_.Note(absl::StrCat("from now on servers=", servers_.size(),
                             " partitions=", config_.embedding_ps.partitions));
    for (uint32_t i = 0; i < servers_.size(); ++i) StartServer(i);
  }
  world_.Note(absl::StrCat("training starts: start ", starts_.size()));
  starts_.push_back(std::make_unique<Start>(*this, config_, starts_.size()));
}

void Cluster::KillTraining() {
  world_.Note("all ranks die");
  for (const auto& start : starts_) start->Kill();
}

void Cluster::Supervise() {
  world_.After(kSupervision + world_.random.Below(kSupervision), [this] { Supervise(); });
  const auto has_failed = [](const Start& start) {
    return start.has_dead_rank() || start.has_failed_rank();
  };
  for (const auto& start : starts_) {
    if (has_failed(*start)) start->Abort(absl::UnavailableError("a rank is lost"));
  }
  Start& newest = *starts_.back();
  if (starts_training_ || !newest.is_over()) return;
  if (has_failed(newest)) {
    // A start that was taken for dead before it had a generation may take one late, and then end
    // because it sees another checkpoint.
    const uint64_t highest =
        ModelDirectory(kModel, disk_.files).HighestGeneration().value_or(taken_over_);
    const bool is_superseded = newest.run != 0 && GenerationOf(newest.run) < highest;
    for (uint32_t i = 0; i < newest.size(); ++i) {
      const Rank& rank = newest.rank(i);
      const Status& status = rank.status();
      if (!rank.process().alive || status.ok() || IsPassing(status)) continue;
      // Its own generation is not known here if it has noticed while it prepared the folder.
      const bool has_noticed = absl::StrContains(status.message(), " has begun; generation ");
      if (is_superseded || has_noticed) continue;
      if (absl::IsDataLoss(status) && rank.trains()) continue;
      world_.Fail(absl::StrCat("rank ", i, " does not start again after: ", status.ToString()));
    }
    starts_training_ = true;
    world_.After(world_.random.Below(50'000), [this] { StartTraining(); });
    return;
  }
  // What older starts do now changes nothing.
  faults_left_ = 0;
  for (const auto& start : starts_) {
    if (!start->is_over()) return;
  }
  is_over_ = true;
  CheckDisk(/*is_end=*/true);
  LosePower();
  CheckDisk(/*is_end=*/true);
}

void Cluster::ScheduleFault() {
  if (std::exchange(fault_comes_, true)) return;
  --faults_left_;
  world_.After(world_.random.Below(3), [this] {
    fault_comes_ = false;
    if (!is_over_) Fault();
  });
}

void Cluster::Fault() {
  Start& newest = *starts_.back();
  switch (world_.random.Below(10)) {
    case 0:
    case 1: {
      const auto index = static_cast<uint32_t>(world_.random.Below(servers_.size()));
      if (servers_[index] != nullptr) KillServer(index);
      break;
    }
    case 2: {
      const auto index = static_cast<uint32_t>(world_.random.Below(newest.size()));
      Process& process = newest.rank(index).process();
      world_.Note(absl::StrCat(process.name, " dies"));
      process.alive = false;
      World::Drain(process);
      break;
    }
    case 3:
      KillTraining();
      break;
    case 4:
    case 5:
      LosePower();
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        world_.After(world_.random.Below(50'000), [this, i] { StartServer(i); });
      }
      break;
    case 6:
    case 7: {
      if (starts_training_) break;
      const Microseconds pause = world_.random.Below(world_.Chance(2) ? 30'000 : 400'000);
      world_.Note(
          absl::StrCat("start ", newest.number, " is taken for dead, and pauses for ", pause));
      newest.PauseUntil(world_.now() + pause);
      starts_training_ = true;
      world_.After(world_.random.Below(20'000), [this] { StartTraining(); });
      break;
    }
    case 8:
      world_.Note("the disk is full");
      disk_.files.SetFull(true);
      world_.After(world_.random.Below(150'000), [this] {
        world_.Note("the disk has room");
        disk_.files.SetFull(false);
      });
      break;
    default:
      if (plan_.repeats_pulls() && world_.Chance(2)) {
        const std::unique_ptr<Server>& server = servers_[world_.random.Below(servers_.size())];
        if (server == nullptr) break;
        world_.Note(absl::StrCat(server->process().name, " pauses"));
        server->process().paused_until = world_.now() + world_.random.Below(150'000);
      } else if (plan_.has_cold_rows && world_.Chance(2)) {
        world_.Note("the disks of cold rows have errors");
        (world_.Chance(2) ? disk_.cold_error_one_in : disk_.cold_torn_one_in) = 5;
        world_.After(world_.random.Below(50'000),
                     [this] { disk_.cold_error_one_in = disk_.cold_torn_one_in = 0; });
      } else {
        world_.Note("the disk has errors");
        disk_.error_one_in = 5;
        world_.After(world_.random.Below(5'000), [this] { disk_.error_one_in = 0; });
      }
      break;
  }
  CheckDisk(/*is_end=*/false);
}

void Cluster::LosePower() {
  world_.Note("the power is lost");
  for (const auto& start : starts_) start->Kill();
  for (auto& server : servers_) server = nullptr;
  // Sometimes all or nothing of what is not durable survives.
  const uint64_t odds = world_.random.Below(4);
  disk_.files = disk_.files.AfterPowerLoss(
      [&] { return odds == 0 || (odds < 3 && world_.random.Below(odds + 1) > 0); });
}

void Cluster::OnTakenOver(uint64_t generation) {
  if (!generations_.insert(generation).second) {
    world_.Fail(absl::StrCat("two starts have generation ", generation));
  }
  taken_over_ = std::max(taken_over_, generation);
}

void Cluster::OnSaved(uint64_t generation, uint64_t step) {
  saved_ = std::max(saved_, {generation, step});
}

void Cluster::CheckServers(const Start& trained) {
  disk_.cold_error_one_in = 0;  // The comparison reads all rows.
  ExpectedRows rows;
  for (const auto& server : servers_) {
    // A server may have died since the save.
    if (&trained != starts_.back().get() || server == nullptr || !server->HasBegun(trained.run)) {
      return;
    }
    for (uint32_t p = 0; p < server->rows().shape().partitions; ++p) {
      const Partition& partition = server->rows().partition(p);
      for (uint32_t t = 0; t < partition.table_count(); ++t) {
        partition.table(t).ForEachRow([&](const RowContents& row) {
          ExpectedRow& copy = rows[{t, row.id}];
          copy.values.assign(row.weights.begin(), row.weights.end());
          copy.values.insert(copy.values.end(), row.state.begin(), row.state.end());
          copy.uses = row.use_count;
          copy.recency = row.recency;
        });
      }
    }
  }
  const std::string difference = DescribeDifference(rows, oracle_.models().rbegin()->second.rows,
                                                    compares_uses(), compares_recency());
  if (!difference.empty()) world_.Fail(absl::StrCat("the servers at the end: ", difference));
}

bool Cluster::compares_uses() const { return !plan_.repeats_pulls(); }

// Ranks that are some steps apart give rows the recency of the one ahead.
bool Cluster::compares_recency() const {
  return !plan_.repeats_pulls() && (plan_.ranks == 1 || plan_.staleness() == 1);
}

void Cluster::CheckDisk(bool is_end) {
  const StatusOr<ModelDirectory::Newest> newest = ModelDirectory(kModel, disk_.files).Latest();
  if (absl::IsNotFound(newest.status())) {
    if (is_end || saved_.first > 0) world_.Fail("a saved checkpoint is lost: there is none");
    return;
  }
  if (!newest.ok()) return world_.Fail(newest.status().ToString());
  const Manifest& manifest = newest->checkpoint.manifest;
  const std::string name =
      absl::StrCat("checkpoint of generation ", manifest.generation, " and step ", manifest.step);
  world_.Note(absl::StrCat("newest ", name));
  if (std::pair(manifest.generation, manifest.step) < saved_) {
    world_.Fail(absl::StrCat("a saved checkpoint is lost: generation ", saved_.first, " and step ",
                             saved_.second, "; the newest is the ", name));
  }
  const auto expected = oracle_.models().find(manifest.step);
  if (expected == oracle_.models().end() ||
      (is_end && manifest.step != oracle_.models().rbegin()->first)) {
    return world_.Fail(absl::StrCat("unexpected ", name));
  }
  const ExpectedModel& model = expected->second;
  const StatusOr<ExpectedRows> rows = ReadRows(plan_, newest->checkpoint);
  std::string difference =
      rows.ok() ? DescribeDifference(*rows, model.rows, compares_uses(), compares_recency())
                : rows.status().ToString();
  if (manifest.position != model.position) {
    difference = absl::StrCat("position ", manifest.position, " instead of ", model.position);
  }
  if (manifest.samples != model.samples) {
    difference = absl::StrCat(manifest.samples, " samples instead of ", model.samples);
  }
  StatusOr<DenseState> dense = ReadDense(newest->checkpoint);
  if (!dense.ok()) {
    difference = dense.status().ToString();
  } else if (*dense != model.dense) {
    difference = "the dense state differs";
  }
  if (!difference.empty()) world_.Fail(absl::StrCat(name, ": ", difference));
}

}  // namespace simurgh::simulation
