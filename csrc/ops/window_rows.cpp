#include "ops/window_rows.h"

#include "ops/check.h"

namespace molspec {

WindowRows window_rows_check(const Tensor& windows, int64_t query_count) {
  const auto* data = checked_data<const int32_t>(windows, "windows", ScalarType::Int, 2);
  check(windows.size(0) == query_count && windows.size(1) >= 1, "windows has shape [",
        windows.size(0), ", ", windows.size(1), "]: expected a row a query, ", query_count);
  return {data, windows.size(1)};
}

}  // namespace molspec
