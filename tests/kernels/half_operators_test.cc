// Every operator on bf16 and f16: the f32 operator on the widened operands, rounded once, bit for
// bit; and the f64 operator within that one rounding.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/reduce.h"
#include "kernels/rope.h"
#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::kContext;
using testing::Random;
using testing::Scattered;

using Tensors = std::vector<Tensor>;

// An operand of the run's dtype, or one that stays in f32 (f64 in the f64 run).
struct Operand {
  Shape shape;
  bool wide = false;
  bool positive = false;
};

struct Case {
  std::string name;
  std::vector<Operand> operands;
  std::function<Tensors(const Tensors&)> run;
  // By number: results that 16-bit operands give in f32.
  std::vector<size_t> wide_results = {};
  bool strided = true;  // whether operands may have any strides
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Tensor Indices(const Shape& shape, int64_t below) {
  std::vector<int64_t> values(static_cast<size_t>(ElementsOf(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i + 3) % below;
  return Tensor::FromVector<int64_t>(kContext, shape, values);
}

// Runs an operator that works in place on copies of the first `changed` operands.
template <class F>
auto InPlace(size_t changed, F f) {
  return [changed, f](const Tensors& in) {
    Tensors all = in;
    for (size_t i = 0; i < changed; ++i) all[i] = in[i].Clone(kContext);
    f(all);
    return Tensors(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(changed));
  };
}

AttentionOptions AttentionOf(int64_t sequence) {
  AttentionOptions options;
  options.query_positions.resize(static_cast<size_t>(sequence));
  std::iota(options.query_positions.begin(), options.query_positions.end(), 0);
  options.key_positions = options.query_positions;
  options.global_sequence = sequence;
  options.dropout = {.probability = 0.25, .seed = 3, .step = 1, .site_hash = 5, .samples = {0, 1}};
  return options;
}

std::vector<Case> Elementwise() {
  const Operand x = {{4, 3, 10}};
  const Operand scalar = {{}, true};
  return {
      {"add", {x, x}, [](const Tensors& in) { return Tensors{Add(kContext, in[0], in[1])}; }},
      {"subtract",
       {x, x},
       [](const Tensors& in) { return Tensors{Subtract(kContext, in[0], in[1])}; }},
      {"add_into", {x, x}, InPlace(1, [](Tensors& in) { AddInto(kContext, in[0], in[1]); })},
      {"add_into_wide",
       {{x.shape, true}, x},
       InPlace(1, [](Tensors& in) { AddInto(kContext, in[0], in[1]); }),
       {0}},
      {"add_bias",
       {x, {{10}}},
       [](const Tensors& in) { return Tensors{AddBias(kContext, in[0], in[1])}; }},
      {"sum_rows", {x}, [](const Tensors& in) { return Tensors{SumRows(kContext, in[0])}; }},
      {"scale", {x}, InPlace(1, [](Tensors& in) { ScaleInto(kContext, in[0], 0.3); })},
      {"divide_by_count", {x}, InPlace(1, [](Tensors& in) { DivideInto(kContext, in[0], 7); })},
      {"divide", {x, scalar}, InPlace(1, [](Tensors& in) { DivideInto(kContext, in[0], in[1]); })},
      {"multiply",
       {x, scalar},
       InPlace(1, [](Tensors& in) { MultiplyInto(kContext, in[0], in[1]); })},
      {"sum", {x}, [](const Tensors& in) { return Tensors{Sum(kContext, in[0])}; }, {0}},
      {"sum_of_squares",
       {x},
       [](const Tensors& in) { return Tensors{SumOfSquares(kContext, in[0])}; },
       {0}},
      {"dropout",
       {x},
       [](const Tensors& in) {
         const std::vector<int64_t> rows = {2, 3, 5, 8};
         const DropoutKey key = {0.3, 1, 2, 3, {4, 5, 6}};
         return Tensors{Dropout(kContext, in[0], key, rows, 10, 30)};
       }},
  };
}

std::vector<Case> Activations() {
  std::vector<Case> cases;
  for (const Activation kind : {Activation::kGeluTanh, Activation::kGeluErf,
                                Activation::kSquaredRelu, Activation::kSwiglu}) {
    const int64_t outputs = kind == Activation::kSwiglu ? 6 : 12;
    cases.push_back({std::string(Name(kind)), {{{5, 12}}}, [kind](const Tensors& in) {
                       return Tensors{ActivationForward(kContext, kind, in[0])};
                     }});
    cases.push_back({std::string(Name(kind)) + "_backward",
                     {{{5, outputs}}, {{5, 12}}},
                     [kind](const Tensors& in) {
                       return Tensors{ActivationBackward(kContext, kind, in[0], in[1])};
                     }});
  }
  return cases;
}

std::vector<Case> Layers() {
  const Operand x = {{3, 2, 17}};
  const Operand w = {{17}};
  const Operand rows = {{6}, true};
  return {
      {"matmul_nt",
       {x, {{9, 17}}},
       [](const Tensors& in) { return Tensors{MatmulNT(kContext, in[0], in[1])}; }},
      {"matmul_nn",
       {x, {{17, 9}}},
       [](const Tensors& in) { return Tensors{MatmulNN(kContext, in[0], in[1])}; }},
      {"matmul_tn",
       {x, {{3, 2, 9}}},
       [](const Tensors& in) { return Tensors{MatmulTN(kContext, in[0], in[1])}; }},
      {"layer_norm",
       {x, w, w},
       [](const Tensors& in) {
         const NormForwardResult r = LayerNormForward(kContext, in[0], in[1], in[2], 1e-5);
         return Tensors{r.y, r.mean, r.rstd};
       },
       {1, 2}},
      {"layer_norm_backward",
       {x, x, w, rows, rows},
       [](const Tensors& in) {
         const NormBackwardResult r =
             LayerNormBackward(kContext, in[0], in[1], in[2], in[3], in[4]);
         return Tensors{r.dx, r.dweight, r.dbias};
       }},
      {"rms_norm",
       {x, w},
       [](const Tensors& in) {
         const NormForwardResult r = RmsNormForward(kContext, in[0], in[1], 1e-5);
         return Tensors{r.y, r.rstd};
       },
       {1}},
      {"rms_norm_backward",
       {x, x, w, rows},
       [](const Tensors& in) {
         const NormBackwardResult r = RmsNormBackward(kContext, in[0], in[1], in[2], in[3]);
         return Tensors{r.dx, r.dweight};
       }},
      {"embedding",
       {{{7, 5}}},
       [](const Tensors& in) {
         return Tensors{EmbeddingForward(kContext, Indices({2, 6}, 10), in[0], 2)};
       }},
      {"embedding_backward",
       {{{6, 2, 5}}},
       [](const Tensors& in) {
         return Tensors{EmbeddingBackward(kContext, in[0], Indices({2, 6}, 10), 7, 2)};
       }},
  };
}

std::vector<Case> Attentions() {
  const std::vector<double> frequencies = {1, 0.1};
  const Operand q = {{7, 2, 4, 6}};
  const Operand kv = {{7, 2, 2, 6}};
  return {
      {"rope",
       {q},
       [=](const Tensors& in) {
         return Tensors{RopeForward(kContext, in[0], Indices({2, 7}, 9), frequencies, true)};
       }},
      {"rope_backward",
       {q},
       [=](const Tensors& in) {
         return Tensors{RopeBackward(kContext, in[0], Indices({2, 7}, 9), frequencies, false)};
       }},
      {"attention",
       {q, kv, kv},
       [](const Tensors& in) {
         const AttentionForwardResult r =
             AttentionForward(kContext, in[0], in[1], in[2], AttentionOf(7));
         return Tensors{r.out, r.lse};
       },
       {1}},
      {"attention_backward",
       {q, q, kv, kv, q, {{2, 4, 7}, true}},
       [](const Tensors& in) {
         const AttentionBackwardResult r =
             AttentionBackward(kContext, in[0], in[1], in[2], in[3], in[4], in[5], AttentionOf(7));
         return Tensors{r.dq, r.dk, r.dv};
       }},
  };
}

std::vector<Case> Losses() {
  const ClassRange range = {20, 29};  // 9 of the 11 columns are classes
  const Operand logits = {{6, 11}};
  const Operand rows = {{6}, true};
  const Operand sums = {{6}, true, true};
  const auto targets = [] { return Indices({6}, 40); };
  return {
      {"row_max",
       {logits},
       [=](const Tensors& in) { return Tensors{RowMaxScore(kContext, in[0], range)}; },
       {0}},
      {"row_sum_exp",
       {logits, rows},
       [=](const Tensors& in) { return Tensors{RowSumExp(kContext, in[0], in[1], range)}; },
       {0}},
      {"row_target",
       {logits},
       [=](const Tensors& in) {
         return Tensors{RowTargetLogit(kContext, in[0], targets(), range)};
       },
       {0}},
      {"row_sum",
       {logits},
       [=](const Tensors& in) { return Tensors{RowSum(kContext, in[0], range)}; },
       {0}},
      {"cross_entropy_backward",
       {logits, rows, sums, rows},
       [=](const Tensors& in) {
         CrossEntropyTotals totals;
         totals.max = in[1];
         totals.sum_exp = in[2];
         return Tensors{
             CrossEntropyBackward(kContext, in[3], in[0], targets(), totals, range, 0.1)};
       }},
  };
}

std::vector<Case> Updates() {
  const Operand p = {{9, 40}};
  const Operand squares = {{9, 40}, false, true};
  const Operand master = {{9, 40}, true};
  const Operand master_squares = {{9, 40}, true, true};
  const Operand scale = {{}, true};
  const auto adam = [](Tensors& in) {
    const AdamOptions options = {.lr = 0.1, .weight_decay = 0.1, .step = 3};
    AdamStep(kContext, in[0], in[3], in[1], in[2], options, in[4]);
  };
  const auto sgd = [](Tensors& in) {
    const SgdOptions options = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .step = 2};
    SgdStep(kContext, in[0], in[2], in[1], options, in[3]);
  };
  return {
      {"adam", {p, p, squares, p, scale}, InPlace(3, adam), {}, false},
      {"adam_master",
       {master, master, master_squares, p, scale},
       InPlace(3, adam),
       {0, 1, 2},
       false},
      {"sgd", {p, p, p, scale}, InPlace(2, sgd), {}, false},
      {"sgd_master", {master, master, p, scale}, InPlace(2, sgd), {0, 1}, false},
  };
}

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (std::vector<Case>& some :
       std::vector{Elementwise(), Activations(), Layers(), Attentions(), Losses(), Updates()}) {
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

template <class T>
Tensor Draw(const Operand& operand, const std::string& name) {
  const std::vector<double> normal = Random<double>(operand.shape, name).ToVector<double>();
  std::vector<T> values;
  for (double x : normal) values.emplace_back(operand.positive ? std::abs(x) + 0.5 : x);
  return Tensor::FromVector<T>(kContext, operand.shape, values);
}

// The tests' own conversions, element by element.
template <class From, class To>
Tensor Converted(const Tensor& x) {
  std::vector<To> values;
  for (const From value : x.ToVector<From>()) values.emplace_back(static_cast<float>(value));
  return Tensor::FromVector<To>(kContext, x.shape(), values);
}

Tensor AsDoubles(const Tensor& x) {
  return DispatchReal(x.dtype(), [&]<class T>() {
    std::vector<double> values;
    for (const T value : x.ToVector<T>()) values.push_back(static_cast<double>(value));
    return Tensor::FromVector<double>(kContext, x.shape(), values);
  });
}

class HalfOperatorTest : public ::testing::TestWithParam<Case> {
 protected:
  template <class T>
  Tensors Operands() const {
    Tensors operands;
    for (size_t i = 0; i < GetParam().operands.size(); ++i) {
      const Operand& operand = GetParam().operands[i];
      const std::string name = "operand" + std::to_string(i);
      operands.push_back(operand.wide ? Draw<float>(operand, name) : Draw<T>(operand, name));
    }
    return operands;
  }
  bool IsWide(size_t result) const {
    const std::vector<size_t>& wide = GetParam().wide_results;
    return std::find(wide.begin(), wide.end(), result) != wide.end();
  }

  template <class T>
  void EqualsTheF32OperatorRounded() const {
    const Tensors half = Operands<T>();
    Tensors widened;
    Tensors scattered;
    for (const Tensor& x : half) {
      widened.push_back(x.dtype() == DType::kF32 ? x : Converted<T, float>(x));
      scattered.push_back(x.dtype() == DType::kF32 ? Scattered<float>(x) : Scattered<T>(x));
    }
    const Tensors actual = GetParam().run(half);
    const Tensors f32 = GetParam().run(widened);
    ASSERT_EQ(actual.size(), f32.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Tensor expected = IsWide(i) ? f32[i] : Converted<float, T>(f32[i]);
      EXPECT_THAT(actual[i], BitEquals(expected)) << "result " << i;
    }
    if (!GetParam().strided) return;
    const Tensors from_views = GetParam().run(scattered);
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_THAT(from_views[i], BitEquals(actual[i])) << "result " << i;
    }
  }

  // One rounding to T, and beside it what f32 arithmetic is off by: some tens of its roundings.
  template <class T>
  void IsOneRoundingFromF64() const {
    const Tensors half = Operands<T>();
    Tensors doubles;
    for (const Tensor& x : half) doubles.push_back(AsDoubles(x));
    const Tensors actual = GetParam().run(half);
    const Tensors exact = GetParam().run(doubles);
    for (size_t i = 0; i < actual.size(); ++i) {
      const double f32 = 64 * UnitRoundoff(DType::kF32);
      const double bound = IsWide(i) ? f32 : UnitRoundoff(kDTypeOf<T>) + f32;
      const Match match = Matches(actual[i], exact[i], Strength::Within(bound, "u + 64 u32"));
      EXPECT_TRUE(match.ok) << "result " << i << ": " << match.message;
    }
  }
};

TEST_P(HalfOperatorTest, BF16IsTheF32OperatorRounded) { EqualsTheF32OperatorRounded<BF16>(); }
TEST_P(HalfOperatorTest, F16IsTheF32OperatorRounded) { EqualsTheF32OperatorRounded<F16>(); }
TEST_P(HalfOperatorTest, BF16IsOneRoundingFromF64) { IsOneRoundingFromF64<BF16>(); }
TEST_P(HalfOperatorTest, F16IsOneRoundingFromF64) { IsOneRoundingFromF64<F16>(); }

INSTANTIATE_TEST_SUITE_P(All, HalfOperatorTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& instance) { return instance.param.name; });

template <class T>
class HalfTensorTest : public ::testing::Test {};
using Halves = ::testing::Types<BF16, F16>;
TYPED_TEST_SUITE(HalfTensorTest, Halves, testing::ScalarNames);

template <class T>
Tensor Of(const std::vector<double>& values) {
  std::vector<T> rounded(values.begin(), values.end());
  return Tensor::FromVector<T>(kContext, {static_cast<int64_t>(values.size())}, rounded);
}

// As a row-parallel layer over `splits` ranks: each rank's product is stored, and their sum.
TYPED_TEST(HalfTensorTest, RoundedSumOrderIsThatOfARowParallelLayer) {
  using T = TypeParam;
  const Tensor x = Random<T>({3, 5, 24}, "x");
  const Tensor w = Random<T>({7, 24}, "w");
  for (const bool descending : {false, true}) {
    Context context;
    context.sum_order = {.splits = 3, .descending = descending, .rounded = true};
    Tensor expected;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t begin = 8 * (descending ? 2 - i : i);
      const Tensor part =
          MatmulNT(kContext, x.Slice(-1, begin, begin + 8), w.Slice(1, begin, begin + 8));
      if (i == 0) expected = part;
      if (i > 0) AddInto(kContext, expected, part);
    }
    EXPECT_THAT(MatmulNT(context, x, w), BitEquals(expected));
    EXPECT_THAT(MatmulNN(context, x, w.Transpose(0, 1).Clone(kContext)), BitEquals(expected));
    EXPECT_FALSE(BitEqual(MatmulNT(kContext, x, w), expected));
    const Tensor dy = x.View({15, 24}).Transpose(0, 1), wt = w.Transpose(0, 1);
    Context in_f32 = context;
    in_f32.sum_order.rounded = false;
    EXPECT_THAT(MatmulTN(context, dy, wt), BitEquals(MatmulTN(in_f32, dy, wt)));
  }
}

// What the bound of IsOneRoundingFromF64 would see: a sum that is rounded at every addition.
TYPED_TEST(HalfTensorTest, SumsInTheDtypeAreOutsideTheBound) {
  using T = TypeParam;
  const Tensor x = Random<T>({64, 9}, "x");
  Tensor chain = Tensor::Zeros(kContext, x.dtype(), {9});
  for (int64_t row = 0; row < 64; ++row) AddInto(kContext, chain, x.Select(0, row));
  const Tensor exact = SumRows(kContext, AsDoubles(x));
  const double bound = UnitRoundoff(x.dtype()) + 64 * UnitRoundoff(DType::kF32);
  EXPECT_TRUE(Compare(SumRows(kContext, x), exact).Within(bound));
  EXPECT_FALSE(Compare(chain, exact).Within(bound));
}

TYPED_TEST(HalfTensorTest, CastRoundsOnce) {
  using T = TypeParam;
  constexpr DType kHalf = kDTypeOf<T>;
  const double unit = UnitRoundoff(kHalf);
  // By way of f32 the first would become the tie 1 + u and then 1.
  const Tensor f64 = Of<double>({1 + unit + 0x1p-40, 1 + unit, -3, 0x1p-13});
  EXPECT_THAT(Cast(kContext, f64, kHalf), BitEquals(Of<T>({1 + 2 * unit, 1, -3, 0x1p-13})));
  const Tensor f32 = Cast(kContext, f64, DType::kF32);
  EXPECT_THAT(Cast(kContext, f32, kHalf), BitEquals(Of<T>({1, 1, -3, 0x1p-13})));
  // Widening is exact.
  const Tensor half = Random<T>({5, 7}, "x");
  for (DType wide : {DType::kF32, DType::kF64}) {
    EXPECT_THAT(Cast(kContext, Cast(kContext, half, wide), kHalf), BitEquals(half));
    EXPECT_THAT(Cast(kContext, Cast(kContext, Scattered<T>(half), wide), kHalf), BitEquals(half));
  }
  EXPECT_THROW(Cast(kContext, half, DType::kI64), InvalidArgument);
}

TYPED_TEST(HalfTensorTest, BetweenTheTwoHalvesCastRoundsOnce) {
  const double between = 1 + 0x1p-9;  // a number of f16 alone
  EXPECT_THAT(Cast(kContext, Of<F16>({between, 40000}), DType::kBF16),
              BitEquals(Of<BF16>({1, 39936})));
  EXPECT_THAT(Cast(kContext, Of<BF16>({1.5, 0x1p20}), DType::kF16),
              BitEquals(Of<F16>({1.5, INFINITY})));
}

TYPED_TEST(HalfTensorTest, CountsWhatIsNotFinite) {
  using T = TypeParam;
  EXPECT_EQ(CountNonFinite(Of<T>({1, INFINITY, -INFINITY, NAN, 0})), 3);
  EXPECT_EQ(CountNonFinite(Scattered<T>(Of<T>({1, 2, 3}))), 0);
}

// Adding u to 1 changes nothing in the dtype, and in f32 it does.
TYPED_TEST(HalfTensorTest, MainGradKeepsWhatTheDtypeWouldLose) {
  using T = TypeParam;
  const double unit = UnitRoundoff(kDTypeOf<T>);
  Tensor main_grad = Of<float>({1});
  Tensor grad = Of<T>({1});
  for (int i = 0; i < 4; ++i) {
    AddInto(kContext, main_grad, Of<T>({unit}));
    AddInto(kContext, grad, Of<T>({unit}));
  }
  EXPECT_THAT(main_grad, BitEquals(Of<float>({1 + 4 * unit})));
  EXPECT_THAT(grad, BitEquals(Of<T>({1})));
  Tensor f64 = Of<double>({1});
  EXPECT_THROW(AddInto(kContext, f64, grad), InvalidArgument);
  EXPECT_THROW(AddInto(kContext, grad, main_grad), InvalidArgument);
}

TYPED_TEST(HalfTensorTest, ReductionRoundsEveryAddition) {
  using T = TypeParam;
  const double unit = UnitRoundoff(kDTypeOf<T>);
  const Tensor one = Of<T>({1, -4});
  const Tensor small = Of<T>({unit, 4 * unit});
  const auto reduce = [](ReduceOp op, const std::vector<const Tensor*>& sources) {
    Tensor result = Tensor::Empty(kContext, sources[0]->dtype(), sources[0]->shape());
    Reduce(op, sources, result);
    return result;
  };
  EXPECT_THAT(reduce(ReduceOp::kSum, {&one, &small, &small}), BitEquals(Of<T>({1, -4 + 8 * unit})));
  EXPECT_THAT(reduce(ReduceOp::kSum, {&small, &small, &one}),
              BitEquals(Of<T>({1 + 2 * unit, -4 + 8 * unit})));
  EXPECT_THAT(reduce(ReduceOp::kAvg, {&one, &one, &small}), BitEquals(Of<T>({2. / 3, -8. / 3})));
  EXPECT_THAT(reduce(ReduceOp::kMax, {&one, &small}), BitEquals(Of<T>({1, 4 * unit})));
  EXPECT_THAT(reduce(ReduceOp::kMin, {&one, &small}), BitEquals(Of<T>({unit, -4})));
}

TYPED_TEST(HalfTensorTest, DtypesThatDoNotFitAreRefused) {
  using T = TypeParam;
  const Tensor half = Random<T>({4, 4}, "x");
  const Tensor f32 = Random<float>({4, 4}, "y");
  EXPECT_THROW(Add(kContext, half, f32), InvalidArgument);
  EXPECT_THROW(MatmulNT(kContext, half, f32), InvalidArgument);
  EXPECT_THROW(RmsNormBackward(kContext, half, half, half.Select(0, 0), half.Select(0, 1)),
               InvalidArgument)
      << "rstd is f32";
  EXPECT_THROW(RowSumExp(kContext, half, half.Select(0, 0), {0, 4}), InvalidArgument)
      << "the maximum is f32";
}

}  // namespace
}  // namespace plumbline
