#include "cpu/workspace.h"

#include <algorithm>
#include <type_traits>

namespace molspec::cpu {
namespace {

int64_t projected_width(const Model& model) {
  return std::max({model.query_key_value_stride(), model.d_stride(), model.logits_stride()});
}

// Rounded inputs are bytes, bfloat16, or floats where the processor multiplies those.
int64_t rounded_bytes(const Model& model) {
  return 4 * std::max({model.d_stride(), model.attention_stride(), model.feed_forward_stride()});
}

}  // namespace

Workspace Workspace::carve(const Model& model, int64_t rows, int64_t positions, uint8_t* base,
                           int64_t* size) {
  int64_t used = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    using Item = std::remove_reference_t<decltype(*pointer)>;
    pointer = base ? reinterpret_cast<Item*>(base + used) : nullptr;
    used += round_up(count * static_cast<int64_t>(sizeof(Item)), 64);
  };
  const int64_t blocks = round_up(positions, kBlockPositions) / kBlockPositions;

  Workspace work{};
  work.positions = positions;
  take(work.hidden, rows * model.d_stride());
  take(work.normal, rows * model.d_stride());
  take(work.projected, rows * projected_width(model));
  take(work.context, rows * model.attention_stride());
  take(work.inner, rows * model.feed_forward_stride());
  take(work.rounded, rows * rounded_bytes(model));
  take(work.row_scales, rows);
  take(work.encoder_cache, 2 * blocks * model.block_size());
  take(work.self_keys, rows);
  take(work.memory_keys, rows);
  take(work.slots, rows);
  take(work.lanes, rows * positions);
  take(work.blocks, rows * positions);
  *size = used;
  return work;
}

Workspace Workspace::from_row(const Model& model, int64_t row) const {
  Workspace part = *this;
  part.hidden += row * model.d_stride();
  part.normal += row * model.d_stride();
  part.projected += row * projected_width(model);
  part.context += row * model.attention_stride();
  part.inner += row * model.feed_forward_stride();
  part.rounded += row * rounded_bytes(model);
  part.row_scales += row;
  part.self_keys += row;
  part.memory_keys += row;
  part.slots += row;
  part.lanes += row * positions;
  part.blocks += row * positions;
  return part;
}

const Model& read_cpu_model(const PackedModel& packed) {
  const Model& model = read_model(packed);
  check(model.weight_type != WeightType::kFloat16,
        "weights are float16: expected float32, bfloat16 or int8 on the CPU");
  return model;
}

}  // namespace molspec::cpu
