// Values that lie on the device are checked there: kernels leave a bad one out and keep the least
// index of one here. Reading it waits for the device.

#pragma once

#include <torch/csrc/stable/ops.h>

#include "cuda/kernels.h"
#include "cuda/launch.h"

namespace molspec::cuda {

class FirstBad {
 public:
  // `like` is an int64 tensor of the device.
  FirstBad(const Tensor& like, cudaStream_t stream)
      : cell_(torch::stable::new_empty(like, {1})), stream_(stream) {
    check_cuda(cudaMemsetAsync(data(), 0xff, sizeof(FirstBadIndex), stream), "clear a flag");
  }

  FirstBadIndex* data() const { return static_cast<FirstBadIndex*>(cell_.data_ptr()); }

  FirstBadIndex index() const { return read_back(data(), stream_); }

  // Throws, where a kernel found a bad entry of `values`: expected 0 to `most`.
  void check_none(const char* name, const int64_t* values, int64_t most) const {
    const FirstBadIndex found = index();
    if (found == kNoneBad) return;
    check(false, name, "[", found, "] is ", read_back(values + found, stream_), ": expected 0 to ",
          most);
  }

 private:
  Tensor cell_;
  cudaStream_t stream_;
};

}  // namespace molspec::cuda
