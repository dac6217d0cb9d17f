#include "kernels/cross_entropy.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

using host::LogSumOf;
using host::One;
using host::ScoreOf;
using host::Zero;

// Logits [T, V_local] in rows, and how many of the columns are classes.
template <class T>
struct LogitRows {
  LogitRows(const Context& context, const Tensor& logits, const ClassRange& range)
      : packed(context, logits),
        data(packed.template data<T>()),
        rows(logits.dim(0)),
        stride(logits.dim(1)),
        valid(std::clamp<int64_t>(range.valid_classes - range.first_class, 0, logits.dim(1))) {}

  T At(int64_t row, int64_t column) const { return data[row * stride + column]; }

  host::Packed packed;
  const T* data;
  int64_t rows;
  int64_t stride;
  int64_t valid;  // columns before the padding
};

void CheckLogits(std::string_view op, const Tensor& logits, const ClassRange& range) {
  host::CheckDims(op, "logits", logits, 2);
  if (range.first_class < 0 || range.valid_classes < 0) {
    throw InvalidArgument("{}: classes from {} of {}; expected neither negative", op,
                          range.first_class, range.valid_classes);
  }
}

void CheckPerToken(std::string_view op, std::string_view name, const Tensor& logits,
                   const Tensor& per_token) {
  host::CheckShape(op, name, per_token, {logits.dim(0)});
  host::CheckDType(op, name, per_token, ComputeDType(logits.dtype()));
}

void CheckTargets(std::string_view op, const Tensor& logits, const Tensor& targets) {
  host::CheckIndices(op, "targets", targets);
  host::CheckShape(op, "targets", targets, {logits.dim(0)});
}

// Column of the target, or -1 when another rank has it or it is no class.
template <class T>
int64_t TargetColumn(const LogitRows<T>& logits, const Tensor& targets, int64_t row,
                     const ClassRange& range) {
  const int64_t column = targets.data<int64_t>()[row * targets.strides()[0]] - range.first_class;
  return column >= 0 && column < logits.valid ? column : -1;
}

template <class T>
Tensor RowMaxScoreImpl(const Context& context, const Tensor& logits, const ClassRange& range) {
  using Traits = ScalarTraits<T>;
  const LogitRows<T> in(context, logits, range);
  Tensor result = Tensor::Empty(context, logits.dtype(), {in.rows});
  T* out = result.data<T>();
  std::fill_n(out, in.rows, Traits::StoreScore(Traits::LowestScore()));
  host::RowChains<T>(
      in.rows, in.valid,
      [&in](int64_t row, int64_t j, T largest) {
        return Traits::StoreScore(
            Traits::Max(Traits::LoadScore(largest), Traits::ToScore(in.At(row, j))));
      },
      out);
  return result;
}

template <class T>
Tensor RowSumExpImpl(const Context& context, const Tensor& logits, const Tensor& max,
                     const ClassRange& range) {
  using Traits = ScalarTraits<T>;
  const LogitRows<T> in(context, logits, range);
  const host::Packed shifts(context, max);
  Tensor result = Tensor::Empty(context, logits.dtype(), {in.rows});
  for (int64_t row = 0; row < in.rows; ++row) {
    const ScoreOf<T> shift = Traits::LoadScore(shifts.data<T>()[row]);
    T sum = Zero<T>();
    for (int64_t j = 0; j < in.valid; ++j) {
      sum = sum + Traits::ExpShifted(Traits::ToScore(in.At(row, j)), shift);
    }
    result.data<T>()[row] = sum;
  }
  return result;
}

template <class T>
Tensor RowTargetLogitImpl(const Context& context, const Tensor& logits, const Tensor& targets,
                          const ClassRange& range) {
  const LogitRows<T> in(context, logits, range);
  Tensor result = Tensor::Empty(context, logits.dtype(), {in.rows});
  for (int64_t row = 0; row < in.rows; ++row) {
    const int64_t column = TargetColumn(in, targets, row, range);
    result.data<T>()[row] = column < 0 ? Zero<T>() : in.At(row, column);
  }
  return result;
}

template <class T>
Tensor RowSumImpl(const Context& context, const Tensor& logits, const ClassRange& range) {
  const LogitRows<T> in(context, logits, range);
  Tensor result = Tensor::Empty(context, logits.dtype(), {in.rows});
  T* out = result.data<T>();
  std::fill_n(out, in.rows, Zero<T>());
  host::RowChains<T>(
      in.rows, in.valid, [&in](int64_t row, int64_t j, T sum) { return sum + in.At(row, j); }, out);
  return result;
}

// The weights of the target and of every other class in the smoothed distribution.
template <class T>
struct Smoothing {
  Smoothing(int64_t valid_classes, double label_smoothing)
      : target(One<T>() - ScalarTraits<T>::FromDouble(label_smoothing)), other(Zero<T>()) {
    if (label_smoothing == 0) return;
    if (valid_classes < 2) {
      throw InvalidArgument("label smoothing {} over {} classes; expected at least 2",
                            label_smoothing, valid_classes);
    }
    other =
        ScalarTraits<T>::FromDouble(label_smoothing) / ScalarTraits<T>::FromInt(valid_classes - 1);
  }

  T target;
  T other;
};

template <class T>
LogSumOf<T> LogSumAt(const host::Packed& max, const host::Packed& sum_exp, int64_t row) {
  return ScalarTraits<T>::MakeLogSum(ScalarTraits<T>::LoadScore(max.data<T>()[row]),
                                     sum_exp.data<T>()[row]);
}

template <class T>
Tensor LossImpl(const Context& context, const CrossEntropyTotals& totals, int64_t valid_classes,
                double label_smoothing) {
  const host::Packed max(context, totals.max);
  const host::Packed sum_exp(context, totals.sum_exp);
  const host::Packed target(context, totals.target);
  const Tensor logit_sum = label_smoothing != 0 ? totals.logit_sum.Contiguous(context) : Tensor();
  const Smoothing<T> weight(valid_classes, label_smoothing);
  Tensor result = Tensor::Empty(context, totals.max.dtype(), totals.max.shape());
  for (int64_t row = 0; row < totals.max.elements(); ++row) {
    // The weights add up to 1, so that log z stands alone.
    const T log_z = ScalarTraits<T>::Log(LogSumAt<T>(max, sum_exp, row));
    const T y = target.data<T>()[row];
    T loss = log_z - weight.target * y;
    if (logit_sum.defined()) loss = loss - weight.other * (logit_sum.data<T>()[row] - y);
    result.data<T>()[row] = loss;
  }
  return result;
}

template <class T>
Tensor BackwardImpl(const Context& context, const Tensor& dloss, const Tensor& logits,
                    const Tensor& targets, const CrossEntropyTotals& totals,
                    const ClassRange& range, double label_smoothing) {
  using Traits = ScalarTraits<T>;
  const LogitRows<T> in(context, logits, range);
  const host::Packed max(context, totals.max);
  const host::Packed sum_exp(context, totals.sum_exp);
  const host::Packed gradient(context, dloss);
  const Smoothing<T> weight(range.valid_classes, label_smoothing);
  Tensor result = Tensor::Empty(context, logits.dtype(), logits.shape());
  for (int64_t row = 0; row < in.rows; ++row) {
    const LogSumOf<T> log_z = LogSumAt<T>(max, sum_exp, row);
    const T g = gradient.data<T>()[row];
    const int64_t column = TargetColumn(in, targets, row, range);
    T* out = result.data<T>() + row * in.stride;
    for (int64_t j = 0; j < in.valid; ++j) {
      const T p = Traits::Probability(Traits::ToScore(in.At(row, j)), log_z);
      out[j] = (p - (j == column ? weight.target : weight.other)) * g;
    }
    std::fill(out + in.valid, out + in.stride, Zero<T>());
  }
  return result;
}

}  // namespace

Tensor RowMaxScore(const Context& context, const Tensor& logits, const ClassRange& range) {
  CheckLogits("row max", logits, range);
  if (const host::InF32 f32(context, logits.dtype()); f32.needed()) {
    return f32.Keep(RowMaxScore(f32.context(), f32.Widen(logits), range));
  }
  return DispatchScalar(logits.dtype(),
                        [&]<class T>() { return RowMaxScoreImpl<T>(context, logits, range); });
}

Tensor RowSumExp(const Context& context, const Tensor& logits, const Tensor& max,
                 const ClassRange& range) {
  CheckLogits("row sum exp", logits, range);
  CheckPerToken("row sum exp", "max", logits, max);
  if (const host::InF32 f32(context, logits.dtype()); f32.needed()) {
    return f32.Keep(RowSumExp(f32.context(), f32.Widen(logits), max, range));
  }
  return DispatchScalar(logits.dtype(),
                        [&]<class T>() { return RowSumExpImpl<T>(context, logits, max, range); });
}

Tensor RowTargetLogit(const Context& context, const Tensor& logits, const Tensor& targets,
                      const ClassRange& range) {
  CheckLogits("row target logit", logits, range);
  CheckTargets("row target logit", logits, targets);
  if (const host::InF32 f32(context, logits.dtype()); f32.needed()) {
    return f32.Keep(RowTargetLogit(f32.context(), f32.Widen(logits), targets, range));
  }
  return DispatchScalar(logits.dtype(), [&]<class T>() {
    return RowTargetLogitImpl<T>(context, logits, targets, range);
  });
}

Tensor RowSum(const Context& context, const Tensor& logits, const ClassRange& range) {
  CheckLogits("row sum", logits, range);
  if (const host::InF32 f32(context, logits.dtype()); f32.needed()) {
    return f32.Keep(RowSum(f32.context(), f32.Widen(logits), range));
  }
  return DispatchScalar(logits.dtype(),
                        [&]<class T>() { return RowSumImpl<T>(context, logits, range); });
}

Tensor CrossEntropyLoss(const Context& context, const CrossEntropyTotals& totals,
                        int64_t valid_classes, double label_smoothing) {
  host::CheckDims("cross entropy", "max", totals.max, 1);
  host::CheckShape("cross entropy", "sum_exp", totals.sum_exp, totals.max.shape());
  host::CheckShape("cross entropy", "target", totals.target, totals.max.shape());
  if (label_smoothing != 0) {
    host::CheckShape("cross entropy", "logit_sum", totals.logit_sum, totals.max.shape());
  }
  return DispatchScalar(totals.max.dtype(), [&]<class T>() {
    return LossImpl<T>(context, totals, valid_classes, label_smoothing);
  });
}

Tensor CrossEntropyBackward(const Context& context, const Tensor& dloss, const Tensor& logits,
                            const Tensor& targets, const CrossEntropyTotals& totals,
                            const ClassRange& range, double label_smoothing) {
  CheckLogits("cross entropy backward", logits, range);
  CheckTargets("cross entropy backward", logits, targets);
  CheckPerToken("cross entropy backward", "dloss", logits, dloss);
  CheckPerToken("cross entropy backward", "max", logits, totals.max);
  CheckPerToken("cross entropy backward", "sum_exp", logits, totals.sum_exp);
  if (const host::InF32 f32(context, logits.dtype()); f32.needed()) {
    return f32.Round(CrossEntropyBackward(f32.context(), dloss, f32.Widen(logits), targets, totals,
                                          range, label_smoothing));
  }
  return DispatchScalar(logits.dtype(), [&]<class T>() {
    return BackwardImpl<T>(context, dloss, logits, targets, totals, range, label_smoothing);
  });
}

}  // namespace plumbline
