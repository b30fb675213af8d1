#pragma once

#include <chrono>

#include "rpc/async.h"

namespace simurgh::rpc {

// Runs a context in this thread until it is stopped or has no work left, as its own run() does, but
// looks for events on and on for up to `max_spin` after the last one before it lets the thread
// sleep: a short wait costs no wake-up then (some 5 us a side), at the price of the processor's
// time. It does so only while the waits have lately been that short and little has been moved
// between them: beside the copies of a large message a wake-up is nothing. 0 never spins.
//
// Requires that this is the only thread that runs the context.
void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin);

// Tells this thread's loop how much a stream has just moved, or moves as soon as the peer does.
void NoteTraffic(size_t bytes);

}  // namespace simurgh::rpc
