#include "oracle/embedding.h"

#include <gtest/gtest.h>

#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

TEST(EmbeddingTest, ForwardTakesRows) {
  const Matrix<double> table = RandomMatrix(1, 4, 3);
  const Matrix<double> y = EmbeddingForward<double>({2, 0, 2}, table);
  EXPECT_EQ(y.row(0), table.row(2));
  EXPECT_EQ(y.row(1), table.row(0));
  EXPECT_EQ(y.row(2), table.row(2));
}

TEST(EmbeddingTest, BackwardSumsOverRepeatedIndices) {
  const Matrix<double> dy = RandomMatrix(2, 3, 2);
  Matrix<double> dtable = Matrix<double>::Ones(4, 2);
  EmbeddingBackward<double>(dy, {2, 0, 2}, dtable);
  EXPECT_EQ(dtable(0, 1), 1 + dy(1, 1));
  EXPECT_EQ(dtable(1, 1), 1);
  EXPECT_EQ(dtable(2, 1), (1 + dy(0, 1)) + dy(2, 1));
}

TEST(EmbeddingTest, BackwardIsTheDerivativeOfForward) {
  const std::vector<int64_t> indices = {3, 1, 3, 0, 3};
  const auto forward = [&](const auto& in) { return EmbeddingForward(indices, in[0]); };
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    Matrix<double> dtable = Matrix<double>::Zero(in[0].rows(), in[0].cols());
    EmbeddingBackward(dy, indices, dtable);
    return Matrices<double>{dtable};
  };
  EXPECT_LE(WorstJvpError({RandomMatrix(3, 5, 4)}, forward, backward), kJvpBound);
}

TEST(EmbeddingTest, RefusesIndicesOutsideTheTable) {
  const Matrix<double> table = RandomMatrix(1, 4, 3);
  EXPECT_THROW(EmbeddingForward<double>({4}, table), InvalidArgument);
  EXPECT_THROW(EmbeddingForward<double>({-1}, table), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
