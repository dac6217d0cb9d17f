// The storage types of 16 bits, bf16 and IEEE binary16 (f16): conversions, no arithmetic. Operators
// widen to f32, compute there, and round what they store.
//
// Numerics: rounding is to nearest, ties to even, once, from f32 and from f64; subnormals are kept;
//           what rounds beyond the largest number is an infinity; a NaN stays one (quiet, with the
//           upper bits of its payload).
#ifndef PLUMBLINE_BASE_HALF_H_
#define PLUMBLINE_BASE_HALF_H_

#include <bit>
#include <cstdint>

namespace plumbline {

namespace internal {

// The f32 next to x on the side of 0, with its last bit set when that is not x itself (rounding to
// odd). Rounding it again, to a format with at least two bits less, rounds x as if at once.
inline float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (back == x || x != x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (x < 0 ? back < x : back > x) --bits;  // beyond x: one step towards 0
  return std::bit_cast<float>(bits | 1);
}

inline constexpr uint32_t kSignF32 = 0x80000000;
inline constexpr uint32_t kInfinityF32 = 0x7F800000;

}  // namespace internal

// 8 bits of exponent as f32, 8 significant bits.
struct BF16 {
  BF16() = default;
  explicit BF16(float x) {
    const uint32_t from = std::bit_cast<uint32_t>(x);
    const bool nan = (from & ~internal::kSignF32) > internal::kInfinityF32;
    // A tie carries only into an odd last bit.
    const uint32_t rounded = from + 0x7FFF + ((from >> 16) & 1);
    bits = static_cast<uint16_t>((nan ? from | 0x400000 : rounded) >> 16);
  }
  explicit BF16(double x) : BF16(internal::RoundToOdd(x)) {}
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

  uint16_t bits;
};

// 5 bits of exponent, 11 significant bits.
struct F16 {
  F16() = default;
  explicit F16(float x) {
    using internal::kInfinityF32;
    const uint32_t sign = std::bit_cast<uint32_t>(x) & internal::kSignF32;
    const uint32_t from = std::bit_cast<uint32_t>(x) ^ sign;
    // Below 2^-14 the last bit is 2^-24: adding 1/2, whose last bit that is, rounds there.
    const float shifted = std::bit_cast<float>(from) + 0.5f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
    // Else the exponent's bias goes from 127 to 15, and a tie carries only into an odd last bit.
    const uint32_t normal = (from - (112u << 23) + 0xFFF + ((from >> 13) & 1)) >> 13;
    const uint32_t nan = 0x7E00 | ((from >> 13) & 0x3FF);
    const uint32_t number = from < (113u << 23) ? subnormal : normal;
    // 65520 is halfway between the largest number and 2^16.
    const uint32_t finite_or_infinite = from < kRoundsToInfinity ? number : 0x7C00;
    bits = static_cast<uint16_t>(sign >> 16 | (from > kInfinityF32 ? nan : finite_or_infinite));
  }
  explicit F16(double x) : F16(internal::RoundToOdd(x)) {}
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t magnitude = bits & 0x7FFF;
    // The fields move up, and 2^112 mends the bias; a subnormal becomes a normal number on the way.
    const float number = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const uint32_t special = internal::kInfinityF32 | magnitude << 13;  // infinity or NaN
    const uint32_t quiet = magnitude > 0x7C00 ? 0x400000 : 0;
    return std::bit_cast<float>(
        sign | (magnitude < 0x7C00 ? std::bit_cast<uint32_t>(number) : special | quiet));
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

  uint16_t bits;

 private:
  static constexpr uint32_t kRoundsToInfinity = 0x477FF000;  // 65520
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_HALF_H_
