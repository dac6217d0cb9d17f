#include "oracle/matrix.h"

#include <gtest/gtest.h>

#include "oracle/dual.h"

namespace plumbline {
namespace {

TEST(MatrixTest, TensorsAndMatricesHoldTheSameRowMajorValues) {
  Matrix<double> matrix(4, 3);
  for (int i = 0; i < 12; ++i) matrix.data()[i] = i;
  const Tensor tensor = ToTensor(matrix, {2, 2, 3});
  EXPECT_EQ(tensor.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(tensor.at<double>({1, 0, 2}), matrix(2, 2));
  EXPECT_EQ(ToMatrix<double>(tensor.View({4, 3})), matrix);
}

TEST(MatrixTest, OneDimensionIsARow) {
  const Tensor tensor = Tensor::FromVector<double>(Context{}, {3}, {1, 2, 3});
  const Matrix<double> matrix = ToMatrix<double>(tensor);
  EXPECT_EQ(matrix.rows(), 1);
  EXPECT_EQ(matrix.cols(), 3);
}

TEST(MatrixTest, AScalarHasNoDimensions) {
  EXPECT_EQ(ToTensor<double>(Matrix<double>::Constant(1, 1, 5), {}).at<double>({}), 5);
}

TEST(MatrixTest, ShapesMustAgree) {
  EXPECT_THROW(ToTensor<double>(Matrix<double>::Zero(2, 2), {5}), Error);
}

TEST(MatrixTest, DualNumbersAreNotStored) {
  EXPECT_TRUE(Storable<double>);
  EXPECT_FALSE(Storable<Dual<double>>);
}

}  // namespace
}  // namespace plumbline
