#include "tests/scenarios/attention_plants.h"

#include <algorithm>
#include <cmath>

#include "base/field.h"
#include "base/scalar.h"

namespace plumbline {
namespace {

SkippedKeyCount& Skipped() {
  static SkippedKeyCount skipped;
  return skipped;
}

// One query of one head of one sample, and a key that it does or does not see.
struct Place {
  int64_t query = 0;
  int64_t key = 0;
  int64_t sample = 0;
  int64_t head = 0;
};

template <class T>
class Softmax {
 public:
  using Scalar = ScalarTraits<T>;
  using Score = typename Scalar::Score;
  using LogSum = typename Scalar::LogSum;

  Softmax(const Tensor& q, const Tensor& k, const Tensor& v, AttentionForwardResult& result)
      : q_(q), k_(k), v_(v), result_(result) {}

  Score ScoreAt(const Place& at) const {
    const int64_t channels = q_.dim(3);
    const T* q = At(q_, at.query, at.sample, at.head);
    const T* k = At(k_, at.key, at.sample, GroupOf(at));
    T sum = Scalar::FromInt(0);
    for (int64_t c = 0; c < channels; ++c) sum += q[c * q_.strides()[3]] * k[c * k_.strides()[3]];
    const T scale = Scalar::FromInt(1) / Scalar::Sqrt(Scalar::FromInt(channels));
    return Scalar::ToScore(sum * scale);
  }
  LogSum LogSumAt(const Place& at) const { return Scalar::LoadLogSum(*Lse(at)); }

  // out becomes keep * out + weight * v[key].
  void Mix(const Place& at, T keep, T weight) {
    T* out = result_.out.template data<T>() +
             (at.query * result_.out.strides()[0] + at.sample * result_.out.strides()[1] +
              at.head * result_.out.strides()[2]);
    const T* v = At(v_, at.key, at.sample, GroupOf(at));
    for (int64_t c = 0; c < v_.dim(3); ++c) {
      T& one = out[c * result_.out.strides()[3]];
      one = keep * one + weight * v[c * v_.strides()[3]];
    }
  }
  void SetLogSum(const Place& at, LogSum lse) { *Lse(at) = Scalar::StoreLogSum(lse); }

 private:
  int64_t GroupOf(const Place& at) const { return at.head / (q_.dim(2) / k_.dim(2)); }
  static const T* At(const Tensor& x, int64_t s, int64_t b, int64_t h) {
    return x.data<T>() + s * x.strides()[0] + b * x.strides()[1] + h * x.strides()[2];
  }
  T* Lse(const Place& at) const {
    const Shape& strides = result_.lse.strides();
    return result_.lse.template data<T>() + at.sample * strides[0] + at.head * strides[1] +
           at.query * strides[2];
  }

  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  AttentionForwardResult& result_;
};

// In f64.
Place LeastProbable(const Softmax<double>& softmax, const Tensor& q, double* least) {
  Place best;
  *least = 1;
  for (int64_t b = 0; b < q.dim(1); ++b) {
    for (int64_t h = 0; h < q.dim(2); ++h) {
      for (int64_t i = 0; i < q.dim(0); ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          const Place at = {i, j, b, h};
          const double p =
              ScalarTraits<double>::Probability(softmax.ScoreAt(at), softmax.LogSumAt(at));
          if (p >= *least) continue;
          *least = p;
          best = at;
        }
      }
    }
  }
  return best;
}

template <class T>
void Skip(Softmax<T>& softmax, const Place& at) {
  using Scalar = ScalarTraits<T>;
  const auto lse = softmax.LogSumAt(at);
  const T p = Scalar::Probability(softmax.ScoreAt(at), lse);
  const T one = Scalar::FromInt(1);
  const T rest = one / (one - p);
  softmax.Mix(at, rest, -p * rest);
  if constexpr (kIsField<T>) {
    softmax.SetLogSum(at, Scalar::LoadLogSum(lse.sum * (one - p)));
  } else {
    softmax.SetLogSum(at, {lse.value + std::log1p(-p)});
  }
}

}  // namespace

void ResetSkippedKeys() { Skipped() = {}; }
SkippedKeyCount SkippedKeys() { return Skipped(); }

AttentionForwardResult SkipLeastProbableKey(const Context& context, const Tensor& q,
                                            const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options) {
  AttentionForwardResult result = AttentionForward(context, q, k, v, options);
  DispatchScalar(q.dtype(), [&]<class T>() {
    Softmax<T> softmax(q, k, v, result);
    if constexpr (kIsField<T>) {
      Skip(softmax, {q.dim(0) - 1, 0, 0, 0});
    } else if constexpr (std::is_same_v<T, double>) {
      double least = 1;
      const Place at = LeastProbable(softmax, q, &least);
      if (!(least < 1e-14)) return;
      ++Skipped().count;
      Skipped().largest_probability = std::max(Skipped().largest_probability, least);
      Skip(softmax, at);
    }
  });
  return result;
}

AttentionForwardResult GiveMaskedKeyMinus40(const Context& context, const Tensor& q,
                                            const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options) {
  AttentionForwardResult result = AttentionForward(context, q, k, v, options);
  DispatchScalar(q.dtype(), [&]<class T>() {
    using Scalar = ScalarTraits<T>;
    Softmax<T> softmax(q, k, v, result);
    const Place at = {0, 1, 0, 0};
    const auto score = Scalar::ToScore(Scalar::FromDouble(-40));
    const auto lse = softmax.LogSumAt(at);
    const auto all = Scalar::LogAdd(lse, Scalar::MakeLogSum(score, Scalar::FromInt(1)));
    softmax.Mix(at, Scalar::Weight(lse, all), Scalar::Probability(score, all));
    softmax.SetLogSum(at, all);
  });
  return result;
}

AttentionForwardResult DivideByExpOfLog(const Context& context, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionOptions& options) {
  AttentionForwardResult result = AttentionForward(context, q, k, v, options);
  DispatchScalar(q.dtype(), [&]<class T>() {
    using Scalar = ScalarTraits<T>;
    Softmax<T> softmax(q, k, v, result);
    // Query 0 sees key 0 alone: its output is v, times exp(s - lse) with the two taken apart.
    const Place at = {0, 0, 0, 0};
    const auto lse = softmax.LogSumAt(at);
    const auto as_number = Scalar::ToScore(Scalar::Log(lse));
    const T weight = Scalar::ExpShifted(softmax.ScoreAt(at), as_number);
    softmax.Mix(at, Scalar::FromInt(0), weight);
  });
  return result;
}

}  // namespace plumbline
