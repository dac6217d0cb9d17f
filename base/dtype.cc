#include "base/dtype.h"

#include <array>

namespace plumbline {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<Row, 5> kRows = {{{DType::kF64, "f64", 8},
                                       {DType::kF32, "f32", 4},
                                       {DType::kBF16, "bf16", 2},
                                       {DType::kF16, "f16", 2},
                                       {DType::kI64, "i64", 8}}};

const Row& Find(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  throw Internal("dtype {} is not in the table", static_cast<int>(dtype));
}

}  // namespace

size_t SizeOf(DType dtype) { return Find(dtype).bytes; }

std::string_view Name(DType dtype) { return Find(dtype).name; }

DType DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  throw InvalidArgument("unknown dtype '{}'; expected f64, f32, bf16, f16 or i64", name);
}

}  // namespace plumbline
