#pragma once

// Marks what runs on the device and, compiled by an ordinary compiler, on the host: every formula
// and every kernel's body, so that tests hold them against the CPU backend where no device is.
#if defined(__CUDACC__)
#define SIMURGH_HOST_DEVICE __host__ __device__
#else
#define SIMURGH_HOST_DEVICE
#endif
