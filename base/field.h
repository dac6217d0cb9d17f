// Prime fields as scalars: the arithmetic of exact mode.
//
// A training step runs over residues modulo one prime. + - * / are the field's; exponentials act on
// Scores, which are exponents modulo p - 1 of a primitive root; every other elementary function is
// a keyed pseudo-random function of its argument. Two programs that compute the same formula agree
// in every residue; two that do not agree with a chance of about (degree / p) per key.
// docs/exact_mode.md has the recipe and what it cannot see.
//
// Three fields: M61, p = 2^61 - 1, the default; P50, p = 1125899906842463 (a safe prime), whose
// products run on AVX-512 IFMA where the CPU has it; P31, any prime below 2^31, chosen at run time.
//
// Numerics: residues are canonical, 0 <= v < p, so equal values have equal bytes. Dividing by 0
// gives 0 and is counted:
//           the run is void and must be repeated with another key.
// Source:   the argument is Schwartz and Zippel's lemma; M61 reduction as in any text on Mersenne
// primes.
#ifndef PLUMBLINE_BASE_FIELD_H_
#define PLUMBLINE_BASE_FIELD_H_

#include <cstdint>
#include <span>

#include "base/scalar.h"

namespace plumbline {

// The key of the pseudo-random functions, the small prime, and the count of divisions by 0: one set
// per thread, shared by the reference and the ranks of a world. Set it before a run.
struct FieldRun {
  uint64_t key = 0;
  int64_t divisions_by_zero = 0;
};
FieldRun& CurrentFieldRun();

// The closed list of uninterpreted functions.
enum class FieldFunction : uint8_t {
  kSqrt,
  kSigmoid,
  kTanh,
  kNormalCdf,
  kNormalPdf,
  kLog,
  kClip,
  kRelu,
  kStep,
  kScore,
  kRotary,
  kInit
};

namespace field_internal {

// 64 random-looking bits of (key, function, argument).
uint64_t KeyedHash(FieldFunction function, uint64_t argument);
// A uniform number below `bound` from 64 uniform bits (bias below bound / 2^64).
inline uint64_t Below(uint64_t bits, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

inline constexpr uint64_t kM61 = (uint64_t{1} << 61) - 1;
inline constexpr uint64_t kP50 = 1125899906842463;

// Parameters of the field whose prime is chosen at run time.
struct SmallPrime {
  uint64_t prime;
  uint64_t root;        // a primitive root
  uint64_t reciprocal;  // floor(2^64 / prime), for Barrett reduction
};
const SmallPrime& CurrentSmallPrime();

struct M61Rules {
  static constexpr uint64_t kMaxPrime = kM61;
  static uint64_t Prime() { return kM61; }
  static uint64_t Root() { return 37; }
  static uint64_t Reduce(unsigned __int128 x) {
    const uint64_t folded = (static_cast<uint64_t>(x) & kM61) +
                            static_cast<uint64_t>((x >> 61) & kM61) +
                            static_cast<uint64_t>(x >> 122);
    const uint64_t once = (folded & kM61) + (folded >> 61);
    return once >= kM61 ? once - kM61 : once;
  }
  static uint64_t Multiply(uint64_t a, uint64_t b) {
    const unsigned __int128 x = static_cast<unsigned __int128>(a) * b;
    const uint64_t sum = (static_cast<uint64_t>(x) & kM61) + static_cast<uint64_t>(x >> 61);
    return sum >= kM61 ? sum - kM61 : sum;
  }
};

struct P50Rules {
  static constexpr uint64_t kMaxPrime = kP50;
  static uint64_t Prime() { return kP50; }
  static uint64_t Root() { return 5; }
  static uint64_t Reduce(unsigned __int128 x) { return static_cast<uint64_t>(x % kP50); }
  // 2^50 = kGap modulo p, so two folds bring a 100-bit product below 2^51.
  static uint64_t Multiply(uint64_t a, uint64_t b) {
    constexpr uint64_t kGap = (uint64_t{1} << 50) - kP50;
    constexpr uint64_t kMask = (uint64_t{1} << 50) - 1;
    const unsigned __int128 x = static_cast<unsigned __int128>(a) * b;
    const unsigned __int128 y =
        (static_cast<uint64_t>(x) & kMask) + static_cast<unsigned __int128>(x >> 50) * kGap;
    const uint64_t z = (static_cast<uint64_t>(y) & kMask) + static_cast<uint64_t>(y >> 50) * kGap;
    const uint64_t once = z >= kP50 ? z - kP50 : z;
    return once >= kP50 ? once - kP50 : once;
  }
};

struct P31Rules {
  static constexpr uint64_t kMaxPrime = (uint64_t{1} << 31) - 1;
  static uint64_t Prime() { return CurrentSmallPrime().prime; }
  static uint64_t Root() { return CurrentSmallPrime().root; }
  static uint64_t Reduce(unsigned __int128 x) {
    return static_cast<uint64_t>(x % CurrentSmallPrime().prime);
  }
  static uint64_t Multiply(uint64_t a, uint64_t b) {
    const SmallPrime& small = CurrentSmallPrime();
    const uint64_t x = a * b;
    const uint64_t quotient =
        static_cast<uint64_t>((static_cast<unsigned __int128>(x) * small.reciprocal) >> 64);
    uint64_t rest = x - quotient * small.prime;
    if (rest >= small.prime) rest -= small.prime;
    return rest >= small.prime ? rest - small.prime : rest;
  }
};

}  // namespace field_internal

// Chooses the prime of P31 for this thread. Throws InvalidArgument when `prime` is no prime in [5,
// 2^31).
void SetSmallPrime(uint64_t prime);

template <class Rules>
struct Field {
  uint64_t v = 0;

  static uint64_t prime() { return Rules::Prime(); }
  // Residue of a wide sum of products; for lazily reduced inner products.
  static Field Reduce(unsigned __int128 x) { return {Rules::Reduce(x)}; }
  // How many products of canonical residues fit one 128-bit sum.
  static constexpr int64_t kLazyTerms = [] {
    const unsigned __int128 square =
        static_cast<unsigned __int128>(Rules::kMaxPrime - 1) * (Rules::kMaxPrime - 1);
    const unsigned __int128 fit = ~static_cast<unsigned __int128>(0) / square;
    return static_cast<int64_t>(fit > (1 << 20) ? (1 << 20) : fit);
  }();

  friend Field operator+(Field a, Field b) {
    const uint64_t sum = a.v + b.v;
    return {sum >= prime() ? sum - prime() : sum};
  }
  friend Field operator-(Field a, Field b) {
    return {a.v >= b.v ? a.v - b.v : a.v + prime() - b.v};
  }
  friend Field operator-(Field a) { return {a.v == 0 ? 0 : prime() - a.v}; }
  friend Field operator*(Field a, Field b) { return {Rules::Multiply(a.v, b.v)}; }
  friend Field operator/(Field a, Field b) { return a * Inverse(b); }
  Field& operator+=(Field b) { return *this = *this + b; }
  Field& operator-=(Field b) { return *this = *this - b; }
  Field& operator*=(Field b) { return *this = *this * b; }
  Field& operator/=(Field b) { return *this = *this / b; }
  friend bool operator==(Field a, Field b) { return a.v == b.v; }

  // 1 / a by extended Euclid; 0 is counted and gives 0.
  static Field Inverse(Field a);
};

using M61 = Field<field_internal::M61Rules>;
using P50 = Field<field_internal::P50Rules>;
using P31 = Field<field_internal::P31Rules>;

extern template struct Field<field_internal::M61Rules>;
extern template struct Field<field_internal::P50Rules>;
extern template struct Field<field_internal::P31Rules>;

template <class T>
struct IsFieldTrait {
  static constexpr bool value = false;
};
template <class Rules>
struct IsFieldTrait<Field<Rules>> {
  static constexpr bool value = true;
};
template <class T>
inline constexpr bool kIsField = IsFieldTrait<T>::value;

template <class Rules>
struct ScalarTraits<Field<Rules>> {
  using T = Field<Rules>;

  // An exponent modulo p - 1, or kLowest. Ordered as integers; the lowest is below all.
  struct Score {
    int64_t exponent;
  };
  // z = sum of exponentials, and 1 / z; its log is never formed but by Log.
  struct LogSum {
    T sum;
    T inverse;
  };
  static constexpr int64_t kLowest = -1;

  static T FromInt(int64_t n) {
    const int64_t p = static_cast<int64_t>(T::prime());
    const int64_t rest = n % p;
    return {static_cast<uint64_t>(rest < 0 ? rest + p : rest)};
  }
  // The exact dyadic value of a literal, m * 2^e.
  static T FromDouble(double literal);
  // For printing only.
  static double ToDouble(T x) { return static_cast<double>(x.v); }

  static T Sqrt(T x) { return NonZero(FieldFunction::kSqrt, x.v); }
  static T Sigmoid(T x) { return Any(FieldFunction::kSigmoid, x.v); }
  static T Tanh(T x) { return Any(FieldFunction::kTanh, x.v); }
  static T NormalCdf(T x) { return Any(FieldFunction::kNormalCdf, x.v); }
  static T NormalPdf(T x) { return Any(FieldFunction::kNormalPdf, x.v); }
  static T ClipCoefficient(T max_norm, T norm) {
    return Any(FieldFunction::kClip, (max_norm / (norm + FromDouble(1e-6))).v);
  }
  static T Relu(T x) { return Any(FieldFunction::kRelu, x.v); }
  static T Step(T x) { return Any(FieldFunction::kStep, x.v); }

  // The rotation by `position` times a random angle of the frequency: a rational point of the
  // circle and its powers.
  static Rotation<T> Rotary(int64_t position, int64_t index, double inverse_frequency);

  static Score ToScore(T x) {
    return {static_cast<int64_t>(field_internal::Below(
        field_internal::KeyedHash(FieldFunction::kScore, x.v), T::prime() - 1))};
  }
  static Score LowestScore() { return {kLowest}; }
  static Score Max(Score a, Score b) { return a.exponent > b.exponent ? a : b; }
  static T ExpShifted(Score s, Score shift) {
    if (s.exponent == kLowest) return T{0};
    const int64_t shifted = s.exponent - (shift.exponent == kLowest ? 0 : shift.exponent);
    return Power(shifted < 0 ? shifted + static_cast<int64_t>(T::prime()) - 1 : shifted);
  }
  static LogSum MakeLogSum(Score max, T sum) {
    return LoadLogSum(max.exponent == kLowest ? sum : Power(max.exponent) * sum);
  }
  static LogSum LogAdd(LogSum a, LogSum b) { return LoadLogSum(a.sum + b.sum); }
  static T Probability(Score s, LogSum l) {
    return s.exponent == kLowest ? T{0} : Power(s.exponent) * l.inverse;
  }
  static T Weight(LogSum a, LogSum b) { return a.sum * b.inverse; }
  static T Log(LogSum l) { return Any(FieldFunction::kLog, l.sum.v); }

  // How tensors of T hold scores and log-sums. Integers order stored scores as Max does.
  static T StoreScore(Score s) { return {static_cast<uint64_t>(s.exponent + 1)}; }
  static Score LoadScore(T stored) { return {static_cast<int64_t>(stored.v) - 1}; }
  static T StoreLogSum(LogSum l) { return l.sum; }
  static LogSum LoadLogSum(T stored) { return {stored, T::Inverse(stored)}; }

  // root^exponent, 0 <= exponent < p - 1.
  static T Power(int64_t exponent);
  // A uniform residue that is a function of (key, function, argument).
  static T Any(FieldFunction function, uint64_t argument) {
    return {field_internal::Below(field_internal::KeyedHash(function, argument), T::prime())};
  }
  static T NonZero(FieldFunction function, uint64_t argument) {
    return {1 +
            field_internal::Below(field_internal::KeyedHash(function, argument), T::prime() - 1)};
  }
};

// numerators[i] /= denominators[i], with one inversion for all (denominators are overwritten).
template <class T>
void DivideAll(std::span<T> numerators, std::span<T> denominators);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_FIELD_H_
