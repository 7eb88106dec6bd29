// Functions that run on the host and, where a CUDA compiler reads them, on a device.

#pragma once

#if defined(__CUDACC__)
#define MOLSPEC_ANYWHERE __host__ __device__
#else
#define MOLSPEC_ANYWHERE
#endif
