// encode and decoder_step as sequences of kernels. They neither allocate nor wait, and the host's
// part does not depend on the data, so a call can be captured in a graph and replayed.

#include "cuda/engine/engine.h"
#include "cuda/engine/layers.h"
#include "cuda/launch.h"

namespace molspec::cuda {
namespace {

Workspace begin(const Model& model, int64_t rows, uint8_t* base, int64_t available,
                cudaStream_t stream) {
  int64_t size;
  const Workspace work = Workspace::carve(model, rows, base, &size);
  check(size <= available, "workspace has ", available, " bytes: expected ", size);
  check_cuda(cudaMemsetAsync(work.status, 0, sizeof(Status), stream), "clear the status");
  return work;
}

}  // namespace

int64_t workspace_size(const Model& model, int64_t rows) {
  int64_t size;
  Workspace::carve(model, rows, nullptr, &size);
  return size;
}

// The encoder's keys and values need no buffer: until the decoder's are stored, the blocks of the
// query's memory hold those of the running layer.
void encode(const EncodeProblem& problem, cudaStream_t stream) {
  const Model& model = *problem.model;
  const Workspace work =
      begin(model, problem.id_count, problem.workspace, problem.workspace_size, stream);
  check_cuda(cudaMemsetAsync(work.rows, 0xff, problem.id_count * sizeof(Row), stream),
             "clear the rows");
  launch("read_sources", read_sources, static_cast<unsigned>(problem.query_count), kRowThreads,
         stream, problem.source_ids, problem.source_offsets, problem.memories,
         SourceLimits(problem), work.rows, work.status);

  Layers layers(model, work, problem.id_count, stream);
  const Keys keys{nullptr, problem.memories};
  LayerCache cache{problem.memory_cache, model.block_stride()};
  layers.embed(model.encoder);
  for (const Layer& layer : model.encoder.layers) {
    layers.self_attention(layer, cache, keys);
    layers.feed_forward(layer);
  }
  layers.end(model.encoder);
  layers.apply_pending();
  for (const Layer& layer : model.decoder.layers) {
    layers.store_memory(layer.cross_attention, cache);
    cache.base += model.block_size();
  }
}

void decoder_step(const DecoderStepProblem& problem, cudaStream_t stream) {
  const Model& model = *problem.model;
  const Workspace work =
      begin(model, problem.node_count, problem.workspace, problem.workspace_size, stream);
  launch("read_nodes", read_nodes,
         static_cast<unsigned>((problem.node_count + kRowsOfBlock - 1) / kRowsOfBlock), kRowThreads,
         stream, problem.nodes, static_cast<int>(problem.node_count), problem.path_slots,
         problem.memories, NodeLimits(problem), work.rows, work.status);

  Layers layers(model, work, problem.node_count, stream);
  LayerCache self{problem.kv_cache, model.block_stride()};
  // Only `attend` uses the memory's cache, and it does not write.
  LayerCache memory{const_cast<float*>(problem.memory_cache), model.block_stride()};
  layers.embed(model.decoder);
  for (const Layer& layer : model.decoder.layers) {
    layers.self_attention(layer, self, {problem.path_slots, problem.memories});
    layers.cross_attention(layer.cross_attention, memory, {nullptr, problem.memories});
    layers.feed_forward(layer);
    self.base += model.block_size();
    memory.base += model.block_size();
  }
  layers.end(model.decoder);
  if (problem.hidden_states) {
    layers.apply_pending();
    layers.keep_hidden(problem.hidden_states);
  }
  layers.log_probs(problem.log_probs);
}

Fault read_fault(const uint8_t* workspace, cudaStream_t stream) {
  return read_back(&reinterpret_cast<const Status*>(workspace)->fault, stream);
}

}  // namespace molspec::cuda
