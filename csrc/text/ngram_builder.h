// Trains the n-gram models of ngram.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace molspec {

struct NgramBuildOptions {
  // Subtracted from every count and given to the shorter context (absolute discounting, Ney 1994).
  double discount = 0.6;
  // A continuation is kept where it saves the training data at least so many bits. The knob for
  // the model's size.
  double min_gain = 20;
};

// Counts what follows which context, then writes the model. Deterministic: the result depends on
// the set of observations alone.
class NgramBuilder {
 public:
  // Throws std::invalid_argument, naming the argument, where one makes no sense.
  NgramBuilder(int order, int alphabet_size);

  // One observation: `symbol` came behind `context`, whose last symbol is the newest.
  void add(const int32_t* context, int context_length, int32_t symbol);
  int64_t observation_count() const { return static_cast<int64_t>(symbols_.size()); }

  // The bytes of an ngram.bin. Throws std::invalid_argument without observations.
  std::string build(const NgramBuildOptions& options) const;

 private:
  int order_;
  int alphabet_size_;
  std::vector<uint16_t> symbols_;
  std::vector<uint16_t> contexts_;  // [observation][order - 1], newest first
};

}  // namespace molspec
