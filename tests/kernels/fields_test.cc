// Operators over prime fields against their formulas, written out element by element.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/field.h"
#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"
#include "kernels/reduce.h"

namespace plumbline {
namespace {

const Context kContext = {};

template <class T>
std::vector<T> RandomValues(int64_t count, const std::string& name) {
  CurrentFieldRun().key = 5;
  const RandomStream stream = DataStream(2, name);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(
        ScalarTraits<T>::Any(FieldFunction::kInit, stream.Bits(static_cast<uint64_t>(i))));
  }
  return values;
}

template <class T>
Tensor RandomTensor(const Shape& shape, const std::string& name) {
  return Tensor::FromVector<T>(kContext, shape, RandomValues<T>(ElementsOf(shape), name));
}

// Every element the largest residue: the sums of products are as large as they can be.
template <class T>
Tensor Largest(const Shape& shape) {
  return Tensor::FromVector<T>(
      kContext, shape, std::vector<T>(static_cast<size_t>(ElementsOf(shape)), T{T::prime() - 1}));
}

template <class T>
struct Element {
  const T* data;
  int64_t columns;
  T operator()(int64_t i, int64_t j) const { return data[i * columns + j]; }
};
template <class T>
Element<T> ElementsIn(const Tensor& x) {
  return {x.data<T>(), x.dim(1)};
}

// sum over l of a(i, l) b(l, j).
template <class T, class A, class B>
std::vector<T> Product(int64_t m, int64_t n, int64_t k, A a, B b) {
  std::vector<T> product;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum{0};
      for (int64_t l = 0; l < k; ++l) sum += a(i, l) * b(l, j);
      product.push_back(sum);
    }
  }
  return product;
}

template <class T>
class FieldsTest : public ::testing::Test {};
using Fields = ::testing::Types<M61, P50, P31>;
TYPED_TEST_SUITE(FieldsTest, Fields);

constexpr std::array<std::array<int64_t, 3>, 8> kSizes = {{{1, 1, 1},
                                                           {1, 5, 3},
                                                           {7, 1, 9},
                                                           {3, 8, 17},
                                                           {13, 11, 1},
                                                           {5, 33, 65},
                                                           {17, 19, 130},
                                                           {2, 3, 1029}}};

TYPED_TEST(FieldsTest, MatrixProductsAreSumsOfProducts) {
  using T = TypeParam;
  for (const auto& [m, n, k] : kSizes) {
    for (const bool largest : {false, true}) {
      const auto make = [&](const Shape& shape, const char* name) {
        return largest ? Largest<T>(shape) : RandomTensor<T>(shape, name);
      };
      const Tensor x = make({m, k}, "x");
      const Tensor w = make({n, k}, "w");
      const Tensor dy = make({m, n}, "dy");
      const auto xs = ElementsIn<T>(x);
      const auto ws = ElementsIn<T>(w);
      const auto ds = ElementsIn<T>(dy);
      const auto flip = [](auto f) { return [f](int64_t i, int64_t j) { return f(j, i); }; };
      const std::string where = fmt::format("{} x {} x {}", m, n, k);
      EXPECT_EQ(MatmulNT(kContext, x, w).template ToVector<T>(),
                (Product<T>(m, n, k, xs, flip(ws))))
          << where;
      EXPECT_EQ(MatmulNN(kContext, dy, w).template ToVector<T>(), (Product<T>(m, k, n, ds, ws)))
          << where;
      EXPECT_EQ(MatmulTN(kContext, dy, x).template ToVector<T>(),
                (Product<T>(n, k, m, flip(ds), xs)))
          << where;
    }
  }
}

TYPED_TEST(FieldsTest, ReductionsAreTheFieldsSumsAndTheLargestResidue) {
  using T = TypeParam;
  constexpr int64_t kElements = 37;
  std::vector<Tensor> sources;
  std::vector<const Tensor*> pointers;
  for (const char* name : {"a", "b", "c"}) sources.push_back(RandomTensor<T>({kElements}, name));
  for (const Tensor& source : sources) pointers.push_back(&source);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
    Tensor result = Tensor::Zeros(kContext, kDTypeOf<T>, {kElements});
    Reduce(op, pointers, result);
    for (int64_t i = 0; i < kElements; ++i) {
      const auto at = [&](size_t source) { return sources[source].template data<T>()[i]; };
      T expected = at(0) + at(1) + at(2);
      if (op == ReduceOp::kAvg) expected = expected / T{3};
      if (op == ReduceOp::kMax) expected = T{std::max({at(0).v, at(1).v, at(2).v})};
      EXPECT_EQ(result.template data<T>()[i].v, expected.v) << Name(op) << " " << i;
    }
  }
}

TYPED_TEST(FieldsTest, AdamIsItsFormula) {
  using T = TypeParam;
  using Scalar = ScalarTraits<T>;
  Tensor parameter = RandomTensor<T>({11}, "parameter");
  const Tensor gradient = RandomTensor<T>({11}, "gradient");
  Tensor m = RandomTensor<T>({11}, "m");
  Tensor v = RandomTensor<T>({11}, "v");
  const std::vector<T> p0 = parameter.template ToVector<T>();
  const std::vector<T> m0 = m.template ToVector<T>();
  const std::vector<T> v0 = v.template ToVector<T>();
  const AdamOptions options = {
      .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = 3};
  AdamStep(kContext, parameter, gradient, m, v, options, {});
  const T one{1};
  const auto c = [](double literal) { return Scalar::FromDouble(literal); };
  for (size_t i = 0; i < p0.size(); ++i) {
    const T g = gradient.template data<T>()[i];
    const T m1 = c(0.9) * m0[i] + (one - c(0.9)) * g;
    const T v1 = c(0.95) * v0[i] + (one - c(0.95)) * g * g;
    const T m_hat = m1 / (one - PowInt(c(0.9), 3));
    const T v_hat = v1 / (one - PowInt(c(0.95), 3));
    const T decayed = p0[i] - c(0.01) * c(0.1) * p0[i];
    const T expected = decayed - c(0.01) * m_hat / (Scalar::Sqrt(v_hat) + c(1e-8));
    EXPECT_EQ(m.template data<T>()[i].v, m1.v);
    EXPECT_EQ(v.template data<T>()[i].v, v1.v);
    EXPECT_EQ(parameter.template data<T>()[i].v, expected.v);
  }
}

TYPED_TEST(FieldsTest, SgdIsItsFormula) {
  using T = TypeParam;
  using Scalar = ScalarTraits<T>;
  Tensor parameter = RandomTensor<T>({11}, "parameter");
  const Tensor gradient = RandomTensor<T>({11}, "gradient");
  Tensor buffer = RandomTensor<T>({11}, "buffer");
  const std::vector<T> p0 = parameter.template ToVector<T>();
  const std::vector<T> b0 = buffer.template ToVector<T>();
  const SgdOptions options = {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1, .step = 2};
  SgdStep(kContext, parameter, gradient, buffer, options, {});
  const auto c = [](double literal) { return Scalar::FromDouble(literal); };
  for (size_t i = 0; i < p0.size(); ++i) {
    const T g = gradient.template data<T>()[i] + c(0.1) * p0[i];
    const T b1 = c(0.9) * b0[i] + g;
    EXPECT_EQ(buffer.template data<T>()[i].v, b1.v);
    EXPECT_EQ(parameter.template data<T>()[i].v, (p0[i] - c(0.01) * b1).v);
  }
}

// q . k / sqrt(D) becomes a score once; P = g^s over its sum.
TYPED_TEST(FieldsTest, AttentionIsTheSoftmaxOfCompleteScores) {
  using T = TypeParam;
  using Scalar = ScalarTraits<T>;
  constexpr int64_t kSequence = 5;
  constexpr int64_t kHeads = 4;
  constexpr int64_t kGroups = 2;
  constexpr int64_t kChannels = 3;
  const Tensor q = RandomTensor<T>({kSequence, 1, kHeads, kChannels}, "q");
  const Tensor k = RandomTensor<T>({kSequence, 1, kGroups, kChannels}, "k");
  const Tensor v = RandomTensor<T>({kSequence, 1, kGroups, kChannels}, "v");
  AttentionOptions options;
  for (int64_t i = 0; i < kSequence; ++i) options.query_positions.push_back(i);
  options.key_positions = options.query_positions;
  options.global_sequence = kSequence;
  const AttentionForwardResult result = AttentionForward(kContext, q, k, v, options);
  const T scale = T{1} / Scalar::Sqrt(T{kChannels});
  const auto at = [](const Tensor& x, int64_t s, int64_t head, int64_t c) {
    return x.data<T>()[(s * x.dim(2) + head) * x.dim(3) + c];
  };
  for (int64_t head = 0; head < kHeads; ++head) {
    const int64_t group = head / (kHeads / kGroups);
    for (int64_t i = 0; i < kSequence; ++i) {
      T sum{0};
      std::vector<T> weights;
      for (int64_t j = 0; j <= i; ++j) {
        T dot{0};
        for (int64_t c = 0; c < kChannels; ++c) dot += at(q, i, head, c) * at(k, j, group, c);
        weights.push_back(Scalar::Power(Scalar::ToScore(dot * scale).exponent));
        sum += weights.back();
      }
      EXPECT_EQ(result.lse.template data<T>()[head * kSequence + i].v, sum.v);
      for (int64_t c = 0; c < kChannels; ++c) {
        T out{0};
        for (int64_t j = 0; j <= i; ++j) {
          out += weights[static_cast<size_t>(j)] * at(v, j, group, c);
        }
        EXPECT_EQ(at(result.out, i, head, c).v, (out / sum).v) << head << " " << i << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline
