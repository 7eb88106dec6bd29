#include "drafting/ngram_builder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "common/require.h"
#include "drafting/ngram.h"
#include "drafting/ngram_file.h"

namespace molspec {
namespace {

// Fills contexts that are shorter than the order allows; it is above every symbol.
constexpr uint16_t kNone = 65535;

struct Node {
  uint16_t symbol = 0;
  uint8_t back_off = 0;
  std::vector<NgramContinuation> continuations;
  std::vector<std::unique_ptr<Node>> children;
};

// A model's probability of every symbol after one context, as a reader will compute it.
using Distribution = std::vector<float>;

// The code of the largest value that is not above `value`, in units of `scale`.
uint8_t code_below(double value, double scale) {
  const double code = std::ceil(-16.0 * std::log2(value / scale) - 1e-9);
  return static_cast<uint8_t>(std::clamp(code, 0.0, 255.0));
}

bool codable(double probability) { return probability >= std::exp2(-255.0 / 16.0); }

// Observations as rows of a matrix: order - 1 context symbols each, and the symbol after them.
struct Observations {
  const std::vector<uint16_t>& contexts;
  const std::vector<uint16_t>& symbols;
  size_t width;

  const uint16_t* context(size_t row) const { return contexts.data() + row * width; }
};

std::vector<size_t> sorted_rows(const Observations& observations) {
  std::vector<size_t> rows(observations.symbols.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  std::sort(rows.begin(), rows.end(), [&](size_t left, size_t right) {
    const uint16_t* a = observations.context(left);
    const uint16_t* b = observations.context(right);
    return std::lexicographical_compare(a, a + observations.width, b, b + observations.width);
  });
  return rows;
}

class Trainer {
 public:
  Trainer(const NgramBuildOptions& options, size_t alphabet_size, const Observations& observations)
      : options_(options),
        alphabet_size_(alphabet_size),
        observations_(observations),
        rows_(sorted_rows(observations)) {}

  std::unique_ptr<Node> train() const {
    const Distribution uniform(alphabet_size_, 1.0F / static_cast<float>(alphabet_size_));
    return train_node({0, rows_.size(), 0}, 0, uniform);
  }

 private:
  // The rows whose contexts agree in their first `depth` symbols.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };

  // Null if the context adds nothing to the next shorter one, `lower`.
  std::unique_ptr<Node> train_node(const Range& range, uint16_t symbol,
                                   const Distribution& lower) const {
    auto node = std::make_unique<Node>();
    node->symbol = symbol;
    choose_continuations(range, lower, *node);
    if (range.depth < observations_.width) add_children(range, read_back(*node, lower), *node);
    const bool useful = range.depth == 0 || !node->continuations.empty() || !node->children.empty();
    return useful ? std::move(node) : nullptr;
  }

  void add_children(const Range& range, const Distribution& own, Node& node) const {
    const auto symbol_of = [&](size_t i) { return observations_.context(rows_[i])[range.depth]; };
    for (size_t begin = range.begin, end = begin; begin < range.end; begin = end) {
      const uint16_t symbol = symbol_of(begin);
      while (end < range.end && symbol_of(end) == symbol) ++end;
      if (symbol == kNone || end - begin == 1) continue;  // a single observation may be chance
      auto child = train_node({begin, end, range.depth + 1}, symbol, own);
      if (child) node.children.push_back(std::move(child));
    }
  }

  void choose_continuations(const Range& range, const Distribution& lower, Node& node) const {
    std::vector<double> counts(alphabet_size_, 0.0);
    for (size_t i = range.begin; i < range.end; ++i) counts[observations_.symbols[rows_[i]]] += 1;
    const auto total = static_cast<double>(range.end - range.begin);
    const auto types = static_cast<double>(
        std::count_if(counts.begin(), counts.end(), [](double count) { return count > 0; }));
    const double lower_weight = options_.discount * types / total;
    double kept = 0;
    double backed_off = 0;
    for (size_t symbol = 0; symbol < alphabet_size_; ++symbol) {
      const double q = lower[symbol];
      const double p = std::max(counts[symbol] - options_.discount, 0.0) / total + lower_weight * q;
      const bool keep = range.depth == 0 || gain(p, q, total) >= options_.min_gain;
      if (keep && codable(p)) {
        const uint8_t code = code_below(p, 1.0);
        node.continuations.push_back({static_cast<uint16_t>(symbol), code});
        kept += coded_probability(code);
      } else {
        backed_off += q;
      }
    }
    const double back_off =
        node.continuations.empty() ? 1.0 : std::max(1.0 - kept, 1e-9) / std::max(backed_off, 1e-9);
    node.back_off = code_below(back_off, kMaxBackOff);
  }

  // Bits that the observations save if a continuation has probability p instead of q.
  static double gain(double p, double q, double total) {
    return total * p * std::fabs(std::log2(p / std::max(q, 1e-6)));
  }

  static Distribution read_back(const Node& node, const Distribution& lower) {
    Distribution own(lower);
    const float back_off = kMaxBackOff * coded_probability(node.back_off);
    for (float& probability : own) probability *= back_off;
    for (const NgramContinuation& continuation : node.continuations) {
      own[continuation.symbol] = coded_probability(continuation.code);
    }
    return own;
  }

  NgramBuildOptions options_;
  size_t alphabet_size_;
  Observations observations_;
  std::vector<size_t> rows_;
};

std::vector<const Node*> breadth_first(const Node& root) {
  std::vector<const Node*> nodes = {&root};
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const auto& child : nodes[i]->children) nodes.push_back(child.get());
  return nodes;
}

std::string write(const Node& root, int order, int alphabet_size, bool rewrites) {
  const std::vector<const Node*> nodes = breadth_first(root);
  const int width = symbol_bytes(alphabet_size);
  NgramWriter writer;
  writer.text(kNgramMagic);
  writer.number(static_cast<uint64_t>(order), 1);
  writer.number(rewrites ? 1 : 0, 1);
  writer.number(static_cast<uint64_t>(alphabet_size), 2);
  writer.number(nodes.size(), 4);
  for (const Node* node : nodes) {
    if (node != &root) writer.number(node->symbol, width);
    writer.varint(static_cast<uint32_t>(node->children.size()));
    writer.number(node->back_off, 1);
    writer.varint(static_cast<uint32_t>(node->continuations.size()));
    for (const NgramContinuation& continuation : node->continuations) {
      writer.number(continuation.symbol, width);
      writer.number(continuation.code, 1);
    }
  }
  return writer.finish();
}

}  // namespace

NgramBuilder::NgramBuilder(int order, int alphabet_size)
    : order_(order), alphabet_size_(alphabet_size) {
  require(order >= 1 && order <= NgramModel::kMaxOrder, "order", order, "1 to ",
          NgramModel::kMaxOrder);
  require(alphabet_size >= 1 && alphabet_size <= NgramModel::kMaxAlphabet, "alphabet_size",
          alphabet_size, "1 to ", NgramModel::kMaxAlphabet);
}

uint16_t NgramBuilder::checked(int32_t symbol) const {
  require(symbol >= 0 && symbol < alphabet_size_, "symbol", symbol, "0 to ", alphabet_size_ - 1);
  return static_cast<uint16_t>(symbol);
}

void NgramBuilder::add(const std::vector<int32_t>& context, int32_t symbol) {
  const uint16_t next = checked(symbol);
  std::vector<uint16_t> row;  // checked whole, before anything changes
  auto newest = context.rbegin();
  for (int depth = 0; depth < order_ - 1; ++depth)
    row.push_back(newest != context.rend() ? checked(*newest++) : kNone);
  contexts_.insert(contexts_.end(), row.begin(), row.end());
  symbols_.push_back(next);
}

std::string NgramBuilder::build(const NgramBuildOptions& options) const {
  if (symbols_.empty()) throw_invalid("no observations to build a model from");
  require(options.discount >= 0 && options.discount < 1, "discount", options.discount,
          "at least 0 and less than 1");
  const Observations observations{contexts_, symbols_, static_cast<size_t>(order_ - 1)};
  const Trainer trainer(options, static_cast<size_t>(alphabet_size_), observations);
  return write(*trainer.train(), order_, alphabet_size_, options.rewrites);
}

}  // namespace molspec
