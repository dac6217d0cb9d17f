#include "oracle/linear.h"

#include <gtest/gtest.h>

#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

Matrix<double> Make(Eigen::Index rows, Eigen::Index cols, const std::vector<double>& values) {
  return Eigen::Map<const Matrix<double>>(values.data(), rows, cols);
}

TEST(LinearTest, ForwardIsXTimesWTransposedPlusBias) {
  const Matrix<double> x = Make(2, 2, {1, 2, 3, 4});
  const Matrix<double> w = Make(3, 2, {1, 0, 0, 1, 1, 1});
  EXPECT_EQ(LinearForward(x, w, Make(1, 3, {10, 20, 30})), Make(2, 3, {11, 22, 33, 13, 24, 37}));
  EXPECT_EQ(LinearForward(x, w, {}), Make(2, 3, {1, 2, 3, 3, 4, 7}));
}

TEST(LinearTest, BackwardAddsToTheGradients) {
  const Matrix<double> x = Make(2, 1, {1, 2});
  const Matrix<double> w = Make(1, 1, {3});
  Matrix<double> dw = Make(1, 1, {100});
  Matrix<double> db = Make(1, 1, {1000});
  EXPECT_EQ(LinearBackward(Make(2, 1, {5, 7}), x, w, dw, db), Make(2, 1, {15, 21}));
  EXPECT_EQ(dw(0, 0), 100 + 5 * 1 + 7 * 2);
  EXPECT_EQ(db(0, 0), 1000 + 5 + 7);
}

TEST(LinearTest, BackwardIsTheDerivativeOfForward) {
  const Matrices<double> inputs = {RandomMatrix(1, 9, 5), RandomMatrix(2, 7, 5),
                                   RandomMatrix(3, 1, 7)};
  const auto forward = [](const auto& in) { return LinearForward(in[0], in[1], in[2]); };
  const auto backward = [](const Matrix<double>& dy, const Matrices<double>& in) {
    Matrix<double> dw = Matrix<double>::Zero(7, 5);
    Matrix<double> db = Matrix<double>::Zero(1, 7);
    Matrix<double> dx = LinearBackward(dy, in[0], in[1], dw, db);
    return Matrices<double>{dx, dw, db};
  };
  EXPECT_LE(WorstJvpError(inputs, forward, backward), kJvpBound);

  const auto wrong = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    Matrices<double> gradients = backward(dy, in);
    gradients[1] *= 1 + 1e-9;
    return gradients;
  };
  EXPECT_GT(WorstJvpError(inputs, forward, wrong), kJvpBound);
}

}  // namespace
}  // namespace plumbline
