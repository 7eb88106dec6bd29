// Which CUDA the operators were built with, and which the driver can run. Plain C: it is called
// before anything is on a device.

#include <cuda_runtime.h>

// As CUDA counts: 1000 * major + 10 * minor; 0 where there is no driver.
extern "C" __attribute__((visibility("default"))) void molspec_cuda_versions(int* driver,
                                                                             int* runtime) {
  *driver = *runtime = 0;
  cudaDriverGetVersion(driver);
  cudaRuntimeGetVersion(runtime);
}
