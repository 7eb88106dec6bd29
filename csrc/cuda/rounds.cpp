#include "cuda/rounds.h"

#include "cuda/stream.h"

namespace molspec::cuda {

Node* step_nodes(const Stream& stream, const Tensor& nodes) {
  auto* data = stream.data<int32_t>(nodes, "nodes", 2);
  check(nodes.size(0) >= 1 && nodes.size(1) == 4, "nodes has shape ", Shape{nodes},
        ": expected [at least 1, 4]");
  return reinterpret_cast<Node*>(data);
}

WindowRows window_rows(const Stream& stream, const Tensor& windows, int64_t query_count) {
  const auto* data = stream.data<const int32_t>(windows, "windows", 2);
  check(windows.size(0) == query_count && windows.size(1) >= 1, "windows has shape ",
        Shape{windows}, ": expected a row a query, ", query_count);
  return {data, windows.size(1)};
}

GuessTensors guess_tensors(const Stream& stream, const Tensor& tables, const Tensor& texts,
                           const Tensor& states, int64_t query_count, int64_t state_count) {
  const GuessTensors guess{stream.data<const uint8_t>(tables, "tables", 1),
                           stream.data<uint8_t>(texts, "texts", 2),
                           stream.data<uint8_t>(states, "states", 3),
                           texts.size(1),
                           states.size(1),
                           states.size(2)};
  constexpr int64_t kHead = sizeof(GuessTables::Head), kTextHead = sizeof(GuessTextRow::Head);
  check(tables.numel() >= kHead, "tables has ", tables.numel(), " bytes: expected at least ",
        kHead);
  check(
      texts.size(0) == query_count && guess.text_stride >= kTextHead && guess.text_stride % 8 == 0,
      "texts has shape ", Shape{texts}, ": expected [", query_count, ", a multiple of 8, at least ",
      kTextHead, "]");
  check(states.size(0) == query_count && guess.state_count == state_count &&
            guess.state_stride >= kGuessPlaceBytes && guess.state_stride % 8 == 0,
        "states has shape ", Shape{states}, ": expected [", query_count, ", ", state_count,
        ", a multiple of 8, at least ", kGuessPlaceBytes, "]");
  return guess;
}

}  // namespace molspec::cuda
