#pragma once

namespace simurgh {

// Whether the arguments ask for ServeRows().
bool HasServeFlag(int argc, const char* const* argv);

// `embedding-ps --serve MODEL`: serves a share of a model's rows, read only, until it is stopped.
// Returns the exit code.
int ServeRows(int argc, const char* const* argv);

}  // namespace simurgh
