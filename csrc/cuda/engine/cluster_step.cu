#include <algorithm>
#include <cstdlib>

#include "cuda/engine/cluster_step.cuh"
#include "cuda/engine/cluster_step.h"
#include "cuda/launch.h"

namespace molspec::cuda {
namespace {

// Clusters that run at once: an H100 has room for so many.
constexpr int64_t kMostClusters = 16;
// Eight multiprocessors read more weights than that too slowly.
constexpr int64_t kMostClusterBytes = 12'000'000;

using ClusterStepKernel = void (*)(ClusterStepProblem);

// The kernel for a feed-forward layer of so many columns, or null.
ClusterStepKernel kernel_for(int64_t feed_forward) {
  switch (feed_forward) {
    case 512:
      return cluster_step_kernel<512>;
    case kMostClusterInner:
      return cluster_step_kernel<kMostClusterInner>;
    default:
      return nullptr;
  }
}

// Bytes of the weights that a step reads.
int64_t step_bytes(const Model& model) {
  const int64_t inner = model.gated ? 3 * model.feed_forward : 2 * model.feed_forward;
  const auto layers = static_cast<int64_t>(model.decoder.layers.size());
  return 2 * model.d_model *
         (layers * (6 * model.attention_width() + inner) + model.logits_stride());
}

ClusterStepProblem problem_of(const DecoderStepProblem& from, const Workspace& work) {
  const Model& model = *from.model;
  const Stack& stack = model.decoder;
  ClusterStepProblem problem{};
  problem.status = work.status;
  problem.rows = work.rows;
  problem.path_slots = from.path_slots;
  problem.memories = from.memories;
  problem.self = {from.kv_cache, model.block_stride()};
  // The kernel does not write the memory's cache.
  problem.memory = {const_cast<float*>(from.memory_cache), model.block_stride()};
  problem.layer_stride = model.block_size();
  problem.layer_count = static_cast<int>(stack.layers.size());
  std::copy(stack.layers.begin(), stack.layers.end(), problem.layers);
  for (Layer& layer : problem.layers) layer.relative_bias = model.relative_bias(layer);
  problem.bias_stride = model.relative_stride();
  problem.scale = static_cast<float>(model.attention_scale);
  problem.activation = model.activation;
  problem.form = model.norm_form();
  problem.pre_norm = model.pre_norm;
  problem.gated = model.gated;
  problem.embedding = stack.embedding;
  problem.positions = stack.positions;
  if (model.embedding_norm) problem.embedding_norm = stack.embedding_norm;
  if (model.final_norm) problem.norm = stack.norm;
  problem.rotary = model.rotary;
  problem.rotary_columns = static_cast<int>(model.rotary_columns);
  problem.output = model.output;
  problem.logits = work.projected;
  problem.logits_stride = static_cast<int>(model.logits_stride());
  problem.hidden_states = from.hidden_states;
  return problem;
}

}  // namespace

bool takes_cluster_step(const DecoderStepProblem& problem) {
  const Model& model = *problem.model;
  return std::getenv("MOLSPEC_CLUSTER_STEP") && model.weight_type == WeightType::kBfloat16 &&
         model.d_model == kClusterWidth && model.head_count == kClusterBlocks &&
         model.head_stride() == kHeadColumns && kernel_for(model.feed_forward) &&
         model.decoder.layers.size() <= kMostClusterLayers &&
         step_bytes(model) <= kMostClusterBytes && problem.node_count <= kMostListed &&
         device_attribute(cudaDevAttrClusterLaunch) &&
         device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) >=
             static_cast<int>(sizeof(ClusterShared));
}

void cluster_step(const DecoderStepProblem& problem, const Workspace& work, cudaStream_t stream) {
  const int64_t clusters = std::min(
      {problem.memories.count, (problem.node_count + kTileRows - 1) / kTileRows, kMostClusters});
  if (clusters == 0) return;
  const ClusterStepKernel kernel = kernel_for(problem.model->feed_forward);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(sizeof(ClusterShared))),
             "shared memory of cluster_step");
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = kClusterBlocks;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters) * kClusterBlocks);
  config.blockDim = dim3(kClusterThreads);
  config.dynamicSmemBytes = sizeof(ClusterShared);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  check_cuda(cudaLaunchKernelEx(&config, kernel, problem_of(problem, work)), "cluster_step");
}

}  // namespace molspec::cuda
