// Causal scaled dot-product attention with grouped queries, packed documents and dropout.
//
// For each sample and query head h, which reads key/value group h / (A / G):
//   Z = Q K^T / sqrt(D);  P = softmax of each row over the keys that its query sees, else 0
//   O = M V, M = P keep / (1 - p)
// A query sees the keys at or before it in its own document. Backward:
//   dV = M^T dO;  dM = dO V^T;  dP = dM keep / (1 - p)
//   dZ_ij = P_ij (dP_ij - sum_k P_ik dP_ik);  dQ = dZ K / sqrt(D);  dK = dZ^T Q / sqrt(D)
// and dK and dV sum over the heads of a group.
//
// Shapes:   q [S B, A D], k and v [S B, G D], out as q; row s * B + b.
// Source:   Vaswani et al. 2017; Shazeer 2019 and Ainslie et al. 2023 (groups).
#ifndef PLUMBLINE_ORACLE_ATTENTION_H_
#define PLUMBLINE_ORACLE_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "base/scalar.h"
#include "oracle/dropout.h"
#include "oracle/matrix.h"
#include "oracle/product.h"
#include "oracle/softmax.h"

namespace plumbline {

struct AttentionShape {
  int64_t batch = 0;     // B
  int64_t heads = 0;     // A
  int64_t groups = 0;    // G
  int64_t channels = 0;  // D
  // First key that a query sees, [b][query]: where its document starts.
  std::vector<std::vector<int64_t>> first_key;
  double dropout = 0;
};

template <class T>
struct AttentionSaved {
  std::vector<Matrix<T>> probabilities;  // P, [S, S], by sample * A + head
  std::vector<KeepMask> keep;            // the same order; none without dropout
};

namespace internal {

template <class T>
ConstStridedView<T> Head(const Matrix<T>& x, const AttentionShape& shape, int64_t b, int64_t head) {
  return ConstStridedView<T>(x.data() + b * x.cols() + head * shape.channels,
                             x.rows() / shape.batch, shape.channels,
                             Eigen::OuterStride<>(shape.batch * x.cols()));
}
template <class T>
StridedView<T> Head(Matrix<T>& x, const AttentionShape& shape, int64_t b, int64_t head) {
  return StridedView<T>(x.data() + b * x.cols() + head * shape.channels, x.rows() / shape.batch,
                        shape.channels, Eigen::OuterStride<>(shape.batch * x.cols()));
}

template <class T>
T ScoreScale(const AttentionShape& shape) {
  using Scalar = ScalarTraits<T>;
  return Scalar::FromInt(1) / Scalar::Sqrt(Scalar::FromInt(shape.channels));
}

template <class T>
Matrix<T> Dropped(const AttentionShape& shape, const std::vector<KeepMask>& keep, size_t index,
                  Matrix<T> x) {
  if (!keep.empty()) ApplyDropout(keep[index], shape.dropout, x);
  return x;
}

}  // namespace internal

// Takes saved.keep (from AttentionKeepMasks) and fills saved.probabilities.
template <class T>
Matrix<T> AttentionForward(const AttentionShape& shape, const Matrix<T>& q, const Matrix<T>& k,
                           const Matrix<T>& v, AttentionSaved<T>& saved) {
  const T scale = internal::ScoreScale<T>(shape);
  const int64_t heads_per_group = shape.heads / shape.groups;
  Matrix<T> out(q.rows(), q.cols());
  saved.probabilities.clear();
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t group = head / heads_per_group;
      Matrix<T> p;
      SetProduct(p, internal::Head(q, shape, b, head),
                 internal::Head(k, shape, b, group).transpose());
      p *= scale;
      for (Eigen::Index query = 0; query < p.rows(); ++query) {
        const int64_t first = shape.first_key[static_cast<size_t>(b)][static_cast<size_t>(query)];
        Softmax<T>(&p(query, first), query + 1 - first, &p(query, first));
        p.row(query).head(first).setZero();
        p.row(query).tail(p.cols() - query - 1).setZero();
      }
      saved.probabilities.push_back(std::move(p));
      const size_t index = saved.probabilities.size() - 1;
      SetProduct(internal::Head(out, shape, b, head),
                 internal::Dropped(shape, saved.keep, index, saved.probabilities[index]),
                 internal::Head(v, shape, b, group));
    }
  }
  return out;
}

template <class T>
struct AttentionGradients {
  Matrix<T> dq;
  Matrix<T> dk;
  Matrix<T> dv;
};

template <class T>
AttentionGradients<T> AttentionBackward(const AttentionShape& shape, const Matrix<T>& dout,
                                        const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v,
                                        const AttentionSaved<T>& saved) {
  const T scale = internal::ScoreScale<T>(shape);
  const int64_t heads_per_group = shape.heads / shape.groups;
  AttentionGradients<T> gradients = {Matrix<T>(q.rows(), q.cols()),
                                     Matrix<T>::Zero(k.rows(), k.cols()),
                                     Matrix<T>::Zero(v.rows(), v.cols())};
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t group = head / heads_per_group;
      const auto index = static_cast<size_t>(b * shape.heads + head);
      const Matrix<T>& p = saved.probabilities[index];
      const auto do_head = internal::Head(dout, shape, b, head);

      const Matrix<T> m = internal::Dropped(shape, saved.keep, index, p);
      AddProduct(internal::Head(gradients.dv, shape, b, group), m.transpose(), do_head);

      Matrix<T> dz;
      SetProduct(dz, do_head, internal::Head(v, shape, b, group).transpose());  // dM at first
      dz = internal::Dropped(shape, saved.keep, index, std::move(dz));          // then dP
      for (Eigen::Index query = 0; query < dz.rows(); ++query) {
        const T sum = p.row(query).cwiseProduct(dz.row(query)).sum();
        dz.row(query).array() = p.row(query).array() * (dz.row(query).array() - sum) * scale;
      }
      SetProduct(internal::Head(gradients.dq, shape, b, head), dz,
                 internal::Head(k, shape, b, group));
      AddProduct(internal::Head(gradients.dk, shape, b, group), dz.transpose(),
                 internal::Head(q, shape, b, head));
    }
  }
  return gradients;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_ATTENTION_H_
