#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"

#include "base/status.h"

namespace simurgh {

// Encoding of values while they are summed.
enum class ReducePrecision : uint8_t {
  kF32,
  kBf16,  // Rounded to nearest, ties to even.
  kInt8,  // One byte per value: the nearest of 256 levels of its 512 values. See EncodeValues.
};

// Independent sequences of calls between the ranks. kWatch: heartbeats. kSave: heartbeats while
// rank 0 saves the model of the end.
enum class Channel : uint8_t { kStep, kGradients, kLoading, kWatch, kSave };
inline constexpr size_t kChannels = 5;

// Collective operations of ranks 0 to ranks() - 1 of a run. Every rank makes the same calls on a
// channel in the same order, with equal lengths.
//
// Errors: the first error is permanent: every later call on every channel fails with it. It names
// the rank at fault, which disconnected, called Abort or sent nothing for longer than the timeout.
// Threads: one at a time on a channel; Abort and Close from any thread.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Replaces `values` by their sums over the ranks, added in f32 in rank order: the same bits on
  // every rank. Values that are not finite also spoil the sums of values encoded with them.
  //
  // residual: the rounding error of the last call with a precision below f32; added to the values,
  // then replaced. As long as `values`, initially zeros; or empty to drop rounding errors.
  // meanwhile: called once, unless the call has failed before, before it waits for other ranks; may
  // use other channels. This rank's values are sent at the same time.
  // Cost: each of R ranks sends and receives 2 (R - 1) / R of the values, in two consecutive
  // messages per peer; two ranks in f32 use one.
  virtual Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
                     std::span<float> residual, absl::FunctionRef<void()> meanwhile) = 0;
  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual) {
    return Sum(channel, values, precision, residual, [] {});
  }

  // Sums doubles, without rounding; otherwise like the Sum above.
  virtual Status Sum(Channel channel, std::span<double> values) = 0;

  // Concatenates the ranks' bytes in rank order. all: ranks() times as long as `own`.
  virtual Status Gather(Channel channel, std::span<const std::byte> own,
                        std::span<std::byte> all) = 0;

  // Ends this rank's present and later calls on a channel with CANCELLED. All ranks close a channel
  // when they no longer need it.
  virtual void Close(Channel channel) = 0;

  // Sends `reason` to the other ranks and ends all waits of this rank with it.
  virtual void Abort(const Status& reason) = 0;

  // Waits, for `patience` at most, until another rank is lost or has failed. Returns that error, or
  // OK if there is none. Threads: any.
  virtual Status AwaitLoss(std::chrono::milliseconds /*patience*/) { return absl::OkStatus(); }
};

// Returns the Collective of a run with one rank: it leaves values unchanged.
std::unique_ptr<Collective> NewLocalCollective();

// Returns the bytes of `count` encoded values.
size_t EncodedSize(size_t count, ReducePrecision precision);

// Encodes values + residual. residual: see Collective::Sum. out: EncodedSize(values.size()) bytes.
//
// int8 encodes 512 values as their minimum and step in f32, then one byte each. If one value, or
// their range, is not finite, all 512 decode to NaN and their residual is zero.
void EncodeValues(std::span<const float> values, ReducePrecision precision,
                  std::span<float> residual, std::span<std::byte> out);

// The inverse of EncodeValues, except for rounding. encoded: EncodedSize(values.size()) bytes.
void DecodeValues(std::span<const std::byte> encoded, ReducePrecision precision,
                  std::span<float> values);

// Adds the decoded values to `sums`; otherwise like DecodeValues.
void AddValues(std::span<const std::byte> encoded, ReducePrecision precision,
               std::span<float> sums);

}  // namespace simurgh
