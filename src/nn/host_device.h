#pragma once

// Marks functions for device and host: formulas and kernel bodies, which tests compare with the CPU
// backend on machines without a device.
#if defined(__CUDACC__)
#define SIMURGH_HOST_DEVICE __host__ __device__
#else
#define SIMURGH_HOST_DEVICE
#endif
