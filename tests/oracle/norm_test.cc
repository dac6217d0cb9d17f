#include "oracle/norm.h"

#include <gtest/gtest.h>

#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

constexpr double kEpsilon = 1e-5;

class NormTest : public testing::TestWithParam<Normalization> {};

TEST(NormTest, LayerNormByHand) {
  Matrix<double> x(1, 2), w(1, 2), b(1, 2);
  x << 1, 5;
  w << 2, 3;
  b << 10, 20;
  NormSaved<double> saved;
  // Mean 3, biased variance 4, eps 5: the root is 3.
  const Matrix<double> y = NormForward(Normalization::kLayerNorm, x, w, b, 5.0, saved);
  EXPECT_DOUBLE_EQ(y(0, 0), 10 + 2 * (-2.0 / 3));
  EXPECT_DOUBLE_EQ(y(0, 1), 20 + 3 * (2.0 / 3));
}

TEST(NormTest, RmsNormByHand) {
  Matrix<double> x(1, 2), w(1, 2);
  x << 1, 7;
  w << 2, 3;
  NormSaved<double> saved;
  // Mean square 25, eps 11: the root is 6.
  const Matrix<double> y = NormForward(Normalization::kRmsNorm, x, w, {}, 11.0, saved);
  EXPECT_DOUBLE_EQ(y(0, 0), 2 * (1.0 / 6));
  EXPECT_DOUBLE_EQ(y(0, 1), 3 * (7.0 / 6));
}

TEST_P(NormTest, BackwardIsTheDerivativeOfForward) {
  const bool layer_norm = GetParam() == Normalization::kLayerNorm;
  Matrices<double> inputs = {RandomMatrix(1, 6, 9), RandomMatrix(2, 1, 9)};
  if (layer_norm) inputs.push_back(RandomMatrix(3, 1, 9));
  const auto forward = [&]<class T>(const std::vector<Matrix<T>>& in) {
    NormSaved<T> saved;
    return NormForward(GetParam(), in[0], in[1], layer_norm ? in[2] : Matrix<T>(), kEpsilon, saved);
  };
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    NormSaved<double> saved;
    NormForward(GetParam(), in[0], in[1], layer_norm ? in[2] : Matrix<double>(), kEpsilon, saved);
    Matrix<double> dw = Matrix<double>::Zero(1, 9);
    Matrix<double> db = layer_norm ? Matrix<double>::Zero(1, 9) : Matrix<double>();
    Matrices<double> gradients = {NormBackward(GetParam(), dy, in[1], saved, dw, db), dw};
    if (layer_norm) gradients.push_back(db);
    return gradients;
  };
  EXPECT_LE(WorstJvpError(inputs, forward, backward), kJvpBound);

  // The other norm's backward, and one that forgets the weight, are both seen.
  const auto other = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    Matrices<double> gradients = backward(dy, in);
    NormSaved<double> saved;
    NormForward(GetParam(), in[0], in[1], layer_norm ? in[2] : Matrix<double>(), kEpsilon, saved);
    Matrix<double> dw = Matrix<double>::Zero(1, 9);
    Matrix<double> none;
    gradients[0] = NormBackward(layer_norm ? Normalization::kRmsNorm : Normalization::kLayerNorm,
                                dy, in[1], saved, dw, none);
    return gradients;
  };
  EXPECT_GT(WorstJvpError(inputs, forward, other), 1e-3);
  const auto unweighted = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    Matrices<double> ones = in;
    ones[1].setOnes();
    Matrices<double> gradients = backward(dy, in);
    gradients[0] = backward(dy, ones)[0];
    return gradients;
  };
  EXPECT_GT(WorstJvpError(inputs, forward, unweighted), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormTest,
                         testing::Values(Normalization::kLayerNorm, Normalization::kRmsNorm),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace plumbline
