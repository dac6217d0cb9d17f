#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"

namespace plumbline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
struct Format;
template <>
struct Format<BF16> {
  static constexpr int kFractionBits = 7;
  static constexpr int kBias = 127;
  static constexpr uint16_t kInfinityBits = 0x7F80;
};
template <>
struct Format<F16> {
  static constexpr int kFractionBits = 10;
  static constexpr int kBias = 15;
  static constexpr uint16_t kInfinityBits = 0x7C00;
};

template <class T>
T FromBits(int bits) {
  return std::bit_cast<T>(static_cast<uint16_t>(bits));
}

// The number that IEEE 754 gives to a pattern without its sign, infinity as the next power of two.
template <class T>
double Magnitude(int bits) {
  const int fraction = bits & ((1 << Format<T>::kFractionBits) - 1);
  const int exponent = bits >> Format<T>::kFractionBits;
  const int significand = exponent == 0 ? fraction : fraction + (1 << Format<T>::kFractionBits);
  const int scale = (exponent == 0 ? 1 : exponent) - Format<T>::kBias - Format<T>::kFractionBits;
  return std::ldexp(significand, scale);
}

template <class T>
class HalfTest : public ::testing::Test {};

struct HalfNames {
  template <class T>
  static std::string GetName(int) {
    return std::string(Name(kDTypeOf<T>));
  }
};
using Halves = ::testing::Types<BF16, F16>;
TYPED_TEST_SUITE(HalfTest, Halves, HalfNames);

TYPED_TEST(HalfTest, EveryPatternHasItsValue) {
  using T = TypeParam;
  constexpr int kInfinityBits = Format<T>::kInfinityBits;
  for (int bits = 0; bits < kInfinityBits; ++bits) {
    const double value = Magnitude<T>(bits);
    ASSERT_EQ(static_cast<double>(static_cast<float>(FromBits<T>(bits))), value) << bits;
    ASSERT_EQ(static_cast<double>(FromBits<T>(bits | 0x8000)), -value) << bits;
    ASSERT_EQ(std::signbit(static_cast<float>(FromBits<T>(bits | 0x8000))), true) << bits;
  }
  EXPECT_EQ(static_cast<double>(FromBits<T>(kInfinityBits)), kInfinity);
  EXPECT_EQ(static_cast<double>(FromBits<T>(kInfinityBits | 0x8000)), -kInfinity);
  for (int bits = kInfinityBits + 1; bits < 0x8000; ++bits) {
    ASSERT_TRUE(std::isnan(static_cast<float>(FromBits<T>(bits)))) << bits;
    ASSERT_TRUE(std::isnan(static_cast<float>(FromBits<T>(bits | 0x8000)))) << bits;
  }
}

TYPED_TEST(HalfTest, EveryPatternComesBack) {
  using T = TypeParam;
  const int quiet = 1 << (Format<T>::kFractionBits - 1);
  for (int bits = 0; bits < 0x10000; ++bits) {
    const T x = FromBits<T>(bits);
    const bool nan = (bits & 0x7FFF) > Format<T>::kInfinityBits;
    const int expected = nan ? bits | quiet : bits;
    ASSERT_EQ(T(static_cast<float>(x)).bits, expected) << bits;
    ASSERT_EQ(T(static_cast<double>(x)).bits, expected) << bits;
  }
}

// The one above the largest number counts as 2^k: from halfway on, numbers round to infinity.
TYPED_TEST(HalfTest, BetweenNeighboursTheNearerWinsAndTiesGoToEven) {
  using T = TypeParam;
  for (int low = 0; low < Format<T>::kInfinityBits; ++low) {
    const int high = low + 1;
    const double middle = (Magnitude<T>(low) + Magnitude<T>(high)) / 2;
    const int even = low % 2 == 0 ? low : high;
    for (int sign : {0, 0x8000}) {
      const double s = sign == 0 ? 1 : -1;
      ASSERT_EQ(T(s * middle).bits, sign | even) << low;
      ASSERT_EQ(T(s * std::nextafter(middle, 0.0)).bits, sign | low) << low;
      ASSERT_EQ(T(s * std::nextafter(middle, kInfinity)).bits, sign | high) << low;
      const float narrow = static_cast<float>(s * middle);
      ASSERT_EQ(static_cast<double>(narrow), s * middle);
      ASSERT_EQ(T(narrow).bits, sign | even) << low;
      ASSERT_EQ(T(std::nextafter(narrow, 0.0f)).bits, sign | low) << low;
      ASSERT_EQ(T(std::nextafter(narrow, static_cast<float>(s * kInfinity))).bits, sign | high)
          << low;
    }
  }
}

// f64 -> f32 -> 16 bits would round a number just above a tie to the tie, and that to even.
TYPED_TEST(HalfTest, DoublesRoundOnce) {
  using T = TypeParam;
  const double unit = UnitRoundoff(kDTypeOf<T>);
  const double above = 1 + unit + 0x1p-40;
  EXPECT_EQ(static_cast<double>(T(above)), 1 + 2 * unit);
  EXPECT_EQ(static_cast<double>(T(static_cast<float>(above))), 1);
  EXPECT_EQ(static_cast<double>(T(-above)), -1 - 2 * unit);
  EXPECT_EQ(static_cast<double>(T(std::numeric_limits<double>::max())), kInfinity);
  EXPECT_EQ(static_cast<double>(T(-std::numeric_limits<double>::max())), -kInfinity);
  EXPECT_EQ(T(std::numeric_limits<double>::denorm_min()).bits, 0);
  EXPECT_EQ(T(-std::numeric_limits<double>::denorm_min()).bits, 0x8000);
}

TYPED_TEST(HalfTest, NaNKeepsItsSignAndUpperPayload) {
  using T = TypeParam;
  const int dropped = 23 - Format<T>::kFractionBits;
  const int quiet = 1 << (Format<T>::kFractionBits - 1);
  for (uint32_t payload : {1u, 0x200000u, 0x2AAAAAu, 0x400000u, 0x7FFFFFu}) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7F800000 | payload);
      EXPECT_EQ(T(nan).bits, static_cast<uint16_t>(sign >> 16 | Format<T>::kInfinityBits | quiet |
                                                   payload >> dropped));
    }
  }
}

// The compiler's own binary16, in hardware or in its library: every 251st f32.
TEST(F16Test, AgreesWithTheCompilersType) {
  for (uint64_t step = 0; step < (uint64_t{1} << 32); step += 251) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(step));
    const uint16_t expected = std::bit_cast<uint16_t>(static_cast<_Float16>(x));
    ASSERT_EQ(F16(x).bits, expected) << x;
  }
}

}  // namespace
}  // namespace plumbline
