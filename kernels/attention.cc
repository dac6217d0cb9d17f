#include "kernels/attention.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/attention_plan.h"
#include "kernels/host/common.h"
#include "kernels/host/gemm.h"
#include "kernels/host/in_f32.h"
#include "kernels/host/keep_mask.h"
#include "kernels/host/weighted_sum.h"

namespace plumbline {
namespace {

using host::AttentionExtents;
using host::kQueryBlock;
using host::LogSumOf;
using host::MatrixView;
using host::MultiplyAdd;
using host::One;
using host::Run;
using host::RunLists;
using host::ScoreOf;
using host::Zero;

// What forward and backward know of one (batch row, head): its mask and its coefficients.
template <class T>
struct HeadRules {
  HeadRules(const AttentionExtents& extents, const AttentionOptions& options,
            const RunLists& keys_of_queries, const std::optional<host::KeepMask>& keep_mask,
            int64_t head_number)
      : options(options),
        keys_of(keys_of_queries),
        mask(keep_mask),
        head(head_number),
        group(head_number / (extents.heads / extents.groups)),
        scale(One<T>() / ScalarTraits<T>::Sqrt(ScalarTraits<T>::FromInt(extents.channels))),
        kept_factor(host::KeptFactor<T>(options.dropout.probability)) {}

  // weights[j] of a query's visible keys times the dropout's 0 or 1 / (1 - p).
  void DropOut(int64_t query, T* weights) const {
    if (!mask.has_value()) return;
    const int64_t row = (options.first_head + head) * options.global_sequence +
                        options.query_positions[static_cast<size_t>(query)];
    for (const Run& run : keys_of.Of(query)) {
      for (int64_t j = run.begin; j < run.end;) {
        // Keys at consecutive positions have consecutive words.
        const int64_t position = options.key_positions[static_cast<size_t>(j)];
        int64_t n = 1;
        while (j + n < run.end &&
               options.key_positions[static_cast<size_t>(j + n)] == position + n) {
          ++n;
        }
        mask->ForEach(static_cast<uint64_t>(row * options.global_sequence + position), n,
                      [&, w = weights + j](int64_t i, bool kept) {
                        const T value = w[i] * kept_factor;
                        w[i] = kept ? value : Zero<T>();
                      });
        j += n;
      }
    }
  }

  const AttentionOptions& options;
  const RunLists& keys_of;
  const std::optional<host::KeepMask>& mask;
  int64_t head;
  int64_t group;
  T scale;        // 1 / sqrt(D)
  T kept_factor;  // 1 / (1 - p)
};

// The softmax of one query's scores in place: `scores` become exp(score - max), without the
// division by their sum.
template <class T>
struct RowSoftmax {
  using Traits = ScalarTraits<T>;

  RowSoftmax(std::span<const Run> runs, T scale, T* scores) {
    for (const Run& run : runs) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        scores[j] = scores[j] * scale;
        max = Traits::Max(max, Traits::ToScore(scores[j]));
      }
    }
    for (const Run& run : runs) {
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

  AttentionForwardResult Compute() {
    const bool drops = host::Drops("attention", options_.dropout, extents_.batch);
    for (int64_t b = 0; b < extents_.batch; ++b) {
      const RunLists keys_of = host::KeysOfQueries(options_, b);
      std::optional<host::KeepMask> mask;
      if (drops) mask.emplace(options_.dropout, b);
      for (int64_t head = 0; head < extents_.heads; ++head) {
        const HeadRules<T> rules(extents_, options_, keys_of, mask, head);
        for (int64_t i = 0; i < extents_.queries; i += kQueryBlock) {
          Block(rules, b, i, std::min(i + kQueryBlock, extents_.queries));
        }
      }
    }
    return std::move(result_);
  }

 private:
  void Block(const HeadRules<T>& rules, int64_t b, int64_t begin, int64_t end) {
    const Run hull = rules.keys_of.Hull(begin, end);
    T* scores = scores_.data<T>();
    host::RowProducts<T>(host::HeadView<T>(q_, b, rules.head), {begin, end},
                         host::HeadView<T>(k_, b, rules.group), hull, extents_.channels,
                         scores + hull.begin, extents_.keys);
    const MatrixView<T> v = host::HeadView<T>(v_, b, rules.group);
    for (int64_t query = begin; query < end; ++query) {
      T* row = scores + (query - begin) * extents_.keys;
      const std::span<const Run> runs = rules.keys_of.Of(query);
      const RowSoftmax<T> softmax(runs, rules.scale, row);
      rules.DropOut(query, row);
      T* out = result_.out.template data<T>() +
               ((query * extents_.batch + b) * extents_.heads + rules.head) * extents_.channels;
      std::fill_n(out, extents_.channels, Zero<T>());
      host::AddWeighted<T>(runs, {row, 1, v.data, v.row_stride, {0, extents_.keys}},
                           extents_.channels, out);
      if (!runs.empty()) {
        const host::DivideBy<T> normalise(softmax.sum);
        for (int64_t d = 0; d < extents_.channels; ++d) out[d] = normalise(out[d]);
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
    weights_ = Tensor::Empty(context, q.dtype(), {block, extents.keys});
    slopes_ = Tensor::Empty(context, q.dtype(), {block, extents.keys});
    head_dk_ = Tensor::Empty(context, q.dtype(), {extents.keys, extents.channels});
    head_dv_ = Tensor::Empty(context, q.dtype(), {extents.keys, extents.channels});
    result_.dq = Tensor::Empty(context, q.dtype(), q.shape());
    result_.dk = Tensor::Zeros(context, k.dtype(), k.shape());
    result_.dv = Tensor::Zeros(context, v.dtype(), v.shape());
  }

  AttentionBackwardResult Compute() {
    const bool drops = host::Drops("attention backward", options_.dropout, extents_.batch);
    for (int64_t b = 0; b < extents_.batch; ++b) {
      const RunLists keys_of = host::KeysOfQueries(options_, b);
      const RunLists queries_of = host::QueriesOfKeys(options_, b);
      std::optional<host::KeepMask> mask;
      if (drops) mask.emplace(options_.dropout, b);
      for (int64_t head = 0; head < extents_.heads; ++head) {
        const HeadRules<T> rules(extents_, options_, keys_of, mask, head);
        Head(rules, queries_of, b);
      }
    }
    return std::move(result_);
  }

 private:
  void Head(const HeadRules<T>& rules, const RunLists& queries_of, int64_t b) {
    std::fill_n(head_dk_.data<T>(), head_dk_.elements(), Zero<T>());
    std::fill_n(head_dv_.data<T>(), head_dv_.elements(), Zero<T>());
    for (int64_t i = 0; i < extents_.queries; i += kQueryBlock) {
      const Run block = {i, std::min(i + kQueryBlock, extents_.queries)};
      Products(rules, b, block);
      for (int64_t query = block.begin; query < block.end; ++query) {
        Query(rules, b, query, query - block.begin);
      }
      Keys(rules, queries_of, b, block);
    }
    AddHead(head_dk_, b, rules.group, result_.dk);
    AddHead(head_dv_, b, rules.group, result_.dv);
  }

  // weights_ = q . k and slopes_ = dout . v for a block of queries.
  void Products(const HeadRules<T>& rules, int64_t b, const Run& block) {
    const Run hull = rules.keys_of.Hull(block.begin, block.end);
    host::RowProducts<T>(host::HeadView<T>(q_, b, rules.head), block,
                         host::HeadView<T>(k_, b, rules.group), hull, extents_.channels,
                         weights_.data<T>() + hull.begin, extents_.keys);
    host::RowProducts<T>(host::HeadView<T>(dout_, b, rules.head), block,
                         host::HeadView<T>(v_, b, rules.group), hull, extents_.channels,
                         slopes_.data<T>() + hull.begin, extents_.keys);
  }

  // Turns a row of the products into M P and ds / sqrt(D), and sums dq.
  void Query(const HeadRules<T>& rules, int64_t b, int64_t query, int64_t row_of_block) {
    using Traits = ScalarTraits<T>;
    T* weights = weights_.data<T>() + row_of_block * extents_.keys;
    T* slopes = slopes_.data<T>() + row_of_block * extents_.keys;
    const std::span<const Run> runs = rules.keys_of.Of(query);
    const int64_t row = (query * extents_.batch + b) * extents_.heads + rules.head;
    const T* dout = dout_.data<T>() + row * extents_.channels;
    const T* out = out_.data<T>() + row * extents_.channels;
    T delta = Zero<T>();
    for (int64_t d = 0; d < extents_.channels; ++d) delta = MultiplyAdd(dout[d], out[d], delta);
    const LogSumOf<T> lse = Traits::LoadLogSum(
        lse_.data<T>()[(b * extents_.heads + rules.head) * extents_.queries + query]);
    rules.DropOut(query, slopes);
    for (const Run& run : runs) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        weights[j] = Traits::Probability(Traits::ToScore(weights[j] * rules.scale), lse);
        slopes[j] = weights[j] * (slopes[j] - delta) * rules.scale;
      }
    }
    rules.DropOut(query, weights);
    const MatrixView<T> k = host::HeadView<T>(k_, b, rules.group);
    T* dq = result_.dq.template data<T>() + row * extents_.channels;
    std::fill_n(dq, extents_.channels, Zero<T>());
    host::AddWeighted<T>(runs, {slopes, 1, k.data, k.row_stride, {0, extents_.keys}},
                         extents_.channels, dq);
  }

  // Continues the chains of dk and dv over a block of queries.
  void Keys(const HeadRules<T>& rules, const RunLists& queries_of, int64_t b, const Run& block) {
    const MatrixView<T> q = host::HeadView<T>(q_, b, rules.head);
    const MatrixView<T> dout = host::HeadView<T>(dout_, b, rules.head);
    const T* q_rows = q.data + block.begin * q.row_stride;
    const T* dout_rows = dout.data + block.begin * dout.row_stride;
    for (int64_t j = 0; j < extents_.keys; ++j) {
      const std::span<const Run> runs = queries_of.Of(j);
      host::AddWeighted<T>(runs,
                           {slopes_.data<T>() + j, extents_.keys, q_rows, q.row_stride, block},
                           extents_.channels, head_dk_.data<T>() + j * extents_.channels);
      host::AddWeighted<T>(
          runs, {weights_.data<T>() + j, extents_.keys, dout_rows, dout.row_stride, block},
          extents_.channels, head_dv_.data<T>() + j * extents_.channels);
    }
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
  Tensor weights_;
  Tensor slopes_;
  Tensor head_dk_;
  Tensor head_dv_;
  AttentionBackwardResult result_;
};

}  // namespace

AttentionForwardResult AttentionForward(const Context& context, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionOptions& options) {
  const AttentionExtents extents = host::CheckAttention("attention", q, k, v, options);
  if (const host::InF32 f32(context, q.dtype()); f32.needed()) {
    const AttentionForwardResult wide =
        AttentionForward(f32.context(), f32.Widen(q), f32.Widen(k), f32.Widen(v), options);
    return {f32.Round(wide.out), f32.Keep(wide.lse)};
  }
  return DispatchScalar(q.dtype(), [&]<class T>() {
    return ForwardRun<T>(context, extents, q, k, v, options).Compute();
  });
}

AttentionBackwardResult AttentionBackward(const Context& context, const Tensor& dout,
                                          const Tensor& q, const Tensor& k, const Tensor& v,
                                          const Tensor& out, const Tensor& lse,
                                          const AttentionOptions& options) {
  const AttentionExtents extents = host::CheckAttention("attention backward", q, k, v, options);
  host::CheckSame("attention backward", dout, q);
  host::CheckSame("attention backward", out, q);
  host::CheckDType("attention backward", "lse", lse, ComputeDType(q.dtype()));
  host::CheckShape("attention backward", "lse", lse,
                   {extents.batch, extents.heads, extents.queries});
  if (const host::InF32 f32(context, q.dtype()); f32.needed()) {
    const AttentionBackwardResult wide =
        AttentionBackward(f32.context(), f32.Widen(dout), f32.Widen(q), f32.Widen(k), f32.Widen(v),
                          f32.Widen(out), lse, options);
    return {f32.Round(wide.dq), f32.Round(wide.dk), f32.Round(wide.dv)};
  }
  return DispatchScalar(q.dtype(), [&]<class T>() {
    return BackwardRun<T>(context, extents, dout, q, k, v, out, lse, options).Compute();
  });
}

}  // namespace plumbline
