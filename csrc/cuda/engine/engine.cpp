// The engine's operators on CUDA tensors. The table of the model stays on the host.

#include "cuda/engine/engine.h"

#include <torch/csrc/stable/library.h>

#include "cuda/engine/rows.h"
#include "cuda/stream.h"
#include "ops/check.h"

namespace molspec::cuda {
namespace {

// `read_model`, for the kernels of this folder: they have no int8.
const Model& read_cuda_model(const Tensor& weights, const Tensor& table) {
  check(table.is_cpu(), "table is not on the CPU");
  const PackedModel packed = packed_check(weights, table);
  const Model& model = read_model(packed);
  check(model.weight_type != WeightType::kInt8,
        "weights are int8: expected float32 or bfloat16 on CUDA");
  return model;
}

void encode_op(const Tensor& weights, const Tensor& table, const Tensor& source_ids,
               const Tensor& source_offsets, const Tensor& memories, const Tensor& memory_cache,
               const Tensor& workspace) {
  const Stream stream{
      {weights, "weights"},   {source_ids, "source_ids"},     {source_offsets, "source_offsets"},
      {memories, "memories"}, {memory_cache, "memory_cache"}, {workspace, "workspace"}};
  encode(encode_check(read_cuda_model(weights, table), source_ids, source_offsets, memories,
                      memory_cache, workspace),
         stream);
}

void decoder_step_op(const Tensor& weights, const Tensor& table, const Tensor& nodes,
                     const Tensor& path_slots, const Tensor& memories, const Tensor& memory_cache,
                     const Tensor& kv_cache, const Tensor& workspace, const Tensor& log_probs,
                     const Tensor& hidden_states) {
  const Stream stream{{weights, "weights"},
                      {nodes, "nodes"},
                      {path_slots, "path_slots"},
                      {memories, "memories"},
                      {memory_cache, "memory_cache"},
                      {kv_cache, "kv_cache"},
                      {workspace, "workspace"},
                      {log_probs, "log_probs"},
                      {hidden_states, "hidden_states"}};
  decoder_step(decoder_step_check(read_cuda_model(weights, table), nodes, path_slots, memories,
                                  memory_cache, kv_cache, workspace, log_probs, hidden_states),
               stream);
}

int64_t workspace_size_op(const Tensor& weights, const Tensor& table, int64_t rows,
                          int64_t /*positions*/) {
  check(rows >= 1 && rows <= kMostSize, "rows is ", rows, ": expected 1 to ", kMostSize);
  return workspace_size(read_cuda_model(weights, table), rows);
}

void refuse_fault_op(const Tensor& workspace) {
  const Stream stream{{workspace, "workspace"}};
  constexpr int64_t kStatus = sizeof(Status);
  check(workspace.numel() >= kStatus, "workspace has ", workspace.numel(),
        " bytes: expected at least ", kStatus);
  refuse(read_fault(checked_data<const uint8_t>(workspace, "workspace", 1), stream));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("encode", TORCH_BOX(&encode_op));
  library.impl("decoder_step", TORCH_BOX(&decoder_step_op));
  library.impl("workspace_size", TORCH_BOX(&workspace_size_op));
  library.impl("refuse_fault", TORCH_BOX(&refuse_fault_op));
}

}  // namespace molspec::cuda
