#include "kernels/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/elementwise.h"
#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::Bound;
using testing::DeviationFrom;
using testing::kContext;
using testing::Random;
using testing::Scattered;
using testing::Wide;

struct Case {
  std::string name;
  int64_t sequence = 9;
  int64_t batch = 2;
  int64_t heads = 4;
  int64_t groups = 2;
  int64_t channels = 6;
  bool packed = false;
  double dropout = 0;
};

const std::vector<Case> kCases = {
    {.name = "grouped"},
    {.name = "all_heads", .groups = 4},
    {.name = "one_group", .groups = 1},
    {.name = "packed", .packed = true},
    {.name = "dropout", .dropout = 0.3},
    {.name = "packed_dropout_odd", .sequence = 7, .channels = 5, .packed = true, .dropout = 0.5},
    {.name = "one_token", .sequence = 1},
    {.name = "empty", .sequence = 0},
    {.name = "one_channel", .heads = 1, .groups = 1, .channels = 1},
    {.name = "several_blocks", .sequence = 101, .batch = 1, .heads = 2, .groups = 1, .channels = 8},
    {.name = "several_blocks_packed", .sequence = 53, .batch = 2, .heads = 2, .packed = true},
};

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> result;
  for (int64_t i = begin; i < end; ++i) result.push_back(i);
  return result;
}

AttentionOptions Options(const Case& c) {
  AttentionOptions options;
  options.query_positions = Range(0, c.sequence);
  options.key_positions = Range(0, c.sequence);
  options.global_sequence = c.sequence;
  options.first_head = 3;
  options.dropout = {c.dropout, 5, 1, HashOfName("attention"), {}};
  for (int64_t b = 0; b < c.batch; ++b) options.dropout.samples.push_back(10 + 7 * b);
  if (c.packed) {
    // Documents of odd lengths that differ between the samples.
    options.document_ids = Tensor::Empty(kContext, DType::kI64, {c.batch, c.sequence});
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t s = 0; s < c.sequence; ++s) {
        options.document_ids.at<int64_t>({b, s}) = s / (3 + 2 * b + c.sequence / 5);
      }
    }
  }
  return options;
}

template <class T>
struct Inputs {
  explicit Inputs(const Case& c)
      : q(Random<T>({c.sequence, c.batch, c.heads, c.channels}, "q")),
        k(Random<T>({c.sequence, c.batch, c.groups, c.channels}, "k")),
        v(Random<T>({c.sequence, c.batch, c.groups, c.channels}, "v")),
        dout(Random<T>({c.sequence, c.batch, c.heads, c.channels}, "dout")) {}
  Tensor q, k, v, dout;
};

// Mistakes that must lie outside the bounds.
struct Variant {
  int64_t causal_shift = 0;  // keys up to query + shift
  bool ignore_documents = false;
  bool swap_groups = false;  // head h reads group h % G
  bool no_scale = false;
  int64_t mask_head = 3;  // the number of head 0 in the dropout's index
};

template <class T>
struct Reference {
  std::vector<Wide> out, lse, dq, dk, dv;

  Reference(const Case& c, const Inputs<T>& in, const AttentionOptions& options,
            const Variant& variant)
      : out(in.q.elements()),
        lse(c.batch * c.heads * c.sequence),
        dq(in.q.elements()),
        dk(in.k.elements()),
        dv(in.v.elements()) {
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t a = 0; a < c.heads; ++a) {
        for (int64_t i = 0; i < c.sequence; ++i) Row(c, in, options, variant, b, a, i);
      }
    }
  }

  void Row(const Case& c, const Inputs<T>& in, const AttentionOptions& options,
           const Variant& variant, int64_t b, int64_t a, int64_t i) {
    const int64_t d = c.channels;
    const int64_t g = variant.swap_groups ? a % c.groups : a / (c.heads / c.groups);
    const Wide scale = variant.no_scale ? 1 : 1 / std::sqrt(static_cast<Wide>(d));
    const RandomStream stream =
        DropoutStream(options.dropout.seed, options.dropout.step, options.dropout.site_hash,
                      options.dropout.samples[b]);
    const T *q = in.q.template data<T>(), *k = in.k.template data<T>();
    const T *v = in.v.template data<T>(), *dout = in.dout.template data<T>();
    const auto at = [&](int64_t s, int64_t heads, int64_t head, int64_t x) {
      return static_cast<size_t>(((s * c.batch + b) * heads + head) * d + x);
    };
    std::vector<Wide> e(c.sequence, 0), keep(c.sequence, 1);
    Wide sum = 0;
    for (int64_t j = 0; j < c.sequence; ++j) {
      const bool same =
          variant.ignore_documents || !c.packed ||
          options.document_ids.at<int64_t>({b, i}) == options.document_ids.at<int64_t>({b, j});
      if (j > i + variant.causal_shift || !same) continue;
      Wide score = 0;
      for (int64_t x = 0; x < d; ++x)
        score += static_cast<Wide>(q[at(i, c.heads, a, x)]) * k[at(j, c.groups, g, x)];
      e[j] = std::exp(score * scale);
      sum += e[j];
      const int64_t index = ((variant.mask_head + a) * c.sequence + i) * c.sequence + j;
      if (c.dropout > 0)
        keep[j] = stream.Bits(index) < KeepThreshold(c.dropout)
                      ? 1 / (1 - static_cast<Wide>(c.dropout))
                      : 0;
    }
    lse[(b * c.heads + a) * c.sequence + i] = std::log(sum);
    std::vector<Wide> dp(c.sequence, 0);
    Wide delta = 0;
    for (int64_t j = 0; j < c.sequence; ++j) {
      const Wide p = e[j] / sum;
      for (int64_t x = 0; x < d; ++x) {
        const Wide vx = v[at(j, c.groups, g, x)], dx = dout[at(i, c.heads, a, x)];
        out[at(i, c.heads, a, x)] += keep[j] * p * vx;
        dv[at(j, c.groups, g, x)] += keep[j] * p * dx;
        dp[j] += keep[j] * vx * dx;
      }
      delta += p * dp[j];
    }
    for (int64_t j = 0; j < c.sequence; ++j) {
      const Wide ds = e[j] / sum * (dp[j] - delta) * scale;
      for (int64_t x = 0; x < d; ++x) {
        dq[at(i, c.heads, a, x)] += ds * k[at(j, c.groups, g, x)];
        dk[at(j, c.groups, g, x)] += ds * q[at(i, c.heads, a, x)];
      }
    }
  }
};

struct Result {
  AttentionForwardResult forward;
  AttentionBackwardResult backward;
};

Result RunBoth(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dout,
               const AttentionOptions& options) {
  Result result;
  result.forward = AttentionForward(kContext, q, k, v, options);
  result.backward =
      AttentionBackward(kContext, dout, q, k, v, result.forward.out, result.forward.lse, options);
  return result;
}

template <class T>
class AttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(AttentionTest, ForwardAndBackwardAreTheFormula) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Inputs<T> in(c);
    const AttentionOptions options = Options(c);
    const Result result = RunBoth(in.q, in.k, in.v, in.dout, options);
    const Reference<T> r(c, in, options, {});
    const double bound = Bound<T>(c.sequence + c.channels + 8);
    EXPECT_LE(DeviationFrom<T>(result.forward.out, r.out), bound);
    EXPECT_LE(DeviationFrom<T>(result.forward.lse, r.lse), bound);
    EXPECT_LE(DeviationFrom<T>(result.backward.dv, r.dv), bound);
    if (c.sequence == 1) {
      // One key: the gradient of its score is zero, and what is left is rounding.
      EXPECT_LE(MaxAbs(result.backward.dq), bound * 10);
      continue;
    }
    EXPECT_LE(DeviationFrom<T>(result.backward.dq, r.dq), bound);
    EXPECT_LE(DeviationFrom<T>(result.backward.dk, r.dk), bound);
  }
}

TYPED_TEST(AttentionTest, MistakesLieOutsideTheBounds) {
  using T = TypeParam;
  const Case c = {.name = "all", .packed = true, .dropout = 0.3};
  const Inputs<T> in(c);
  const AttentionOptions options = Options(c);
  const Result result = RunBoth(in.q, in.k, in.v, in.dout, options);
  for (const Variant& wrong : std::vector<Variant>{{.causal_shift = 1},
                                                   {.causal_shift = -1},
                                                   {.ignore_documents = true},
                                                   {.swap_groups = true},
                                                   {.no_scale = true},
                                                   {.mask_head = 0}}) {
    const Reference<T> r(c, in, options, wrong);
    EXPECT_FALSE(DeviationFrom<T>(result.forward.out, r.out) <= 1e-3);
    EXPECT_FALSE(DeviationFrom<T>(result.backward.dq, r.dq) <= 1e-3);
    EXPECT_FALSE(DeviationFrom<T>(result.backward.dk, r.dk) <= 1e-3);
    EXPECT_FALSE(DeviationFrom<T>(result.backward.dv, r.dv) <= 1e-3);
  }
}

void ExpectSame(const Result& a, const Result& b) {
  EXPECT_THAT(a.forward.out, BitEquals(b.forward.out));
  EXPECT_THAT(a.forward.lse, BitEquals(b.forward.lse));
  EXPECT_THAT(a.backward.dq, BitEquals(b.backward.dq));
  EXPECT_THAT(a.backward.dk, BitEquals(b.backward.dk));
  EXPECT_THAT(a.backward.dv, BitEquals(b.backward.dv));
}

TYPED_TEST(AttentionTest, StridesDoNotMatter) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Inputs<T> in(c);
    const AttentionOptions options = Options(c);
    AttentionOptions scattered = options;
    if (c.packed) scattered.document_ids = Scattered<int64_t>(options.document_ids);
    ExpectSame(RunBoth(Scattered<T>(in.q), Scattered<T>(in.k), Scattered<T>(in.v),
                       Scattered<T>(in.dout), scattered),
               RunBoth(in.q, in.k, in.v, in.dout, options));
    // Views of one fused tensor, as linear_qkv gives them.
    Tensor fused = Tensor::Empty(kContext, kDTypeOf<T>,
                                 {c.sequence, c.batch, c.heads + 2 * c.groups, c.channels});
    Tensor q = fused.Slice(2, 0, c.heads), k = fused.Slice(2, c.heads, c.heads + c.groups);
    Tensor v = fused.Slice(2, c.heads + c.groups, c.heads + 2 * c.groups);
    q.CopyFrom(in.q);
    k.CopyFrom(in.k);
    v.CopyFrom(in.v);
    ExpectSame(RunBoth(q, k, v, in.dout, options), RunBoth(in.q, in.k, in.v, in.dout, options));
  }
}

// A tensor-parallel or data-parallel rank's share equals the same share of the whole.
TYPED_TEST(AttentionTest, AGroupOrSampleDoesNotDependOnTheOthers) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    if (c.groups != 2 || c.batch != 2) continue;
    SCOPED_TRACE(c.name);
    const Inputs<T> in(c);
    const AttentionOptions options = Options(c);
    const Result whole = RunBoth(in.q, in.k, in.v, in.dout, options);
    const auto slice = [](const Result& r, int64_t axis, int64_t begin, int64_t end,
                          int64_t key_begin, int64_t key_end) {
      const auto cut = [&](const Tensor& x, int64_t a, int64_t first, int64_t last) {
        return x.Slice(a, first, last).Clone(kContext);
      };
      return Result{
          {cut(r.forward.out, axis, begin, end), cut(r.forward.lse, axis - 1, begin, end)},
          {cut(r.backward.dq, axis, begin, end), cut(r.backward.dk, axis, key_begin, key_end),
           cut(r.backward.dv, axis, key_begin, key_end)}};
    };
    AttentionOptions second = options;
    second.first_head += c.heads / 2;
    const int64_t half = c.heads / 2;
    ExpectSame(RunBoth(in.q.Slice(2, half, c.heads), in.k.Slice(2, 1, 2), in.v.Slice(2, 1, 2),
                       in.dout.Slice(2, half, c.heads), second),
               slice(whole, 2, half, c.heads, 1, 2));
    AttentionOptions sample = options;
    sample.dropout.samples = {options.dropout.samples[1]};
    if (c.packed) sample.document_ids = options.document_ids.Slice(0, 1, 2);
    ExpectSame(RunBoth(in.q.Slice(1, 1, 2), in.k.Slice(1, 1, 2), in.v.Slice(1, 1, 2),
                       in.dout.Slice(1, 1, 2), sample),
               slice(whole, 1, 1, 2, 1, 2));
  }
}

// A shard of the queries, at their global positions, against all keys.
TYPED_TEST(AttentionTest, AQueryDoesNotDependOnTheOthers) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    if (c.sequence < 7) continue;
    SCOPED_TRACE(c.name);
    const Inputs<T> in(c);
    AttentionOptions options = Options(c);
    const Result whole = RunBoth(in.q, in.k, in.v, in.dout, options);
    options.query_positions = Range(2, 6);
    const Result part = RunBoth(in.q.Slice(0, 2, 6), in.k, in.v, in.dout.Slice(0, 2, 6), options);
    EXPECT_THAT(part.forward.out, BitEquals(whole.forward.out.Slice(0, 2, 6).Clone(kContext)));
    EXPECT_THAT(part.forward.lse, BitEquals(whole.forward.lse.Slice(2, 2, 6).Clone(kContext)));
    EXPECT_THAT(part.backward.dq, BitEquals(whole.backward.dq.Slice(0, 2, 6).Clone(kContext)));
  }
}

// Context parallelism's rule: blocks of keys merge by their log-sum-exps, whatever the keys' order.
TYPED_TEST(AttentionTest, BlocksOfKeysMergeByTheirLogSumExp) {
  using T = TypeParam;
  const Case c = {.name = "merge", .packed = true, .dropout = 0.2};
  const Inputs<T> in(c);
  AttentionOptions options = Options(c);
  const AttentionForwardResult whole = AttentionForward(kContext, in.q, in.k, in.v, options);
  options.key_positions = Range(0, 4);
  const AttentionForwardResult a =
      AttentionForward(kContext, in.q, in.k.Slice(0, 0, 4), in.v.Slice(0, 0, 4), options);
  options.key_positions = Range(4, 9);
  const AttentionForwardResult b =
      AttentionForward(kContext, in.q, in.k.Slice(0, 4, 9), in.v.Slice(0, 4, 9), options);
  std::vector<Wide> merged;
  for (int64_t i = 0; i < c.sequence; ++i) {
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const Wide la = a.lse.template at<T>({n, h, i}), lb = b.lse.template at<T>({n, h, i});
        const Wide l = std::log(std::exp(la) + std::exp(lb));
        EXPECT_NEAR(static_cast<double>(l), whole.lse.template at<T>({n, h, i}), Bound<T>(20));
        for (int64_t d = 0; d < c.channels; ++d) {
          merged.push_back(std::exp(la - l) * a.out.template at<T>({i, n, h, d}) +
                           std::exp(lb - l) * b.out.template at<T>({i, n, h, d}));
        }
      }
    }
  }
  EXPECT_LE(DeviationFrom<T>(whole.out, merged), Bound<T>(20));
}

TYPED_TEST(AttentionTest, AQueryWithoutKeysGivesZeroAndTheEmptySum) {
  using T = TypeParam;
  const Case c = {.name = "late keys"};
  const Inputs<T> in(c);
  AttentionOptions options = Options(c);
  options.key_positions = Range(4, 13);  // queries 0..3 see none
  const Result result = RunBoth(in.q, in.k, in.v, in.dout, options);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(MaxAbs(result.forward.out.Select(0, i)), 0);
    EXPECT_EQ(MaxAbs(result.backward.dq.Select(0, i)), 0);
    EXPECT_EQ(result.forward.lse.template at<T>({1, 2, i}), -std::numeric_limits<T>::infinity());
  }
  EXPECT_EQ(CountNonFinite(result.forward.out), 0);
  EXPECT_EQ(CountNonFinite(result.backward.dk), 0);
}

TYPED_TEST(AttentionTest, HiddenKeysAreNotRead) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    if (c.sequence < 7) continue;
    SCOPED_TRACE(c.name);
    const Inputs<T> in(c);
    const AttentionOptions options = Options(c);
    const Result clean = RunBoth(in.q, in.k, in.v, in.dout, options);
    Inputs<T> poisoned(c);
    Tensor k = poisoned.k.Slice(0, 5, 6), v = poisoned.v.Slice(0, 5, 6);
    k.FillPoison();
    v.FillPoison();
    const Result result = RunBoth(poisoned.q, poisoned.k, poisoned.v, poisoned.dout, options);
    EXPECT_THAT(result.forward.out.Slice(0, 0, 5).Clone(kContext),
                BitEquals(clean.forward.out.Slice(0, 0, 5).Clone(kContext)));
    EXPECT_THAT(result.backward.dq.Slice(0, 0, 5).Clone(kContext),
                BitEquals(clean.backward.dq.Slice(0, 0, 5).Clone(kContext)));
    EXPECT_GT(CountNonFinite(result.forward.out.Select(0, 5)), 0);
  }
}

TEST(AttentionGradientTest, MatchesFiniteDifferences) {
  for (const Case& c : kCases) {
    if (c.sequence > 9) continue;
    SCOPED_TRACE(c.name);
    const Inputs<double> in(c);
    const AttentionOptions options = Options(c);
    const AttentionBackwardResult result = RunBoth(in.q, in.k, in.v, in.dout, options).backward;
    const auto loss = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      return testing::Inner(AttentionForward(kContext, q, k, v, options).out, in.dout);
    };
    // Absolute, because a single key has zero gradients; all others are of order 1.
    const auto expect = [](const Tensor& actual, const std::vector<Wide>& expected) {
      for (int64_t i = 0; i < actual.elements(); ++i) {
        ASSERT_LE(std::abs(actual.data<double>()[i] - expected[i]), testing::kDifferenceBound);
      }
    };
    expect(result.dq,
           testing::FiniteDifferences([&](const Tensor& t) { return loss(t, in.k, in.v); }, in.q));
    expect(result.dk,
           testing::FiniteDifferences([&](const Tensor& t) { return loss(in.q, t, in.v); }, in.k));
    expect(result.dv,
           testing::FiniteDifferences([&](const Tensor& t) { return loss(in.q, in.k, t); }, in.v));
  }
}

TEST(AttentionErrorsTest, ArgumentsMustFit) {
  const Case c = {.name = "errors"};
  const Inputs<double> in(c);
  const auto run = [&](const AttentionOptions& options) {
    return AttentionForward(kContext, in.q, in.k, in.v, options);
  };
  EXPECT_THROW(AttentionForward(kContext, in.q, in.k, in.v.Slice(0, 0, 3), Options(c)),
               InvalidArgument);
  EXPECT_THROW(AttentionForward(kContext, in.q.Slice(2, 0, 3), in.k, in.v, Options(c)),
               InvalidArgument);
  EXPECT_THROW(AttentionForward(kContext, Inputs<float>(c).q, in.k, in.v, Options(c)),
               InvalidArgument);
  AttentionOptions options = Options(c);
  options.query_positions.pop_back();
  EXPECT_THROW(run(options), InvalidArgument);
  options = Options({.name = "packed", .packed = true});
  options.key_positions.back() = c.sequence;
  EXPECT_THROW(run(options), InvalidArgument);
  options = Options({.name = "packed", .batch = 1, .packed = true});
  EXPECT_THROW(run(options), InvalidArgument);
  options = Options(c);
  options.dropout.probability = 1;
  EXPECT_THROW(run(options), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
