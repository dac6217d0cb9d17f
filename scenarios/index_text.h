// Where an element of a tensor is, for messages.
#ifndef PLUMBLINE_SCENARIOS_INDEX_TEXT_H_
#define PLUMBLINE_SCENARIOS_INDEX_TEXT_H_

#include <cstdint>
#include <string>

#include "base/tensor.h"

namespace plumbline {

// "[3, 0, 5]" of a row-major index; "" of a scalar or of no index (-1).
std::string IndexText(int64_t index, const Shape& shape);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_INDEX_TEXT_H_
