// The blocks of a transformer over rows of activations, as a sequence of kernels on one stream.
//
// A post-norm sublayer leaves its norm to the next reader of the stream (`pending_`), so a layer is
// six linears and two attentions with nothing between them. A stack's last norm is left too: the
// logits' linear applies it.

#pragma once

#include <cuda_runtime.h>

#include "cuda/engine/attention.cuh"
#include "cuda/engine/rows.cuh"

namespace molspec::cuda {

// The keys that rows attend to: their paths, or their memories if path_slots is null.
struct Keys {
  const int32_t* path_slots;
  Memories memories;
};

class Layers {
 public:
  // `rows` is the maximum; only the device knows the actual number.
  Layers(const Model& model, const Workspace& work, int64_t rows, cudaStream_t stream)
      : model_(model), work_(work), rows_(rows), stream_(stream) {}

  void embed(const Stack& stack);
  void self_attention(const Layer& layer, const LayerCache& cache, const Keys& keys);
  void cross_attention(const Attention& attention, const LayerCache& cache, const Keys& keys);
  void feed_forward(const Layer& layer);
  // Leaves the stack's last norm pending.
  void end(const Stack& stack);
  void apply_pending();
  // Keys and values of the finished encoder's rows, for one layer of the decoder.
  void store_memory(const Attention& cross_attention, const LayerCache& cache);
  // hidden, in rows of the slots; [slot, d_model]
  void keep_hidden(float* out) const;
  // [rows, target_vocab_size]
  void log_probs(float* out) const;

 private:
  LinearProblem problem(const Linear& linear, const NormInput& in, float* out,
                        int64_t out_stride) const;
  void launch_linear(const LinearProblem& problem) const;
  void attend(const LayerCache& cache, const Keys& keys, int64_t query_stride, const float* bias);
  void norm(const LayerNorm& norm, float* rows) const;
  // The input of a sublayer; and its end: next = residual + linear(in).
  NormInput sublayer_input(const LayerNorm& norm) const;
  void sublayer_end(const Linear& linear, const float* in, int64_t in_stride,
                    const LayerNorm& norm);

  const Model& model_;
  Workspace work_;
  int64_t rows_;
  cudaStream_t stream_;
  LayerNorm pending_{};
};

}  // namespace molspec::cuda
