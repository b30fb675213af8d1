#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "base/status.h"
#include "train/trainer.h"

namespace simurgh {

// The file history.jsonl in a model's folder: how training went, one JSON object a line. See
// src/model/FORMAT.md.
//
// A line that cannot be written is logged once; training goes on.
//
// Threads: one owner.
class History {
 public:
  // Opens the history of a model, or a new one. step: of the checkpoint that training continues;
  // lines of later steps are removed. Errors: UNAVAILABLE.
  static StatusOr<std::unique_ptr<History>> Open(const std::string& directory, uint64_t step);

  void Add(const TrainObserver::Progress& progress);
  void Add(uint64_t step, EvaluationSet set, const EvaluationResult& result);

 private:
  explicit History(std::string path) : path_(std::move(path)), file_(path_, std::ios::app) {}

  void Write(const std::string& line);

  const std::string path_;
  std::ofstream file_;
  bool has_failed_ = false;
};

}  // namespace simurgh
