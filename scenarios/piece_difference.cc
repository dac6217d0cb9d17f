#include "scenarios/piece_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace plumbline {
namespace {

// How two elements of one dtype with rounding are compared.
template <class T>
struct ElementComparison;

template <class T>
requires(!kIsField<T>) struct ElementComparison<T> {
  using Reference = double;  // the reference computes in f64

  static double Value(T actual, double factor) { return static_cast<double>(actual) * factor; }
  static double Value(T actual) { return static_cast<double>(actual); }

  // The largest |a - r| as bits: non-negative doubles are ordered as their bits, NaN above
  // infinity, so that neither is lost in the maximum, and the loop needs no branch.
  template <bool kScaled>
  static int64_t LargestBits(const T* actual, const double* reference, int64_t n, double factor) {
    constexpr int64_t kWithoutSign = std::numeric_limits<int64_t>::max();
    int64_t largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double value = kScaled ? Value(actual[i], factor) : Value(actual[i]);
      const int64_t bits = std::bit_cast<int64_t>(value - reference[i]) & kWithoutSign;
      largest = bits > largest ? bits : largest;
    }
    return largest;
  }

  static bool Finite(double value) { return std::isfinite(value); }

  static double Difference(double actual, double reference) {
    if (actual == reference || (std::isnan(actual) && std::isnan(reference))) return 0;
    const double difference = std::abs(actual - reference);
    return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
  }
};

template <class T>
double LargestDifference(const T* actual, const typename ElementComparison<T>::Reference* reference,
                         const std::vector<IndexRun>& runs, double factor) {
  using Element = ElementComparison<T>;
  int64_t largest = 0;
  for (const IndexRun& run : runs) {
    const T* a = actual + run.local;
    const auto* r = reference + run.global;
    largest =
        std::max(largest, factor == 1 ? Element::template LargestBits<false>(a, r, run.n, factor)
                                      : Element::template LargestBits<true>(a, r, run.n, factor));
  }
  return std::bit_cast<double>(largest);
}

// The same with care: exemptions, matching NaNs, and where.
template <class T>
PieceDifference Inspect(const T* actual, const std::vector<IndexRun>& runs,
                        const PieceReference& reference, double bound) {
  using Element = ElementComparison<T>;
  const auto* whole = reference.tensor.template data<typename Element::Reference>();
  PieceDifference result;
  for (const IndexRun& run : runs) {
    for (int64_t i = 0; i < run.n; ++i) {
      const int64_t global = run.global + i;
      const auto a = Element::Value(actual[run.local + i], reference.factor);
      const auto r = whole[global];
      const double difference = Element::Difference(a, r);
      if (!Element::Finite(a) && Element::Finite(r) &&
          (result.first_nonfinite < 0 || global < result.first_nonfinite)) {
        result.first_nonfinite = global;
      }
      const bool within = difference <= bound * reference.max_abs;
      if (!within) {
        const double extra = reference.exemption.ExtraAt(global, kDTypeOf<T>);
        if (difference <= bound * reference.max_abs + extra) continue;
      }
      const bool worse = difference > result.max_abs_diff;
      if (!within && (worse || result.index < 0)) {
        result.within = false;
        result.index = global;
        result.actual = a;
        result.reference = r;
      }
      if (worse) result.max_abs_diff = difference;
    }
  }
  return result;
}

// Where each element has an allowance of its own.
template <class T>
PieceDifference InspectAllowed(const T* actual, const std::vector<IndexRun>& runs,
                               const PieceReference& reference, double bound) {
  using Element = ElementComparison<T>;
  const double* whole = reference.tensor.data<double>();
  PieceDifference result;
  double most = 0;  // share of what is allowed
  for (const IndexRun& run : runs) {
    for (int64_t i = 0; i < run.n; ++i) {
      const int64_t global = run.global + i;
      const double a = Element::Value(actual[run.local + i], reference.factor);
      const double r = whole[global];
      const double difference = Element::Difference(a, r);
      if (difference == 0) continue;
      if (!Element::Finite(a) && Element::Finite(r) && result.first_nonfinite < 0) {
        result.first_nonfinite = global;
      }
      const double allowed =
          bound * reference.max_abs + (*reference.allowance)[static_cast<size_t>(global)];
      const double share = difference / allowed;
      if (share <= most) continue;
      most = share;
      result.max_abs_diff = difference;
      result.allowed = allowed;
      if (difference <= allowed) continue;
      result.within = false;
      result.index = global;
      result.actual = a;
      result.reference = r;
    }
  }
  return result;
}

// Over a field. Every element counts as worst: the first is named.
template <class T>
PieceDifference CountUnequal(const T* actual, const T* whole, const std::vector<IndexRun>& runs,
                             int64_t divisor) {
  PieceDifference result;
  const T inverse = T::Inverse(ScalarTraits<T>::FromInt(divisor));
  for (const IndexRun& run : runs) {
    for (int64_t i = 0; i < run.n; ++i) {
      const T a = divisor == 1 ? actual[run.local + i] : actual[run.local + i] * inverse;
      if (a == whole[run.global + i]) continue;
      ++result.unequal;
      if (result.within || run.global + i < result.index) {
        result.within = false;
        result.max_abs_diff = 1;
        result.index = run.global + i;
        result.actual = a;
        result.reference = whole[run.global + i];
      }
    }
  }
  return result;
}

}  // namespace

PieceDifference DifferenceOf(const Tensor& local, const std::vector<IndexRun>& runs,
                             const PieceReference& reference, double bound) {
  const auto compare = [&]<class T>() {
    const T* actual = local.data<T>();
    if constexpr (kIsField<T>) {
      return CountUnequal(actual, reference.tensor.template data<T>(), runs, reference.divisor);
    } else {
      using Reference = typename ElementComparison<T>::Reference;
      const Reference* whole = reference.tensor.template data<Reference>();
      if (reference.allowance != nullptr) return InspectAllowed(actual, runs, reference, bound);
      const double largest = LargestDifference<T>(actual, whole, runs, reference.factor);
      if (largest <= bound * reference.max_abs) {
        PieceDifference result;
        result.max_abs_diff = largest;
        return result;
      }
      return Inspect(actual, runs, reference, bound);
    }
  };
  return IsHalf(local.dtype()) ? DispatchReal(local.dtype(), compare)
                               : DispatchScalar(local.dtype(), compare);
}

}  // namespace plumbline
