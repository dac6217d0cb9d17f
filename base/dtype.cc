#include "base/dtype.h"

#include <array>

namespace plumbline {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<Row, 8> kRows = {{{DType::kF64, "f64", 8},
                                       {DType::kF32, "f32", 4},
                                       {DType::kBF16, "bf16", 2},
                                       {DType::kF16, "f16", 2},
                                       {DType::kI64, "i64", 8},
                                       {DType::kM61, "m61", 8},
                                       {DType::kP50, "p50", 8},
                                       {DType::kP31, "p31", 8}}};

const Row& Find(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  throw Internal("dtype {} is not in the table", static_cast<int>(dtype));
}

}  // namespace

size_t SizeOf(DType dtype) { return Find(dtype).bytes; }

bool IsExact(DType dtype) {
  return dtype == DType::kM61 || dtype == DType::kP50 || dtype == DType::kP31;
}

bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

DType ComputeDType(DType dtype) { return IsHalf(dtype) ? DType::kF32 : dtype; }

double UnitRoundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      throw InvalidArgument("dtype {} does not round", Name(dtype));
  }
}

std::string_view Name(DType dtype) { return Find(dtype).name; }

DType DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  throw InvalidArgument("unknown dtype '{}'; expected f64, f32, bf16, f16, i64, m61, p50 or p31",
                        name);
}

}  // namespace plumbline
