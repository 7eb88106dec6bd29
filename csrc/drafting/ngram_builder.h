// Trains the models of ngram.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace molspec {

struct NgramBuildOptions {
  // Subtracted from every count and given to the shorter context (absolute discounting, Ney 1994).
  double discount;
  // A continuation is listed if it saves at least so many bits on the observations: this decides
  // the model's size.
  double min_gain;
  // Written into the model, see NgramModel::rewrites.
  bool rewrites;
};

// Collects observations, then writes the model. The result does not depend on their order.
class NgramBuilder {
 public:
  // Throws std::invalid_argument, naming the argument, if a value is invalid.
  NgramBuilder(int order, int alphabet_size);

  // One observation: `symbol` after `context`, of which the last order - 1 symbols count.
  void add(const std::vector<int32_t>& context, int32_t symbol);

  // The bytes of an ngram.bin. Throws std::invalid_argument if there were no observations.
  std::string build(const NgramBuildOptions& options) const;

 private:
  uint16_t checked(int32_t symbol) const;

  int order_;
  int alphabet_size_;
  std::vector<uint16_t> symbols_;
  std::vector<uint16_t> contexts_;  // [observation][order - 1], last symbol first
};

}  // namespace molspec
