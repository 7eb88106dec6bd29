#include "cpu/workspace.h"

#include <algorithm>
#include <type_traits>

namespace molspec::cpu {

Workspace Workspace::carve(const Model& model, int64_t rows, int64_t positions, uint8_t* base,
                           int64_t* size) {
  int64_t used = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    using Item = std::remove_reference_t<decltype(*pointer)>;
    pointer = base ? reinterpret_cast<Item*>(base + used) : nullptr;
    used += round_up(count * static_cast<int64_t>(sizeof(Item)), 64);
  };
  const int64_t blocks = round_up(positions, kBlockPositions) / kBlockPositions;
  const int64_t width =
      std::max({model.query_key_value_stride(), model.d_stride(), model.logits_stride()});
  const int64_t widest_input =
      std::max({model.d_stride(), model.attention_stride(), model.feed_forward_stride()});

  Workspace work{};
  take(work.hidden, rows * model.d_stride());
  take(work.normal, rows * model.d_stride());
  take(work.projected, rows * width);
  take(work.context, rows * model.attention_stride());
  take(work.inner, rows * model.feed_forward_stride());
  take(work.rounded, rows * widest_input);
  // A path may touch as many blocks as it has positions.
  take(work.attention, attention_scratch(static_cast<int>(model.head_count), positions, blocks));
  take(work.encoder_cache, blocks * model.block_size());
  take(work.self_keys, rows);
  take(work.memory_keys, rows);
  take(work.lanes, rows * positions);
  take(work.blocks, rows * positions);
  *size = used;
  return work;
}

const Model& read_cpu_model(const Tensor& weights, const Tensor& table) {
  const Model& model = read_model(weights, table);
  check(model.weight_type != WeightType::kFloat16,
        "weights are float16: expected float32 or bfloat16 on the CPU");
  return model;
}

}  // namespace molspec::cpu
