#include "cpu/workspace.h"

#include <algorithm>
#include <type_traits>

namespace molspec::cpu {
namespace {

// Calls visit(array, columns) for every array that has a part for each row.
template <typename Visit>
void each_row_array(Workspace& work, const Model& model, const Visit& visit) {
  visit(work.hidden, model.d_stride());
  visit(work.normal, model.d_stride());
  visit(work.projected,
        std::max({model.query_key_value_stride(), model.d_stride(), model.logits_stride()}));
  visit(work.context, model.attention_stride());
  visit(work.inner, model.feed_forward_stride());
  // Rounded inputs are bytes, bfloat16, or floats where the processor multiplies those.
  visit(work.rounded,
        4 * std::max({model.d_stride(), model.attention_stride(), model.feed_forward_stride()}));
  visit(work.row_scales, 1);
  visit(work.self_keys, 1);
  visit(work.memory_keys, 1);
  visit(work.slots, 1);
  visit(work.lanes, work.positions);
  visit(work.blocks, work.positions);
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
  each_row_array(work, model, [&](auto*& array, int64_t columns) { take(array, rows * columns); });
  take(work.encoder_cache, 2 * blocks * model.block_size());
  *size = used;
  return work;
}

Workspace Workspace::from_row(const Model& model, int64_t row) const {
  Workspace part = *this;
  each_row_array(part, model, [&](auto*& array, int64_t columns) { array += row * columns; });
  return part;
}

const Model& read_cpu_model(const PackedModel& packed) {
  const Model& model = read_model(packed);
  check(model.weight_type != WeightType::kFloat16,
        "weights are float16: expected float32, bfloat16 or int8 on the CPU");
  return model;
}

}  // namespace molspec::cpu
