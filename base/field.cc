#include "base/field.h"

#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using uint128 = unsigned __int128;

uint64_t MultiplyFold(uint64_t a, uint64_t b) {
  const uint128 x = static_cast<uint128>(a) * b;
  return static_cast<uint64_t>(x) ^ static_cast<uint64_t>(x >> 64);
}

uint64_t PowerModulo(uint64_t base, uint64_t exponent, uint64_t prime) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0)
      result = static_cast<uint64_t>(static_cast<uint128>(result) * base % prime);
    base = static_cast<uint64_t>(static_cast<uint128>(base) * base % prime);
  }
  return result;
}

std::vector<uint64_t> PrimeFactors(uint64_t n) {
  std::vector<uint64_t> factors;
  for (uint64_t d = 2; d * d <= n; ++d) {
    if (n % d != 0) continue;
    factors.push_back(d);
    while (n % d == 0) n /= d;
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

uint64_t SmallestPrimitiveRoot(uint64_t prime) {
  const std::vector<uint64_t> factors = PrimeFactors(prime - 1);
  for (uint64_t g = 2;; ++g) {
    bool generates = true;
    for (uint64_t q : factors) generates = generates && PowerModulo(g, (prime - 1) / q, prime) != 1;
    if (generates) return g;
  }
}

field_internal::SmallPrime MakeSmallPrime(uint64_t prime) {
  return {prime, SmallestPrimitiveRoot(prime), ~uint64_t{0} / prime};
}

field_internal::SmallPrime& ThreadSmallPrime() {
  thread_local field_internal::SmallPrime small = MakeSmallPrime((uint64_t{1} << 31) - 1);
  return small;
}

// root^(digit << (8 * window)) for fixed-base exponentiation: eight multiplications an exponential.
template <class Rules>
struct PowerTable {
  using Window = std::array<Field<Rules>, 256>;
  uint64_t prime = 0;
  std::array<Window, 8> windows;

  void Fill() {
    prime = Rules::Prime();
    Field<Rules> base{Rules::Root() % prime};
    for (Window& window : windows) {
      window[0] = {1};
      for (size_t digit = 1; digit < window.size(); ++digit)
        window[digit] = window[digit - 1] * base;
      base = window.back() * base;
    }
  }
};

template <class Rules>
const PowerTable<Rules>& CurrentPowerTable() {
  thread_local std::unique_ptr<PowerTable<Rules>> table;
  if (table == nullptr || table->prime != Rules::Prime()) {
    table = std::make_unique<PowerTable<Rules>>();
    table->Fill();
  }
  return *table;
}

}  // namespace

FieldRun& CurrentFieldRun() {
  thread_local FieldRun run;
  return run;
}

void SetSmallPrime(uint64_t prime) {
  const bool in_range = prime >= 5 && prime < (uint64_t{1} << 31);
  if (!in_range || PrimeFactors(prime).front() != prime) {
    throw InvalidArgument("prime {}: expected a prime from 5 to 2147483647", prime);
  }
  if (ThreadSmallPrime().prime != prime) ThreadSmallPrime() = MakeSmallPrime(prime);
}

namespace field_internal {

const SmallPrime& CurrentSmallPrime() { return ThreadSmallPrime(); }

// Three rounds of a folded 64 x 64 -> 128 bit product with odd constants (fractional digits of
// square roots).
uint64_t KeyedHash(FieldFunction function, uint64_t argument) {
  const uint64_t key = CurrentFieldRun().key;
  const uint64_t tweak = (static_cast<uint64_t>(function) + 1) * 0x9E3779B97F4A7C15;
  uint64_t x = MultiplyFold(argument ^ key ^ 0x6A09E667F3BCC909, tweak ^ 0xBB67AE8584CAA73B);
  x = MultiplyFold(x + argument + 0x3C6EF372FE94F82B, (key << 1 | 1) ^ 0xA54FF53A5F1D36F0);
  return MultiplyFold(x ^ tweak, argument ^ 0x510E527FADE682D1) + x;
}

}  // namespace field_internal

template <class Rules>
Field<Rules> Field<Rules>::Inverse(Field a) {
  if (a.v == 0) {
    ++CurrentFieldRun().divisions_by_zero;
    return {0};
  }
  int64_t old_rest = static_cast<int64_t>(prime());
  int64_t rest = static_cast<int64_t>(a.v);
  int64_t old_factor = 0;
  int64_t factor = 1;
  while (rest != 0) {
    const int64_t quotient = old_rest / rest;
    const int64_t next_rest = old_rest - quotient * rest;
    old_rest = rest;
    rest = next_rest;
    const int64_t next_factor = old_factor - quotient * factor;
    old_factor = factor;
    factor = next_factor;
  }
  const int64_t result = old_factor < 0 ? old_factor + static_cast<int64_t>(prime()) : old_factor;
  return {static_cast<uint64_t>(result)};
}

template <class Rules>
Field<Rules> ScalarTraits<Field<Rules>>::FromDouble(double literal) {
  if (!std::isfinite(literal)) throw InvalidArgument("{} has no value in a prime field", literal);
  constexpr double kWhole = 1e15;
  if (std::abs(literal) < kWhole && literal == std::trunc(literal)) {
    return FromInt(static_cast<int64_t>(literal));  // without a division
  }
  int exponent = 0;
  const double mantissa = std::frexp(literal, &exponent);
  const T m = FromInt(static_cast<int64_t>(std::ldexp(mantissa, 53)));
  const int shift = exponent - 53;
  const T power = PowInt(FromInt(2), shift < 0 ? -shift : shift);
  return shift < 0 ? m / power : m * power;
}

template <class Rules>
Field<Rules> ScalarTraits<Field<Rules>>::Power(int64_t exponent) {
  const PowerTable<Rules>& table = CurrentPowerTable<Rules>();
  auto rest = static_cast<uint64_t>(exponent);
  T result = table.windows[0][rest & 255];
  for (size_t window = 1; (rest >>= 8) != 0; ++window)
    result = result * table.windows[window][rest & 255];
  return result;
}

template <class Rules>
Rotation<Field<Rules>> ScalarTraits<Field<Rules>>::Rotary(int64_t position, int64_t index,
                                                          double inverse_frequency) {
  // The frequency as float keys the angle, so that two ways to compute it in double still name one
  // angle.
  const auto frequency = std::bit_cast<uint32_t>(static_cast<float>(inverse_frequency));
  const uint64_t argument = (static_cast<uint64_t>(index) << 32) | frequency;
  T cos{0};
  T sin{0};
  const T one{1};
  for (uint64_t attempt = 0;; ++attempt) {
    const T t = Any(FieldFunction::kRotary, argument + (attempt << 56));
    const T norm = one + t * t;
    if (norm == T{0}) continue;
    const T inverse = T::Inverse(norm);
    cos = (one - t * t) * inverse;
    sin = (t + t) * inverse;
    break;
  }
  Rotation<T> result{one, T{0}};
  for (auto rest = static_cast<uint64_t>(position); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) {
      result = {result.cos * cos - result.sin * sin, result.sin * cos + result.cos * sin};
    }
    const T double_cos = cos * cos - sin * sin;
    sin = cos * sin + cos * sin;
    cos = double_cos;
  }
  return result;
}

template <class T>
void DivideAll(std::span<T> numerators, std::span<T> denominators) {
  PL_CHECK(numerators.size() == denominators.size());
  if (numerators.empty()) return;
  bool zero = false;
  std::vector<T> prefix(denominators.size());
  T product{1};
  for (size_t i = 0; i < denominators.size(); ++i) {
    zero = zero || denominators[i] == T{0};
    prefix[i] = product;
    product = product * denominators[i];
  }
  if (zero) {
    for (size_t i = 0; i < denominators.size(); ++i)
      numerators[i] = numerators[i] / denominators[i];
    return;
  }
  T inverse = T::Inverse(product);
  for (size_t i = denominators.size(); i-- > 0;) {
    numerators[i] = numerators[i] * (inverse * prefix[i]);
    inverse = inverse * denominators[i];
  }
}

template struct Field<field_internal::M61Rules>;
template struct Field<field_internal::P50Rules>;
template struct Field<field_internal::P31Rules>;
template struct ScalarTraits<M61>;
template struct ScalarTraits<P50>;
template struct ScalarTraits<P31>;
template void DivideAll<M61>(std::span<M61>, std::span<M61>);
template void DivideAll<P50>(std::span<P50>, std::span<P50>);
template void DivideAll<P31>(std::span<P31>, std::span<P31>);

}  // namespace plumbline
