#include <algorithm>
#include <type_traits>

#include "cuda/engine/layers.h"
#include "cuda/launch.h"

namespace molspec::cuda {
namespace {

// With fewer blocks of the wide kernel too many multiprocessors are idle. The narrow kernel's many
// small blocks are then faster, although they read all weights four times as often. Counted in the
// machine code, an H200 takes 12 us for 16 to 128 wide blocks of 256 inner positions, and as long
// for their narrow ones from 50 on.
int64_t fewest_wide_blocks() { return device_attribute(cudaDevAttrMultiProcessorCount) / 2; }

template <typename Weights, bool kNormed>
void launch_linear_of(const LinearProblem& problem, cudaStream_t stream) {
  const auto panels = static_cast<unsigned>(problem.linear.panels);
  const auto tiles = [&](int rows) {
    return static_cast<unsigned>((problem.row_limit + rows - 1) / rows);
  };
  if (int64_t{panels} * tiles(kWideRows) < fewest_wide_blocks()) {
    const dim3 blocks(panels * (kPanel / kTileColumns), tiles(kTileRows));
    launch("linear_narrow", linear_narrow<Weights, kNormed>, blocks, kLinearThreads, stream,
           problem);
  } else {
    launch("linear_wide", linear_wide<Weights, kNormed>, dim3(panels, tiles(kWideRows)),
           kLinearThreads, stream, problem);
  }
}

template <typename Weights>
void launch_linear_of(const LinearProblem& problem, cudaStream_t stream) {
  if (problem.in.norm.weight) return launch_linear_of<Weights, true>(problem, stream);
  launch_linear_of<Weights, false>(problem, stream);
}

unsigned row_blocks(int64_t rows) {
  return static_cast<unsigned>((rows + kRowsOfBlock - 1) / kRowsOfBlock);
}

}  // namespace

Workspace Workspace::carve(const Model& model, int64_t rows, uint8_t* base, int64_t* size) {
  int64_t used = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    using Item = std::remove_reference_t<decltype(*pointer)>;
    pointer = base ? reinterpret_cast<Item*>(base + used) : nullptr;
    used += round_up(count * static_cast<int64_t>(sizeof(Item)), 256);
  };
  const int64_t width = std::max(model.query_key_value_stride(), model.logits_stride());
  Workspace work{};
  take(work.status, 1);
  take(work.rows, rows);
  take(work.hidden, rows * model.d_stride());
  take(work.next, rows * model.d_stride());
  take(work.projected, rows * width);
  take(work.context, rows * model.attention_stride());
  take(work.inner, rows * model.feed_forward_stride());
  *size = used;
  return work;
}

LinearProblem Layers::problem(const Linear& linear, const NormInput& in, float* out,
                              int64_t out_stride) const {
  LinearProblem problem{};
  problem.status = work_.status;
  problem.rows = work_.rows;
  problem.row_limit = static_cast<int>(rows_);
  problem.linear = linear;
  problem.in = in;
  problem.norm_form = model_.norm_form();
  problem.out = out;
  problem.out_stride = out_stride;
  problem.width = static_cast<int>(model_.attention_width());
  return problem;
}

void Layers::launch_linear(const LinearProblem& problem) const {
  switch (model_.weight_type) {
    case WeightType::kFloat32:
      return launch_linear_of<Float32Weights>(problem, stream_);
    case WeightType::kBfloat16:
      return launch_linear_of<PairedWeights<Bfloat16>>(problem, stream_);
    case WeightType::kInt8:
      break;  // engine.cpp has refused it
  }
}

void Layers::norm(const LayerNorm& norm, float* rows) const {
  const NormProblem problem{
      work_.status, norm, model_.norm_form(), static_cast<int>(model_.d_stride()), rows, rows};
  launch("norm", norm_kernel, row_blocks(rows_), kRowThreads, stream_, problem);
}

void Layers::embed(const Stack& stack) {
  const EmbedProblem problem{work_.status,    work_.rows,   stack.embedding,
                             stack.positions, work_.hidden, static_cast<int>(model_.d_stride())};
  launch("embed", embed_kernel, row_blocks(rows_), kRowThreads, stream_, problem);
  if (model_.embedding_norm) norm(stack.embedding_norm, work_.hidden);
  pending_ = {};
}

// Pre-norm: x + f(norm(x)). Post-norm: norm(x + f(x)); the outer norm becomes `pending_`.
NormInput Layers::sublayer_input(const LayerNorm& norm) const {
  return {model_.pre_norm ? norm : pending_, work_.hidden, model_.d_stride()};
}

void Layers::sublayer_end(const Linear& linear, const float* in, int64_t in_stride,
                          const LayerNorm& norm) {
  LinearProblem end = problem(linear, {{}, in, in_stride}, work_.next, model_.d_stride());
  end.residual = {pending_, work_.hidden, model_.d_stride()};
  launch_linear(end);
  std::swap(work_.hidden, work_.next);
  if (!model_.pre_norm) pending_ = norm;
}

void Layers::attend(const LayerCache& cache, const Keys& keys, int64_t query_stride,
                    const float* bias) {
  AttentionProblem problem{};
  problem.rows = work_.rows;
  problem.path_slots = keys.path_slots;
  problem.memories = keys.memories;
  problem.head_count = static_cast<int>(model_.head_count);
  problem.head_stride = static_cast<int>(model_.head_stride());
  problem.scale = static_cast<float>(model_.attention_scale);
  problem.bias = bias;
  problem.bias_stride = model_.relative_stride();
  problem.query = work_.projected;
  problem.query_stride = query_stride;
  problem.cache = cache;
  problem.out = work_.context;
  problem.out_stride = model_.attention_stride();
  const dim3 blocks(static_cast<unsigned>(rows_),
                    static_cast<unsigned>((model_.head_count + kHeadsOfBlock - 1) / kHeadsOfBlock));
  const auto kernel = model_.head_stride() <= kWarp       ? attention_kernel<1>
                      : model_.head_stride() <= 2 * kWarp ? attention_kernel<2>
                                                          : attention_kernel<kMostHeadVectors>;
  check(model_.head_stride() <= kMostHeadVectors * kWarp, "head_dim is ", model_.head_dim,
        ": expected at most ", kMostHeadVectors * kWarp, " on a GPU");
  launch("attention", kernel, blocks, kAttentionThreads, stream_, problem);
}

void Layers::self_attention(const Layer& layer, const LayerCache& cache, const Keys& keys) {
  const Attention& attention = layer.self_attention;
  const int64_t stride = model_.query_key_value_stride();
  LinearProblem project =
      problem(attention.query_key_value, sublayer_input(attention.norm), work_.projected, stride);
  project.cache = cache;
  project.key_column = static_cast<int>(model_.attention_width());
  launch_linear(project);
  if (model_.rotary) {
    const RotationProblem rotation{work_.status,
                                   work_.rows,
                                   model_.rotary,
                                   static_cast<int>(model_.rotary_columns),
                                   static_cast<int>(model_.head_count),
                                   static_cast<int>(model_.head_stride()),
                                   work_.projected,
                                   stride,
                                   cache};
    launch("rotate", rotate_kernel, static_cast<unsigned>(rows_), kRowThreads, stream_, rotation);
  }
  attend(cache, keys, stride, model_.relative_bias(layer));
  sublayer_end(attention.output, work_.context, model_.attention_stride(), attention.norm);
}

void Layers::cross_attention(const Attention& attention, const LayerCache& cache,
                             const Keys& keys) {
  const int64_t stride = model_.attention_stride();
  launch_linear(
      problem(attention.query_key_value, sublayer_input(attention.norm), work_.projected, stride));
  attend(cache, keys, stride, nullptr);
  sublayer_end(attention.output, work_.context, stride, attention.norm);
}

void Layers::feed_forward(const Layer& layer) {
  LinearProblem inner = problem(layer.inner, sublayer_input(layer.feed_forward_norm), work_.inner,
                                model_.feed_forward_stride());
  if (model_.gated) {
    launch_linear(inner);
    inner.linear = layer.gate;
    inner.factor = work_.inner;
  }
  inner.activation = model_.activation;
  launch_linear(inner);
  sublayer_end(layer.outer, work_.inner, model_.feed_forward_stride(), layer.feed_forward_norm);
}

void Layers::end(const Stack& stack) {
  if (!model_.final_norm) return;
  apply_pending();
  pending_ = stack.norm;
}

void Layers::apply_pending() {
  if (pending_.weight) norm(pending_, work_.hidden);
  pending_ = {};
}

void Layers::store_memory(const Attention& cross_attention, const LayerCache& cache) {
  LinearProblem project = problem(cross_attention.key_value, {{}, work_.hidden, model_.d_stride()},
                                  work_.projected, model_.query_key_value_stride());
  project.cache = cache;
  launch_linear(project);
}

void Layers::keep_hidden(float* out) const {
  launch("keep_hidden", keep_hidden_kernel, row_blocks(rows_), kRowThreads, stream_, work_.status,
         work_.rows, work_.hidden, model_.d_stride(), static_cast<int>(model_.d_model), out);
}

void Layers::log_probs(float* out) const {
  const int64_t stride = model_.logits_stride();
  launch_linear(
      problem(model_.output, {pending_, work_.hidden, model_.d_stride()}, work_.projected, stride));
  const LogSoftmaxProblem problem{work_.status,
                                  work_.rows,
                                  static_cast<int>(rows_),
                                  static_cast<int>(model_.target_vocab_size),
                                  work_.projected,
                                  stride,
                                  out};
  launch("log_softmax", log_softmax_kernel, row_blocks(rows_), kRowThreads, stream_, problem);
}

}  // namespace molspec::cuda
