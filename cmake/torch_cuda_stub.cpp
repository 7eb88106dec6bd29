// Stands in for libtorch_cuda.so where torch is its CPU build, so that the CUDA operators link.
// Never installed.

#include <cstdint>

extern "C" int32_t aoti_torch_get_current_cuda_stream(int32_t, void**) { return 1; }
