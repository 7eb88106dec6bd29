#include "text/ngram_builder.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "text/ngram.h"

namespace molspec {
namespace {

// Stands in a context that is shorter than the order allows; the alphabet never reaches it.
constexpr uint16_t kNone = 65535;

struct Continuation {
  uint16_t symbol;
  uint8_t code;
};

struct Node {
  uint16_t symbol = 0;
  uint8_t back_off = 0;
  std::vector<Continuation> continuations;
  std::vector<std::unique_ptr<Node>> children;
};

// The largest coded value that is not above `value`.
uint8_t code_below(double value, double scale) {
  const double code = std::ceil(-16.0 * std::log2(value / scale) - 1e-9);
  return static_cast<uint8_t>(std::clamp(code, 0.0, 255.0));
}

bool codable(double probability) { return probability >= std::exp2(-255.0 / 16.0); }

class Trainer {
 public:
  Trainer(const NgramBuildOptions& options, int order, int alphabet_size,
          const std::vector<uint16_t>& contexts, const std::vector<uint16_t>& symbols)
      : options_(options),
        width_(order - 1),
        alphabet_size_(static_cast<size_t>(alphabet_size)),
        contexts_(contexts),
        symbols_(symbols),
        order_of_(symbols.size()) {
    std::iota(order_of_.begin(), order_of_.end(), size_t{0});
    std::sort(order_of_.begin(), order_of_.end(), [this](size_t left, size_t right) {
      const auto width = static_cast<size_t>(width_);
      const uint16_t* a = contexts_.data() + left * width;
      const uint16_t* b = contexts_.data() + right * width;
      const auto [x, y] = std::mismatch(a, a + width, b);
      return x == a + width ? left < right : *x < *y;
    });
  }

  std::unique_ptr<Node> train() const {
    const std::vector<float> uniform(alphabet_size_, 1.0F / static_cast<float>(alphabet_size_));
    return train_node(0, order_of_.size(), 0, 0, uniform);
  }

 private:
  // The context shared by order_of_[begin, end), `depth` symbols long; null where it says nothing
  // that `lower`, the shorter context's distribution, does not say.
  std::unique_ptr<Node> train_node(size_t begin, size_t end, int depth, uint16_t symbol,
                                   const std::vector<float>& lower) const {
    auto node = std::make_unique<Node>();
    node->symbol = symbol;
    const std::vector<float> own = choose_continuations(begin, end, depth, lower, *node);
    if (depth < width_) add_children(begin, end, depth, own, *node);
    const bool useful = depth == 0 || !node->continuations.empty() || !node->children.empty();
    return useful ? std::move(node) : nullptr;
  }

  void add_children(size_t begin, size_t end, int depth, const std::vector<float>& own,
                    Node& node) const {
    size_t first = begin;
    while (first < end) {
      const uint16_t symbol = context_symbol(first, depth);
      size_t last = first + 1;
      while (last < end && context_symbol(last, depth) == symbol) ++last;
      // One observation alone cannot save more than its code costs.
      if (symbol != kNone && last - first > 1) {
        auto child = train_node(first, last, depth + 1, symbol, own);
        if (child) node.children.push_back(std::move(child));
      }
      first = last;
    }
  }

  uint16_t context_symbol(size_t index, int depth) const {
    return contexts_[order_of_[index] * static_cast<size_t>(width_) + static_cast<size_t>(depth)];
  }

  // Returns the node's distribution as the model will read it.
  std::vector<float> choose_continuations(size_t begin, size_t end, int depth,
                                          const std::vector<float>& lower, Node& node) const {
    std::vector<double> counts(alphabet_size_, 0.0);
    for (size_t i = begin; i < end; ++i) counts[symbols_[order_of_[i]]] += 1.0;
    const auto total = static_cast<double>(end - begin);
    const auto types = static_cast<double>(
        std::count_if(counts.begin(), counts.end(), [](double count) { return count > 0; }));
    const double back_off = options_.discount * types / total;
    double kept = 0;
    double backed_off = 0;
    std::vector<float> own(lower);
    for (size_t symbol = 0; symbol < alphabet_size_; ++symbol) {
      const double q = lower[symbol];
      const double p = std::max(counts[symbol] - options_.discount, 0.0) / total + back_off * q;
      const bool keep = codable(p) && (depth == 0 || gain(p, q, total) >= options_.min_gain);
      if (!keep) {
        backed_off += q;
        continue;
      }
      const uint8_t code = code_below(p, 1.0);
      node.continuations.push_back({static_cast<uint16_t>(symbol), code});
      own[symbol] = ngram_probability(code);
      kept += own[symbol];
    }
    if (node.continuations.empty()) {
      node.back_off = code_below(1.0, NgramModel::kMaxBackOff);
      return own;
    }
    node.back_off = code_below(std::max(1.0 - kept, 1e-9) / std::max(backed_off, 1e-9),
                               NgramModel::kMaxBackOff);
    const float weight = NgramModel::kMaxBackOff * ngram_probability(node.back_off);
    size_t next = 0;
    for (size_t symbol = 0; symbol < alphabet_size_; ++symbol) {
      const bool is_kept =
          next < node.continuations.size() && node.continuations[next].symbol == symbol;
      if (is_kept) {
        ++next;
      } else {
        own[symbol] *= weight;
      }
    }
    return own;
  }

  // Bits that the training data saves if a continuation has probability p instead of q.
  static double gain(double p, double q, double total) {
    return total * p * std::fabs(std::log2(p / std::max(q, 1e-6)));
  }

  NgramBuildOptions options_;
  int width_;
  size_t alphabet_size_;
  const std::vector<uint16_t>& contexts_;
  const std::vector<uint16_t>& symbols_;
  std::vector<size_t> order_of_;
};

class ByteWriter {
 public:
  explicit ByteWriter(int alphabet_size) : symbol_bytes_(alphabet_size <= 256 ? 1 : 2) {}

  void number(uint64_t value, int byte_count) {
    for (int i = 0; i < byte_count; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFF);
  }
  void varint(size_t value) {
    for (; value >= 0x80; value >>= 7) number((value & 0x7F) | 0x80, 1);
    number(value, 1);
  }
  void symbol(uint16_t value) { number(value, symbol_bytes_); }
  void text(const std::string& value) { bytes_ += value; }
  std::string finish() {
    number(ngram_hash(bytes_.data(), bytes_.size()), 8);
    return bytes_;
  }

 private:
  int symbol_bytes_;
  std::string bytes_;
};

std::string write(const Node& root, int order, int alphabet_size) {
  std::vector<const Node*> nodes = {&root};
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& child : nodes[i]->children) nodes.push_back(child.get());
  }
  ByteWriter writer(alphabet_size);
  writer.text(NgramModel::kMagic);
  writer.number(static_cast<uint64_t>(order), 1);
  writer.number(static_cast<uint64_t>(alphabet_size), 2);
  writer.number(nodes.size(), 4);
  for (const Node* node : nodes) {
    if (node != &root) writer.symbol(node->symbol);
    writer.varint(node->children.size());
    writer.number(node->back_off, 1);
    writer.varint(node->continuations.size());
    for (const Continuation& continuation : node->continuations) {
      writer.symbol(continuation.symbol);
      writer.number(continuation.code, 1);
    }
  }
  return writer.finish();
}

}  // namespace

NgramBuilder::NgramBuilder(int order, int alphabet_size)
    : order_(order), alphabet_size_(alphabet_size) {
  if (order < 1 || order > NgramModel::kMaxOrder) {
    throw std::invalid_argument("order is " + std::to_string(order) + ": expected 1 to " +
                                std::to_string(NgramModel::kMaxOrder));
  }
  if (alphabet_size < 1 || alphabet_size > NgramModel::kMaxAlphabet) {
    throw std::invalid_argument("alphabet_size is " + std::to_string(alphabet_size) +
                                ": expected 1 to " + std::to_string(NgramModel::kMaxAlphabet));
  }
}

void NgramBuilder::add(const int32_t* context, int context_length, int32_t symbol) {
  const auto check = [this](int32_t value) {
    if (value < 0 || value >= alphabet_size_) {
      throw std::invalid_argument("symbol is " + std::to_string(value) + ": expected 0 to " +
                                  std::to_string(alphabet_size_ - 1));
    }
    return static_cast<uint16_t>(value);
  };
  symbols_.push_back(check(symbol));
  for (int depth = 0; depth < order_ - 1; ++depth) {
    const int index = context_length - 1 - depth;
    contexts_.push_back(index >= 0 ? check(context[index]) : kNone);
  }
}

std::string NgramBuilder::build(const NgramBuildOptions& options) const {
  if (symbols_.empty()) throw std::invalid_argument("no observations to build a model from");
  const Trainer trainer(options, order_, alphabet_size_, contexts_, symbols_);
  return write(*trainer.train(), order_, alphabet_size_);
}

}  // namespace molspec
