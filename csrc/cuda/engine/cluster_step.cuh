// The decoder's layers in one kernel, by clusters of eight blocks, for eight heads of 32 columns.
//
// A cluster takes the rows of its queries, 32 at a time, through all layers; it waits for no other
// one. Its block b owns
//   head b, which is columns [32 b, + 32) of queries, keys, values and contexts
//   an eighth of the columns of the feed-forward layer, and [32 b, + 32) of every 256 logits
//   rows 2 b and 2 b + 1 of every 16: the residual stream, its norms, its rounding
// A head's sums have the order, and so the bits, of attention.cuh.

#pragma once

#include "cuda/engine/attention.cuh"
#include "cuda/engine/cluster_rows.cuh"

namespace molspec::cuda {

// The product of a head's query and the lane's key.
inline __device__ float scored(const float4* query, const float (&key)[kHeadColumns]) {
  float score = 0.0f;
#pragma unroll
  for (int c = 0; c < kHeadColumns / 4; ++c) {
    const float4 four = query[c];
    score = fmaf(four.x, key[4 * c], score);
    score = fmaf(four.y, key[4 * c + 1], score);
    score = fmaf(four.z, key[4 * c + 2], score);
    score = fmaf(four.w, key[4 * c + 3], score);
  }
  return score;
}

// One value of each lane, which all lanes read by four: faster than a shuffle for each.
template <typename T>
struct Shown {
  T* const lanes;

  __device__ Shown(T* memory, T mine) : lanes(memory) {
    __syncwarp();  // what was shown before has been read
    lanes[lane_index()] = mine;
    __syncwarp();
  }
  template <typename Use>
  __device__ void for_each(Use use) const {
#pragma unroll
    for (int j = 0; j < kWarp; j += 4) {
      T four[4];
      *reinterpret_cast<uint4*>(four) = reinterpret_cast<const uint4*>(lanes)[j / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i) use(j + i, four[i]);
    }
  }
};

// The sums of a head of 32 columns.
struct HeadSum : HeadSums<1> {
  // Adds `count` positions: the lane has the score of one, and its own column of the values of all.
  __device__ void add(float score, const float (&of)[kWarp], int count, float* memory) {
    const Shown<float> weights(memory, weigh(lane_index() < count ? score : -INFINITY));
    float& sum = values[0];
    if (count == kWarp)  // one comparison, not one a position
      return weights.for_each([&](int j, float weight) { sum = fmaf(weight, of[j], sum); });
    weights.for_each([&](int j, float weight) {
      if (j < count) sum = fmaf(weight, of[j], sum);
    });
  }
  __device__ float result() const { return values[0] * (1.0f / total); }
};

// kInner: columns of the feed-forward layer.
template <int kInner>
struct ClusterStep : ClusterRows {
  static constexpr int kOwnInner = kInner / kClusterBlocks;

  __device__ LayerCache of_layer(const LayerCache& cache, int layer) const {
    return {cache.base + layer * problem.layer_stride, cache.block_stride};
  }

  __device__ void embed() {
    for (int i = thread; i < kOwnRows * kClusterWidth; i += kClusterThreads) {
      const int own = i / kClusterWidth, column = i % kClusterWidth;
      if (row_of(own) >= count) continue;
      const Node& node = shared().rows[row_of(own)].node;
      const float token = problem.embedding[int64_t{node.token_id} * kClusterWidth + column];
      const int64_t place = int64_t{node.position} * kClusterWidth + column;
      shared().x[own][column] = problem.positions ? token + problem.positions[place] : token;
    }
    cluster_sync();  // also: no block may write to another one that has not begun
    apply(problem.embedding_norm);
  }

  // Turns queries and stored keys, as rotate_kernel does.
  __device__ void rotate(const LayerCache& cache) {
    __syncthreads();  // they are stored
    const int half = problem.rotary_columns / 2;
    for (int i = thread; i < count * half; i += kClusterThreads) {
      const Row& row = shared().rows[i / half];
      const float* cosines = problem.rotary + int64_t{row.node.position} * problem.rotary_columns;
      float* key = cache.base + row.slot / kBlockPositions * cache.block_stride +
                   row.slot % kBlockPositions + rank * kHeadColumns * kBlockPositions;
      turn(cosines, half, i % half, &shared().slice[i / half][kQueryColumn], key);
    }
  }

  __device__ void project(const Layer& layer, const LayerCache& cache) {
    LinearProblem store{};
    store.width = kClusterWidth;
    store.cache = cache;
    constexpr int kTiles = kHeadColumns / kTileColumns;
    const auto column_of = [&](int tile) {
      return tile / kTiles * kClusterWidth + rank * kHeadColumns + tile % kTiles * kTileColumns;
    };
    whole<3 * kTiles, true>(layer.self_attention.query_key_value, column_of,
                            [&](int row, int tile, int i, float value) {
                              if (tile < kTiles)
                                shared().slice[row][kQueryColumn + tile * kTileColumns + i] = value;
                              else
                                store_key_value(store, shared().rows[row].slot,
                                                column_of(tile) + i - kClusterWidth, value);
                            });
    if (problem.rotary) rotate(cache);
  }

  // A warp a row, as in attention_kernel.
  __device__ void attend(const LayerCache& cache, const float* bias) {
    const int head = rank * kHeadColumns;
    __syncthreads();  // queries and keys are stored
    for (int row = warp(); row < count; row += kClusterWarps) {
      const Node node = shared().rows[row].node;
      const int32_t* path = problem.path_slots + node.path_begin;
      const auto* query = reinterpret_cast<const float4*>(&shared().slice[row][kQueryColumn]);
      HeadSum sum;
      int32_t next = path[min(lane(), node.position)];
      for (int begin = 0; begin <= node.position; begin += kWarp) {
        const int at = min(begin + lane(), node.position);
        const int64_t block = next / kBlockPositions * cache.block_stride;
        const int place = next % kBlockPositions;
        next = path[min(begin + kWarp + lane(), node.position)];
        const float* from = cache.base + block + head * kBlockPositions + place;
        // In steps of 16 columns: 32 bits are enough for any cache.
        const auto values_at = static_cast<unsigned>(
            (block + (kBlockPositions + place) * kClusterWidth + head) / kColumnStep);
        const float added = bias ? bias[rank * problem.bias_stride + at - node.position] : 0.0f;
        float key[kHeadColumns], values[kWarp];
#pragma unroll
        for (int c = 0; c < kHeadColumns; ++c) key[c] = from[c * kBlockPositions];
        const float score = scored(query, key) * problem.scale;
        const auto* own = reinterpret_cast<const float (*)[kColumnStep]>(cache.base + lane());
        Shown<unsigned>(shared().places[warp()], values_at).for_each([&](int j, unsigned place) {
          values[j] = own[place][0];
        });
        sum.add(score + added, values, min(kWarp, node.position + 1 - begin),
                shared().weights[warp()]);
      }
      shared().slice[row][lane()] = sum.result();
    }
  }

  // The same over the memory, whose positions lie sixteen together: two addresses for 32 positions.
  __device__ void attend_memory(const LayerCache& cache) {
    const int head = rank * kHeadColumns;
    __syncwarp();  // the warp has stored the queries of its rows
    for (int row = warp(); row < count; row += kClusterWarps) {
      const int32_t memory = shared().rows[row].node.memory;
      const int32_t* blocks = problem.memories.blocks(memory);
      // A lane has the number of one block, which may be after the memory's end.
      const int most = static_cast<int>(problem.memories.stride) - 2;
      int32_t block_ids = blocks[min(lane(), most)];
      const int keys = problem.memories.length(memory);
      const auto* query = reinterpret_cast<const float4*>(&shared().slice[row][kQueryColumn]);
      HeadSum sum;
      for (int begin = 0; begin < keys; begin += kWarp) {
        const int left = min(kWarp, keys - begin), block = begin / kBlockPositions;
        if (block > 0 && block % kWarp == 0) block_ids = blocks[min(block + lane(), most)];
        const auto block_at = [&](int at) {
          return cache.base + __shfl_sync(~0U, block_ids, at % kWarp) * cache.block_stride;
        };
        const float* first = block_at(block);
        // If there is no second block, the first one again.
        const float* second = block_at(left > kBlockPositions ? block + 1 : block);
        const float* from = (lane() < kBlockPositions ? first : second) + head * kBlockPositions +
                            lane() % kBlockPositions;
        float key[kHeadColumns], values[kWarp];
#pragma unroll
        for (int c = 0; c < kHeadColumns; ++c) key[c] = from[c * kBlockPositions];
        const float score = scored(query, key) * problem.scale;
        const int values_at = kClusterWidth * kBlockPositions + head + lane();
#pragma unroll
        for (int j = 0; j < kBlockPositions; ++j) {
          values[j] = first[values_at + j * kClusterWidth];
          values[kBlockPositions + j] = second[values_at + j * kClusterWidth];
        }
        sum.add(score, values, left, shared().weights[warp()]);
      }
      shared().slice[row][lane()] = sum.result();
    }
  }

  __device__ void feed_forward(const Layer& layer) {
    constexpr int kTiles = kOwnInner / kTileColumns;
    const auto column_of = [&](int tile) { return rank * kOwnInner + tile * kTileColumns; };
    const Activation first = problem.gated ? Activation::kNone : problem.activation;
    whole<kTiles, true>(layer.inner, column_of, [&](int row, int tile, int i, float value) {
      shared().slice[row][tile * kTileColumns + i] = activate(first, value);
    });
    if (!problem.gated) return;
    __syncthreads();
    whole<kTiles, false>(layer.gate, column_of, [&](int row, int tile, int i, float value) {
      shared().slice[row][tile * kTileColumns + i] *= activate(problem.activation, value);
    });
  }

  // Norms the rows, stores their hidden states, and computes their logits.
  __device__ void finish() {
    LayerNorm last{};
    if (!problem.pre_norm) last = problem.layers[problem.layer_count - 1].feed_forward_norm;
    if (problem.norm.weight) {
      apply(last);
      last = problem.norm;
    }
    send(last, true);
    cluster_wait();
    const int own = warp();
    if (problem.hidden_states && own < kOwnRows && row_of(own) < count)
      write_columns(
          kClusterWidth,
          problem.hidden_states + int64_t{shared().rows[row_of(own)].slot} * kClusterWidth,
          [&](int i) { return shared().x[own][i]; });
    for (int begin = 0; begin < problem.logits_stride; begin += kClusterWidth) {
      if (begin > 0) __syncthreads();
      const int column = begin + rank * kHeadColumns;
      if (column >= problem.logits_stride) return;
      whole<kHeadColumns / kTileColumns, false>(
          problem.output, [&](int tile) { return column + tile * kTileColumns; },
          [&](int row, int tile, int i, float value) {
            float* logits =
                problem.logits + int64_t{shared().list[first_listed + row]} * problem.logits_stride;
            logits[column + tile * kTileColumns + i] = value;
          });
    }
  }

  __device__ void run() {
    locate();
    for (int i = thread; i < count; i += kClusterThreads)
      shared().rows[i] = problem.rows[shared().list[first_listed + i]];
    __syncthreads();
    embed();
    for (int l = 0; l < problem.layer_count; ++l) {
      locate();
      const Layer& layer = problem.layers[l];
      send_input(l > 0 ? problem.layers[l - 1].feed_forward_norm : LayerNorm{},
                 layer.self_attention.norm);
      project(layer, of_layer(problem.self, l));
      attend(of_layer(problem.self, l), layer.relative_bias);
      spread<kHeadColumns>(layer.self_attention.output);
      send_input(layer.self_attention.norm, layer.cross_attention.norm);
      constexpr int kTiles = kHeadColumns / kTileColumns;
      whole<kTiles, true>(
          layer.cross_attention.query_key_value,
          [&](int tile) { return rank * kHeadColumns + tile * kTileColumns; },
          [&](int row, int tile, int i, float value) {
            shared().slice[row][kQueryColumn + tile * kTileColumns + i] = value;
          });
      attend_memory(of_layer(problem.memory, l));
      spread<kHeadColumns>(layer.cross_attention.output);
      send_input(layer.cross_attention.norm, layer.feed_forward_norm);
      feed_forward(layer);
      spread<kOwnInner>(layer.outer);
    }
    locate();
    finish();
  }
};

// Lists the rows of this cluster's queries, in their order; returns their number. All rows of a
// query are in one cluster, so that a row finds its parents' keys.
inline __device__ int list_rows(const ClusterStepProblem& problem) {
  const int row_count = problem.status->row_count;
  const int clusters = static_cast<int>(gridDim.x) / kClusterBlocks;
  const int cluster = static_cast<int>(blockIdx.x) / kClusterBlocks;
  int listed = 0;
  for (int begin = 0; begin < row_count; begin += kClusterThreads) {
    const int row = begin + static_cast<int>(threadIdx.x);
    const int query = row < row_count ? problem.rows[row].node.memory : kAbsent;
    const bool mine = query != kAbsent && query % clusters == cluster;
    const unsigned found = __ballot_sync(~0U, mine);
    if (lane_index() == 0) shared().warp_counts[warp_index()] = __popc(found);
    __syncthreads();
    int place = listed + __popc(found & ((1U << lane_index()) - 1));
    for (int warp = 0; warp < kClusterWarps; ++warp) {
      if (warp < warp_index()) place += shared().warp_counts[warp];
      listed += shared().warp_counts[warp];
    }
    if (mine) shared().list[place] = row;
    __syncthreads();
  }
  return listed;
}

// Groups of rows one after the other: parents precede their children.
template <int kInner>
__global__ void __launch_bounds__(kClusterThreads, 1)
    cluster_step_kernel(const __grid_constant__ ClusterStepProblem problem) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  await_previous();
  const int count = list_rows(problem);
  for (int first = 0; first < count; first += kGroupRows) {
    if (first > 0) __syncthreads();  // the rows of the group before have been read
    ClusterStep<kInner> step{{problem, first, min(kGroupRows, count - first)}};
    step.run();
  }
#endif
}

}  // namespace molspec::cuda
