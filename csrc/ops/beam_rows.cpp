#include "ops/beam_rows.h"

#include "ops/check.h"

namespace molspec {

PathRows path_rows_check(const Tensor& path_slots) {
  auto* data = checked_data<int32_t>(path_slots, "path_slots", ScalarType::Int, 3);
  const int64_t beam_size = path_slots.size(1), capacity = path_slots.size(2);
  check(beam_size >= 1 && beam_size <= kWidestBeam && capacity >= 2 && capacity % 2 == 0,
        "path_slots has shape [", path_slots.size(0), ", ", beam_size, ", ", capacity,
        "]: expected [query, 1 to ", kWidestBeam, " lanes, an even number of positions]");
  return {data, beam_size, capacity};
}

BeamAnswers beam_answers_check(const Tensor& answers, const Tensor& path_slots) {
  const PathRows paths = path_rows_check(path_slots);
  auto* data = checked_data<uint8_t>(answers, "answers", ScalarType::Byte, 2);
  const int64_t stride = answers.size(1);
  const int64_t lane = sizeof(BeamPlace) + sizeof(int32_t) * paths.capacity;
  const int64_t lanes = (stride - static_cast<int64_t>(sizeof(BeamAnswer))) / lane;
  const int64_t least = sizeof(BeamAnswer) + paths.beam_size * lane;
  const bool fits = stride == least || stride == least + paths.beam_size * lane;
  check(answers.size(0) == path_slots.size(0) && fits, "answers has shape [", answers.size(0), ", ",
        stride, "]: expected [", path_slots.size(0), ", ", least, " or ",
        least + paths.beam_size * lane, "]");
  return {data, answers.size(0), stride, paths.beam_size, lanes, paths.capacity};
}

}  // namespace molspec
