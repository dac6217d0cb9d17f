#include "cli/exact_options.h"

#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/field.h"

namespace plumbline {
namespace {

constexpr int64_t kMostKeys = 10000;

DType FieldOf(const GivenArguments& given, ExactOptions* exact) {
  const std::string text = given.Text("prime").value_or("m61");
  if (text == "m61") return DType::kM61;
  if (text == "p50") return DType::kP50;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, exact->small_prime);
  if (error != std::errc() || parsed != end) {
    throw InvalidArgument("{} {}: expected m61, p50 or a prime below 2147483648",
                          given.Label("prime"), text);
  }
  SetSmallPrime(exact->small_prime);  // refuses what is no prime
  return DType::kP31;
}

}  // namespace

void ReadExact(const GivenArguments& given, uint64_t seed, DType* dtype, ExactOptions* exact) {
  exact->seed = seed;
  if (given.Has("dtype")) {
    *dtype = *given.Choice<DType>("dtype", {{"f64", DType::kF64},
                                            {"f32", DType::kF32},
                                            {"bf16", DType::kBF16},
                                            {"f16", DType::kF16},
                                            {"exact", DType::kM61}});
  }
  if (!IsExact(*dtype)) {
    for (const char* name : {"prime", "keys"}) {
      if (given.Has(name)) throw InvalidArgument("{} needs --dtype exact", given.Label(name));
    }
    return;
  }
  *dtype = FieldOf(given, exact);
  const int64_t keys = given.Integer("keys").value_or(1);
  if (keys < 1 || keys > kMostKeys) {
    throw InvalidArgument("{} {}: expected 1 to {}", given.Label("keys"), keys, kMostKeys);
  }
  exact->keys = static_cast<int>(keys);
}

}  // namespace plumbline
