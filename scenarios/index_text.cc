#include "scenarios/index_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace plumbline {

std::string IndexText(int64_t index, const Shape& shape) {
  if (index < 0 || shape.empty()) return "";
  std::vector<int64_t> coordinates(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    coordinates[d] = index % shape[d];
    index /= shape[d];
  }
  return fmt::format("[{}]", fmt::join(coordinates, ", "));
}

}  // namespace plumbline
