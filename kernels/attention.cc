#include "kernels/attention.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/attention_plan.h"
#include "kernels/host/common.h"
#include "kernels/host/gemm.h"
#include "kernels/host/keep_mask.h"

namespace plumbline {
namespace {

using host::AttentionExtents;
using host::KeyRun;
using host::kQueryBlock;
using host::LogSumOf;
using host::MatrixView;
using host::MultiplyAdd;
using host::One;
using host::ScoreOf;
using host::VisibleKeys;
using host::Zero;

// What forward and backward know of one (batch row, head): its mask and its coefficients.
template <class T>
struct HeadRules {
  const AttentionExtents& extents;
  const AttentionOptions& options;
  const VisibleKeys& visible;
  const std::optional<host::KeepMask>& mask;
  int64_t head;
  T scale;        // 1 / sqrt(D)
  T kept_factor;  // 1 / (1 - p)

  // weights[j] of a query's visible keys times the dropout's 0 or 1 / (1 - p).
  void DropOut(int64_t query, T* weights) const {
    if (!mask.has_value()) return;
    const int64_t row = (options.first_head + head) * options.global_sequence +
                        options.query_positions[static_cast<size_t>(query)];
    for (const KeyRun& run : visible.Of(query)) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        const int64_t index =
            row * options.global_sequence + options.key_positions[static_cast<size_t>(j)];
        weights[j] =
            mask->Keeps(static_cast<uint64_t>(index)) ? weights[j] * kept_factor : Zero<T>();
      }
    }
  }
};

template <class T>
T ScoreScale(int64_t channels) {
  return One<T>() / ScalarTraits<T>::Sqrt(ScalarTraits<T>::FromInt(channels));
}

// out[d] = chain over the visible keys j, ascending, of weights[j] * x(j, d); x has adjacent
// channels.
template <class T>
void WeightedSum(std::span<const KeyRun> runs, const T* weights, const T* x, int64_t x_stride,
                 int64_t channels, T* out) {
  std::fill_n(out, channels, Zero<T>());
  for (const KeyRun& run : runs) {
    for (int64_t j = run.begin; j < run.end; ++j) {
      const T weight = weights[j];
      const T* row = x + j * x_stride;
      for (int64_t d = 0; d < channels; ++d) out[d] = MultiplyAdd(weight, row[d], out[d]);
    }
  }
}

// The softmax of one query's scores in place: `scores` become exp(score - max), without the
// division by their sum.
template <class T>
struct RowSoftmax {
  using Traits = ScalarTraits<T>;

  RowSoftmax(std::span<const KeyRun> runs, T scale, T* scores) {
    for (const KeyRun& run : runs) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        scores[j] = scores[j] * scale;
        max = Traits::Max(max, Traits::ToScore(scores[j]));
      }
    }
    for (const KeyRun& run : runs) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        scores[j] = Traits::ExpShifted(Traits::ToScore(scores[j]), max);
        sum = sum + scores[j];
      }
    }
  }

  ScoreOf<T> max = Traits::LowestScore();
  T sum = Zero<T>();
};

// Channels adjacent, so that the inner loops run over them.
Tensor WithAdjacentChannels(const Context& context, const Tensor& x) {
  return x.strides()[3] == 1 ? x : x.Contiguous(context);
}

template <class T>
class ForwardRun {
 public:
  ForwardRun(const Context& context, const AttentionExtents& extents, const Tensor& q,
             const Tensor& k, const Tensor& v, const AttentionOptions& options)
      : extents_(extents),
        options_(options),
        q_(q),
        k_(k),
        v_(WithAdjacentChannels(context, v)),
        scores_(Tensor::Empty(context, q.dtype(),
                              {std::min(kQueryBlock, extents.queries), extents.keys})) {
    result_.out = Tensor::Empty(context, q.dtype(), q.shape());
    result_.lse =
        Tensor::Empty(context, q.dtype(), {extents.batch, extents.heads, extents.queries});
  }

  AttentionForwardResult Run() {
    const bool drops = host::Drops("attention", options_.dropout, extents_.batch);
    for (int64_t b = 0; b < extents_.batch; ++b) {
      const VisibleKeys visible(options_, b);
      std::optional<host::KeepMask> mask;
      if (drops) mask.emplace(options_.dropout, b);
      for (int64_t head = 0; head < extents_.heads; ++head) {
        const HeadRules<T> rules = {extents_,
                                    options_,
                                    visible,
                                    mask,
                                    head,
                                    ScoreScale<T>(extents_.channels),
                                    host::KeptFactor<T>(options_.dropout.probability)};
        for (int64_t i = 0; i < extents_.queries; i += kQueryBlock) {
          Block(rules, b, i, std::min(i + kQueryBlock, extents_.queries));
        }
      }
    }
    return std::move(result_);
  }

 private:
  void Block(const HeadRules<T>& rules, int64_t b, int64_t begin, int64_t end) {
    const int64_t group = rules.head / (extents_.heads / extents_.groups);
    const KeyRun hull = rules.visible.Hull(begin, end);
    T* scores = scores_.data<T>();
    host::RowProducts<T>(host::HeadView<T>(q_, b, rules.head), begin, end - begin,
                         host::HeadView<T>(k_, b, group), hull, extents_.channels,
                         scores + hull.begin, extents_.keys);
    const MatrixView<T> v = host::HeadView<T>(v_, b, group);
    for (int64_t query = begin; query < end; ++query) {
      T* row = scores + (query - begin) * extents_.keys;
      const std::span<const KeyRun> runs = rules.visible.Of(query);
      const RowSoftmax<T> softmax(runs, rules.scale, row);
      rules.DropOut(query, row);
      T* out = result_.out.template data<T>() +
               ((query * extents_.batch + b) * extents_.heads + rules.head) * extents_.channels;
      WeightedSum<T>(runs, row, v.data, v.row_stride, extents_.channels, out);
      if (!runs.empty()) {
        for (int64_t d = 0; d < extents_.channels; ++d) out[d] = out[d] / softmax.sum;
      }
      result_.lse.template data<T>()[(b * extents_.heads + rules.head) * extents_.queries + query] =
          ScalarTraits<T>::StoreLogSum(ScalarTraits<T>::MakeLogSum(softmax.max, softmax.sum));
    }
  }

  const AttentionExtents& extents_;
  const AttentionOptions& options_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor v_;
  Tensor scores_;
  AttentionForwardResult result_;
};

// With P = exp(score - lse), M the dropout's factors and delta = dout . out:
//   dv_j = sum_i M_ij P_ij dout_i,  ds_ij = P_ij (M_ij dout_i . v_j - delta_i),
//   dq_i = sum_j ds_ij k_j / sqrt(D),  dk_j = sum_i ds_ij q_i / sqrt(D).
template <class T>
class BackwardRun {
 public:
  BackwardRun(const Context& context, const AttentionExtents& extents, const Tensor& dout,
              const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
              const Tensor& lse, const AttentionOptions& options)
      : extents_(extents),
        options_(options),
        dout_(dout.Contiguous(context)),
        q_(WithAdjacentChannels(context, q)),
        k_(WithAdjacentChannels(context, k)),
        v_(v),
        out_(out.Contiguous(context)),
        lse_(lse.Contiguous(context)) {
    const int64_t block = std::min(kQueryBlock, extents.queries);
    probabilities_ = Tensor::Empty(context, q.dtype(), {block, extents.keys});
    slopes_ = Tensor::Empty(context, q.dtype(), {block, extents.keys});
    head_dk_ = Tensor::Empty(context, q.dtype(), {extents.keys, extents.channels});
    head_dv_ = Tensor::Empty(context, q.dtype(), {extents.keys, extents.channels});
    result_.dq = Tensor::Empty(context, q.dtype(), q.shape());
    result_.dk = Tensor::Zeros(context, k.dtype(), k.shape());
    result_.dv = Tensor::Zeros(context, v.dtype(), v.shape());
  }

  AttentionBackwardResult Run() {
    const bool drops = host::Drops("attention backward", options_.dropout, extents_.batch);
    for (int64_t b = 0; b < extents_.batch; ++b) {
      const VisibleKeys visible(options_, b);
      std::optional<host::KeepMask> mask;
      if (drops) mask.emplace(options_.dropout, b);
      for (int64_t head = 0; head < extents_.heads; ++head) {
        const HeadRules<T> rules = {extents_,
                                    options_,
                                    visible,
                                    mask,
                                    head,
                                    ScoreScale<T>(extents_.channels),
                                    host::KeptFactor<T>(options_.dropout.probability)};
        Head(rules, b);
      }
    }
    return std::move(result_);
  }

 private:
  void Head(const HeadRules<T>& rules, int64_t b) {
    std::fill_n(head_dk_.data<T>(), head_dk_.elements(), Zero<T>());
    std::fill_n(head_dv_.data<T>(), head_dv_.elements(), Zero<T>());
    for (int64_t i = 0; i < extents_.queries; i += kQueryBlock) {
      Block(rules, b, i, std::min(i + kQueryBlock, extents_.queries));
    }
    const int64_t group = GroupOf(rules);
    AddHead(head_dk_, b, group, result_.dk);
    AddHead(head_dv_, b, group, result_.dv);
  }

  void Block(const HeadRules<T>& rules, int64_t b, int64_t begin, int64_t end) {
    const KeyRun hull = rules.visible.Hull(begin, end);
    const int64_t group = GroupOf(rules);
    host::RowProducts<T>(host::HeadView<T>(q_, b, rules.head), begin, end - begin,
                         host::HeadView<T>(k_, b, group), hull, extents_.channels,
                         probabilities_.data<T>() + hull.begin, extents_.keys);
    host::RowProducts<T>(host::HeadView<T>(dout_, b, rules.head), begin, end - begin,
                         host::HeadView<T>(v_, b, group), hull, extents_.channels,
                         slopes_.data<T>() + hull.begin, extents_.keys);
    for (int64_t query = begin; query < end; ++query) {
      Query(rules, b, query, probabilities_.data<T>() + (query - begin) * extents_.keys,
            slopes_.data<T>() + (query - begin) * extents_.keys);
    }
  }

  // `weights` come as q . k and `slopes` as dout . v.
  void Query(const HeadRules<T>& rules, int64_t b, int64_t query, T* weights, T* slopes) {
    using Traits = ScalarTraits<T>;
    const std::span<const KeyRun> runs = rules.visible.Of(query);
    const int64_t row = (query * extents_.batch + b) * extents_.heads + rules.head;
    const T* dout = dout_.data<T>() + row * extents_.channels;
    const T* out = out_.data<T>() + row * extents_.channels;
    T delta = Zero<T>();
    for (int64_t d = 0; d < extents_.channels; ++d) delta = MultiplyAdd(dout[d], out[d], delta);
    const LogSumOf<T> lse = Traits::LoadLogSum(
        lse_.data<T>()[(b * extents_.heads + rules.head) * extents_.queries + query]);
    rules.DropOut(query, slopes);
    for (const KeyRun& run : runs) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        weights[j] = Traits::Probability(Traits::ToScore(weights[j] * rules.scale), lse);
        slopes[j] = weights[j] * (slopes[j] - delta) * rules.scale;
      }
    }
    rules.DropOut(query, weights);
    const MatrixView<T> k = host::HeadView<T>(k_, b, GroupOf(rules));
    WeightedSum<T>(runs, slopes, k.data, k.row_stride, extents_.channels,
                   result_.dq.template data<T>() + row * extents_.channels);
    const MatrixView<T> q = host::HeadView<T>(q_, b, rules.head);
    const T* q_row = q.data + query * q.row_stride;
    for (const KeyRun& run : runs) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        T* dk = head_dk_.data<T>() + j * extents_.channels;
        T* dv = head_dv_.data<T>() + j * extents_.channels;
        for (int64_t d = 0; d < extents_.channels; ++d) {
          dk[d] = MultiplyAdd(slopes[j], q_row[d], dk[d]);
          dv[d] = MultiplyAdd(weights[j], dout[d], dv[d]);
        }
      }
    }
  }

  int64_t GroupOf(const HeadRules<T>& rules) const {
    return rules.head / (extents_.heads / extents_.groups);
  }

  void AddHead(const Tensor& head, int64_t b, int64_t group, Tensor& sum) const {
    const int64_t channels = extents_.channels;
    for (int64_t j = 0; j < extents_.keys; ++j) {
      const T* from = head.data<T>() + j * channels;
      T* to = sum.data<T>() + ((j * extents_.batch + b) * extents_.groups + group) * channels;
      for (int64_t d = 0; d < channels; ++d) to[d] = to[d] + from[d];
    }
  }

  const AttentionExtents& extents_;
  const AttentionOptions& options_;
  const Tensor dout_;
  const Tensor q_;
  const Tensor k_;
  const Tensor& v_;
  const Tensor out_;
  const Tensor lse_;
  Tensor probabilities_;
  Tensor slopes_;
  Tensor head_dk_;
  Tensor head_dv_;
  AttentionBackwardResult result_;
};

}  // namespace

AttentionForwardResult AttentionForward(const Context& context, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionOptions& options) {
  const AttentionExtents extents = host::CheckAttention("attention", q, k, v, options);
  return DispatchScalar(q.dtype(), [&]<class T>() {
    return ForwardRun<T>(context, extents, q, k, v, options).Run();
  });
}

AttentionBackwardResult AttentionBackward(const Context& context, const Tensor& dout,
                                          const Tensor& q, const Tensor& k, const Tensor& v,
                                          const Tensor& out, const Tensor& lse,
                                          const AttentionOptions& options) {
  const AttentionExtents extents = host::CheckAttention("attention backward", q, k, v, options);
  host::CheckSame("attention backward", dout, q);
  host::CheckSame("attention backward", out, q);
  host::CheckDTypes("attention backward", q, lse);
  host::CheckShape("attention backward", "lse", lse,
                   {extents.batch, extents.heads, extents.queries});
  return DispatchScalar(q.dtype(), [&]<class T>() {
    return BackwardRun<T>(context, extents, dout, q, k, v, out, lse, options).Run();
  });
}

}  // namespace plumbline
