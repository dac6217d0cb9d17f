// Element types of tensors, and the one place where a run-time dtype becomes a C++ type.
#ifndef PLUMBLINE_BASE_DTYPE_H_
#define PLUMBLINE_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/field.h"
#include "base/half.h"

namespace plumbline {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kM61, kP50, kP31 };

size_t SizeOf(DType dtype);
std::string_view Name(DType dtype);  // "f64", "f32", "bf16", "f16", "i64", "m61", "p50", "p31"
bool IsExact(DType dtype);           // a prime field (base/field.h)
bool IsHalf(DType dtype);            // bf16 or f16 (base/half.h)
// What operators compute and sum `dtype` in: f32 for the two halves, itself for the others.
DType ComputeDType(DType dtype);
// Half the distance from 1 to the next number, the largest relative error of one rounding: 2^-53,
// 2^-24, 2^-8 (bf16), 2^-11 (f16). Throws InvalidArgument for the others.
double UnitRoundoff(DType dtype);
DType DTypeFromName(std::string_view name);  // throws InvalidArgument

// DTypeOf<double> is DType::kF64, and so on, for the types that tensors can be read as.
template <class T>
struct DTypeTraits;
template <>
struct DTypeTraits<double> {
  static constexpr DType kDType = DType::kF64;
};
template <>
struct DTypeTraits<float> {
  static constexpr DType kDType = DType::kF32;
};
template <>
struct DTypeTraits<BF16> {
  static constexpr DType kDType = DType::kBF16;
};
template <>
struct DTypeTraits<F16> {
  static constexpr DType kDType = DType::kF16;
};
template <>
struct DTypeTraits<int64_t> {
  static constexpr DType kDType = DType::kI64;
};
template <>
struct DTypeTraits<M61> {
  static constexpr DType kDType = DType::kM61;
};
template <>
struct DTypeTraits<P50> {
  static constexpr DType kDType = DType::kP50;
};
template <>
struct DTypeTraits<P31> {
  static constexpr DType kDType = DType::kP31;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeTraits<T>::kDType;

// Calls `f.template operator()<T>()` with the scalar type that the operators compute `dtype` in. A
// new scalar type is one more line here, one ScalarTraits (base/scalar.h) and one instantiation per
// operator.
//
//   DispatchScalar(x.dtype(), [&]<class T>() { AddImpl<T>(x, y); });
template <class F>
decltype(auto) DispatchScalar(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kM61:
      return f.template operator()<M61>();
    case DType::kP50:
      return f.template operator()<P50>();
    case DType::kP31:
      return f.template operator()<P31>();
    default:
      break;
  }
  throw InvalidArgument("dtype {} has no operators here; expected f64, f32 or a field",
                        Name(dtype));
}

// The same over the types that hold real numbers, for what only converts or copies them:
// static_cast to and from float and double rounds once.
template <class F>
decltype(auto) DispatchReal(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kBF16:
      return f.template operator()<BF16>();
    case DType::kF16:
      return f.template operator()<F16>();
    default:
      break;
  }
  throw InvalidArgument("dtype {} holds no real numbers; expected f64, f32, bf16 or f16",
                        Name(dtype));
}

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_DTYPE_H_
