#include "tests/unit/train/random_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace simurgh {
namespace {

bool HoldsAll(const std::set<uint64_t>& steps, uint64_t below) {
  for (uint64_t step = 0; step < below; ++step) {
    if (!steps.contains(step)) return false;
  }
  return true;
}

}  // namespace

RandomPort::RandomPort(Options options)
    : options_(std::move(options)), random_(options_.seed), thread_([this] { Run(); }) {}

RandomPort::~RandomPort() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void RandomPort::Enqueue(std::function<void()> answer) {
  calls_.push_back(std::move(answer));
  changed_.NotifyAll();
}

void RandomPort::Run() {
  while (true) {
    std::function<void()> answer;
    {
      MutexLock lock(mutex_);
      while (calls_.empty() && !stopped_) changed_.Wait(mutex_);
      if (calls_.empty()) return;
      const auto chosen = calls_.begin() + static_cast<ptrdiff_t>(random_.Below(calls_.size()));
      answer = std::move(*chosen);
      calls_.erase(chosen);
    }
    answer();
  }
}

Status RandomPort::Draw() {
  MutexLock lock(mutex_);
  if (options_.failures.empty() || random_.Uniform() >= options_.failure_rate) {
    return absl::OkStatus();
  }
  ++failures_;
  return Status(options_.failures[random_.Below(options_.failures.size())], "drawn");
}

void RandomPort::Expect(bool condition, const std::string& what) {
  if (!condition) violations_.push_back(what);
}

bool RandomPort::IsOf(BatchReference batch, uint64_t step) const {
  const auto found = references_.find(batch.number);
  return found != references_.end() && found->second == step;
}

void RandomPort::Submit(SubmittedIds ids, const SubmitOptions& options,
                        std::function<void(StatusOr<BatchReference>)> done) {
  MutexLock lock(mutex_);
  Expect(options.lookahead_steps == (options_.reproducible ? options_.staleness : 1),
         "submit " + std::to_string(options.step) + ": other steps together");
  Enqueue([this, step = options.step, done] {
    const Status status = Draw();
    if (!status.ok()) return done(status);
    if (submissions_++ < options_.refused_submissions) {
      return done(absl::ResourceExhaustedError("no room"));
    }
    BatchReference reference;
    {
      MutexLock inner(mutex_);
      reference.number = next_number_++;
      references_.emplace(reference.number, step);
    }
    done(reference);
  });
}

// Rows are as the pull of an earlier step got them, drawn at random among those that may be.
uint32_t RandomPort::DrawAge(uint64_t step, uint32_t oldest) {
  const uint64_t age = random_.Below(std::min<uint64_t>(step, oldest) + 1);
  const uint64_t seen = age == 0 ? acknowledged_.size() : acknowledged_at_pull_.at(step - age);
  lacking_[step] = static_cast<uint32_t>(step - std::min(step, seen));
  return static_cast<uint32_t>(age);
}

void RandomPort::Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
                      std::function<void(StatusOr<PullAnswer>)> done) {
  MutexLock lock(mutex_);
  const uint64_t step = options.step_id.step;
  const std::string name = "pull " + std::to_string(step);
  Expect(IsOf(batch, step), name + ": unknown reference");
  Expect(HoldsAll(acknowledged_, options.needed.acknowledged_steps),
         name + ": claims unacknowledged steps");
  Expect(options.row_age_steps == options_.row_age_steps, name + ": allows another age of rows");
  pull_started_.insert(step);
  acknowledged_at_pull_[step] = acknowledged_.size();
  const auto outstanding = static_cast<uint32_t>(pull_started_.size() - acknowledged_.size());
  max_outstanding_ = std::max(max_outstanding_, outstanding);
  const uint64_t awaited = options.needed.awaited_steps;
  if (awaited > 0) {
    ++awaiting_pulls_;
    Expect(options_.awaits_pushes && awaited == step && !acknowledged_.contains(step - 1) &&
               HoldsAll(acknowledged_, step - 1),
           name + ": awaits other pushes than the last one");
    Expect(HoldsAll(pull_answered_, step), name + ": overtakes an earlier pull");
  } else if (options_.reproducible && options.mode == LookupMode::kTrain) {
    const uint64_t pushes = step + 1 < options_.staleness ? 0 : step + 1 - options_.staleness;
    Expect(acknowledged_.size() == pushes && HoldsAll(acknowledged_, pushes),
           name + ": sees other pushes than the first " + std::to_string(pushes));
    Expect(HoldsAll(pull_answered_, step), name + ": overtakes an earlier pull");
  }
  const auto answer_pull = [this, step, embeddings = std::move(embeddings), done] {
    std::ranges::fill(embeddings.floats(), static_cast<float>(step));
    const auto told = std::make_shared<uint64_t>();
    PullAnswer answer{.argmax = {std::as_bytes(std::span(told.get(), 1)), told}};
    {
      MutexLock inner(mutex_);
      pull_answered_.insert(step);
      answer.row_age_steps = DrawAge(step, options_.row_age_steps);
      *told = ++pulls_;
      argmax_[step] = *told;
    }
    done(std::move(answer));
  };
  Enqueue([this, awaited, answer_pull, done] {
    const Status status = Draw();
    if (!status.ok()) return done(status);
    {
      MutexLock inner(mutex_);
      if (!HoldsAll(acknowledged_, awaited)) return held_pulls_.push_back(answer_pull);
    }
    answer_pull();
  });
}

void RandomPort::Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
                      std::function<void(Status)> done) {
  MutexLock lock(mutex_);
  const uint64_t step = step_id.step;
  const std::string name = "push " + std::to_string(step);
  Expect(IsOf(batch, step), name + ": unknown reference");
  if (options_.reproducible) {
    Expect(HoldsAll(acknowledged_, step), name + ": overtakes an earlier push");
    const uint64_t last_pull = *pull_started_.rbegin();
    Expect(HoldsAll(pull_answered_, std::min(step + options_.staleness, last_pull + 1)),
           name + ": overtakes a pull that must not see it");
  }
  Enqueue([this, step, name, gradients = std::move(gradients), done] {
    const bool right = std::ranges::all_of(
        gradients.floats(), [&](float g) { return g == static_cast<float>(step) + 0.5F; });
    uint64_t argmax = 0;
    const bool has_argmax = gradients.argmax.bytes.size() == sizeof(argmax);
    if (has_argmax) std::memcpy(&argmax, gradients.argmax.bytes.data(), sizeof(argmax));
    const Status status = Draw();
    {
      MutexLock inner(mutex_);
      Expect(right, name + ": gradients of another step");
      Expect(has_argmax && argmax == argmax_.at(step), name + ": argmax of another pull");
      if (status.ok()) {
        acknowledged_.insert(step);
        // A pull awaits the last step only.
        for (auto& pull : held_pulls_) Enqueue(std::move(pull));
        held_pulls_.clear();
      }
    }
    done(status);
  });
}

}  // namespace simurgh
