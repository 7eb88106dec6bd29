// The CUDA version that the operators were built with, and the driver's. In plain C, because it is
// called before CUDA is initialised.

#include <cuda_runtime.h>

// In CUDA's form: 1000 * major + 10 * minor; 0 if there is no driver.
extern "C" __attribute__((visibility("default"))) void molspec_cuda_versions(int* driver,
                                                                             int* runtime) {
  *driver = *runtime = 0;
  cudaDriverGetVersion(driver);
  cudaRuntimeGetVersion(runtime);
}
