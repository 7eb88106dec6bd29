#include "ops/guess_tensors.h"

#include "ops/check.h"

namespace molspec {

GuessTensors guess_tensors_check(const Tensor& tables, const Tensor& texts, const Tensor& states,
                                 int64_t query_count, int64_t state_count) {
  GuessTensors guess{};
  guess.tables = checked_data<const uint8_t>(tables, "tables", ScalarType::Byte, 1);
  constexpr auto kHead = static_cast<int64_t>(sizeof(GuessTables::Head));
  check(tables.numel() >= kHead, "tables has ", tables.numel(), " bytes: expected at least ",
        kHead);
  guess.texts = checked_data<uint8_t>(texts, "texts", ScalarType::Byte, 2);
  guess.text_stride = texts.size(1);
  constexpr auto kTextHead = static_cast<int64_t>(sizeof(GuessTextRow::Head));
  check(
      texts.size(0) == query_count && guess.text_stride >= kTextHead && guess.text_stride % 8 == 0,
      "texts has shape [", texts.size(0), ", ", guess.text_stride, "]: expected [", query_count,
      ", a multiple of 8, at least ", kTextHead, "]");
  guess.states = checked_data<uint8_t>(states, "states", ScalarType::Byte, 3);
  guess.state_count = states.size(1);
  guess.state_stride = states.size(2);
  check(states.size(0) == query_count && guess.state_count == state_count &&
            guess.state_stride >= kGuessPlaceBytes && guess.state_stride % 8 == 0,
        "states has shape [", states.size(0), ", ", guess.state_count, ", ", guess.state_stride,
        "]: expected [", query_count, ", ", state_count, ", a multiple of 8, at least ",
        kGuessPlaceBytes, "]");
  return guess;
}

}  // namespace molspec
