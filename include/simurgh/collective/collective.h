#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"

#include "simurgh/base/status.h"

namespace simurgh {

// How values travel when they are summed.
enum class ReducePrecision : uint8_t {
  kF32,
  kBf16,  // Rounded to nearest, ties to even.
  kInt8,  // Of each 512 values, the nearest of 256 levels from their minimum to their maximum.
};

// Conversations of a rank that go on at the same time, each in an order of its own.
// kWatch: what ranks know of one another while they do other things.
enum class Channel : uint8_t { kStep, kGradients, kLoading, kWatch };
inline constexpr size_t kChannels = 4;

// What the ranks of a run, 0 to ranks() - 1, do together. Every rank makes the same calls on a
// channel in the same order, with equal lengths.
//
// The first error is the last word: from then on every call on every channel fails with it. It
// names the rank at fault: one that is gone, that has said with Abort why it gives up, or that has
// been silent for longer than the timeout.
//
// Threads: one at a time on a channel; Abort and Close may be called by anyone.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Replaces `values` by their sums over the ranks: the same bits on all of them, added up in the
  // order of the ranks in f32.
  //
  // residual: of a precision below f32, what rounding took off the values last time; it is added to
  // them first and then replaced. As long as `values`, zeros at the beginning; or empty: what
  // rounding takes off is lost.
  // Values need not be finite; nor are then the sums of those that travel with them.
  // meanwhile: called once, unless all has failed before, when this rank's values are on their way
  // and before the others' are waited for; may use other channels. Where connections have to be
  // told first of longer messages than all before, it is called before the values leave.
  // Cost: with R ranks each sends and receives 2 (R - 1) / R of the values, in two messages a peer,
  // one after the other; in f32 between two ranks in a single one.
  virtual Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
                     std::span<float> residual, absl::FunctionRef<void()> meanwhile) = 0;
  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual) {
    return Sum(channel, values, precision, residual, [] {});
  }

  // The same for doubles, as they are.
  virtual Status Sum(Channel channel, std::span<double> values) = 0;

  // Everybody's bytes, one after the other in the order of the ranks.
  // all: ranks() times as long as `own`.
  virtual Status Gather(Channel channel, std::span<const std::byte> own,
                        std::span<std::byte> all) = 0;

  // Ends this rank's calls on a channel, now and later, with CANCELLED. For all ranks together,
  // when they have no more use for the channel.
  virtual void Close(Channel channel) = 0;

  // Tells the others why this rank gives up, and ends all waiting here with `reason`.
  virtual void Abort(const Status& reason) = 0;
};

// Of a run with one rank: sums are what they are.
std::unique_ptr<Collective> NewLocalCollective();

}  // namespace simurgh
