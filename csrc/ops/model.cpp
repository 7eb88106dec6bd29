#include "ops/model.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "ops/check.h"

namespace molspec {
namespace {

// Reads the table from front to back.
class Reader {
 public:
  explicit Reader(const PackedModel& packed) : packed_(packed) {}

  int64_t integer() {
    check(next_ < packed_.table_size, "table has ", packed_.table_size, " entries: expected more");
    return packed_.table[next_++];
  }

  int64_t integer(const char* name, int64_t least, int64_t most) {
    const int64_t value = integer();
    check(value >= least && value <= most, name, " is ", value, ": expected ", least, " to ", most);
    return value;
  }

  double real() {
    const int64_t bits = integer();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  const float* floats(int64_t count) { return static_cast<const float*>(bytes(count * 4)); }

  Linear linear(int64_t in_size, int64_t out_size, WeightType type, bool after_relu = false) {
    Linear result{};
    const bool int8 = type == WeightType::kInt8;
    result.in_size = round_up(in_size, int8 ? 4 : 2);
    check(!int8 || in_size <= kMostInt8Inner, "an int8 matrix has ", in_size,
          " inner positions: expected at most ", kMostInt8Inner);
    result.panels = round_up(out_size, 64) / 64;
    result.weights = bytes(result.in_size * result.panels * 64 *
                           (int8                           ? 1
                            : type == WeightType::kFloat32 ? 4
                                                           : 2));
    result.bias = floats(result.panels * 64);
    if (int8) {
      result.scales = floats(result.panels * 64);
      result.offsets = static_cast<const int32_t*>(bytes(result.panels * 64 * 4));
      if (after_relu)
        result.by_rows = static_cast<const int8_t*>(bytes(result.in_size * result.panels * 64));
    }
    return result;
  }

  LayerNorm norm(int64_t stride) {
    const float* weight = floats(stride);
    return {weight, floats(stride)};
  }

  void end() const {
    check(next_ == packed_.table_size, "table has ", packed_.table_size, " entries: expected ",
          next_);
  }

 private:
  const void* bytes(int64_t count) {
    const int64_t offset = integer();
    check(offset >= 0 && offset % 64 == 0 && offset <= packed_.weights_size - count, "table entry ",
          next_ - 1, " is offset ", offset, ": expected a multiple of 64 that leaves ", count,
          " of ", packed_.weights_size, " bytes");
    return packed_.weights + offset;
  }

  const PackedModel& packed_;
  int64_t next_ = 0;
};

void read_sizes(Reader& reader, Model& model) {
  reader.integer("packing version", kPackingVersion, kPackingVersion);
  model.weight_type = static_cast<WeightType>(reader.integer("weight type", 0, 2));
  model.d_model = reader.integer("d_model", 1, kMostSize);
  model.head_count = reader.integer("head_count", 1, kMostHeads);
  model.head_dim = reader.integer("head_dim", 1, kMostSize);
  model.feed_forward = reader.integer("feed_forward", 1, kMostSize);
  model.encoder.layers.resize(reader.integer("encoder_layers", 1, 1024));
  model.decoder.layers.resize(reader.integer("decoder_layers", 1, 1024));
  model.source_vocab_size = reader.integer("source_vocab_size", 1, kMostSize);
  model.target_vocab_size = reader.integer("target_vocab_size", 1, kMostSize);
  model.max_positions = reader.integer("max_positions", 1, kMostSize);
  model.pre_norm = reader.integer("pre_norm", 0, 1);
  model.final_norm = reader.integer("final_norm", 0, 1);
  model.embedding_norm = reader.integer("embedding_norm", 0, 1);
  model.norm_kind =
      static_cast<NormKind>(reader.integer("norm_kind", 0, std::size(kNormKinds) - 1));
  model.positions =
      static_cast<Positions>(reader.integer("positions", 0, std::size(kPositions) - 1));
  model.rotary_columns = reader.integer("rotary_columns", 0, model.head_dim);
  check(model.rotary_columns % 2 == 0, "rotary_columns is ", model.rotary_columns,
        ": expected an even number");
  model.gated = reader.integer("gated", 0, 1);
  model.activation =
      static_cast<Activation>(reader.integer("activation", 0, std::size(kActivations) - 1));
  model.norm_eps = reader.real();
  model.attention_scale = reader.real();
}

Attention read_attention(Reader& reader, const Model& model, bool cross) {
  const int64_t width = model.attention_width();
  Attention attention{};
  attention.query_key_value =
      reader.linear(model.d_model, cross ? width : 3 * width, model.weight_type);
  if (cross) attention.key_value = reader.linear(model.d_model, 2 * width, model.weight_type);
  attention.output = reader.linear(width, model.d_model, model.weight_type);
  attention.norm = reader.norm(model.d_stride());
  return attention;
}

void read_stack(Reader& reader, const Model& model, int64_t vocab_size, bool cross, Stack& stack) {
  stack.embedding = reader.floats(vocab_size * model.d_stride());
  const auto biases = [&] { return reader.floats(model.head_count * model.relative_stride()); };
  const bool added = model.positions == Positions::kAdded;
  stack.positions = added ? reader.floats(model.max_positions * model.d_stride()) : nullptr;
  const float* shared = model.positions == Positions::kRelative ? biases() : nullptr;
  if (model.embedding_norm) stack.embedding_norm = reader.norm(model.d_stride());
  for (Layer& layer : stack.layers) {
    layer.relative_bias = model.positions == Positions::kRelativeByLayer ? biases() : shared;
    layer.self_attention = read_attention(reader, model, false);
    if (cross) layer.cross_attention = read_attention(reader, model, true);
    if (model.gated)
      layer.gate = reader.linear(model.d_model, model.feed_forward, model.weight_type);
    layer.inner = reader.linear(model.d_model, model.feed_forward, model.weight_type);
    const bool after_relu = !model.gated && model.activation == Activation::kRelu;
    layer.outer = reader.linear(model.feed_forward, model.d_model, model.weight_type, after_relu);
    layer.feed_forward_norm = reader.norm(model.d_stride());
  }
  if (model.final_norm) stack.norm = reader.norm(model.d_stride());
}

}  // namespace

PackedModel packed_check(const Tensor& weights, const Tensor& table) {
  const PackedModel packed{checked_data<const uint8_t>(weights, "weights", 1), weights.numel(),
                           checked_data<const int64_t>(table, "table", 1), table.numel()};
  check_alignment(packed.weights, "weights", kAlignment);
  return packed;
}

const Model& read_model(const PackedModel& packed) {
  thread_local Model model;
  // The buffer and table from which `model` was read: it depends on nothing else.
  thread_local const uint8_t* weights = nullptr;
  thread_local int64_t weights_size = 0;
  thread_local std::vector<int64_t> table;
  const int64_t* end = packed.table + packed.table_size;
  if (weights != nullptr && weights == packed.weights && weights_size == packed.weights_size &&
      std::equal(table.begin(), table.end(), packed.table, end))
    return model;
  weights = nullptr;
  Reader reader(packed);
  read_sizes(reader, model);
  model.rotary =
      model.rotary_columns ? reader.floats(model.max_positions * model.rotary_columns) : nullptr;
  read_stack(reader, model, model.source_vocab_size, false, model.encoder);
  read_stack(reader, model, model.target_vocab_size, true, model.decoder);
  model.output = reader.linear(model.d_model, model.target_vocab_size, model.weight_type);
  reader.end();
  table.assign(packed.table, end);
  weights_size = packed.weights_size;
  weights = packed.weights;
  return model;
}

}  // namespace molspec
