#include "oracle/product.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"

namespace plumbline {
namespace {

template <class T>
Matrix<T> Random(Eigen::Index rows, Eigen::Index columns, const char* name) {
  const RandomStream stream = DataStream(4, name);
  Matrix<T> matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    const uint64_t bits = stream.Bits(static_cast<uint64_t>(i));
    if constexpr (kIsField<T>) {
      matrix.data()[i] = {field_internal::Below(bits, T::prime())};
    } else {
      matrix.data()[i] = static_cast<T>(bits >> 40) / T(1 << 24);
    }
  }
  return matrix;
}

template <class T>
T Element(const Matrix<T>& a, const Matrix<T>& b, Eigen::Index i, Eigen::Index j) {
  T sum = ScalarTraits<T>::FromInt(0);
  for (Eigen::Index l = 0; l < a.cols(); ++l) sum += a(i, l) * b(l, j);
  return sum;
}

template <class T>
class ProductTest : public ::testing::Test {};
using Fields = ::testing::Types<M61, P50, P31>;
TYPED_TEST_SUITE(ProductTest, Fields);

TYPED_TEST(ProductTest, ElementsAreSumsOfProducts) {
  using T = TypeParam;
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, {3, 5, 2}, {4, 2, 63}, {2, 7, 200}, {5, 1, 0}}) {
    const Matrix<T> a = Random<T>(m, k, "a");
    const Matrix<T> b = Random<T>(k, n, "b");
    Matrix<T> product;
    SetProduct(product, a, b);
    Matrix<T> sum = Random<T>(m, n, "c");
    const Matrix<T> before = sum;
    const Matrix<T> transposed = b.transpose();
    AddProduct(sum, a, transposed.transpose());
    for (Eigen::Index i = 0; i < m; ++i) {
      for (Eigen::Index j = 0; j < n; ++j) {
        EXPECT_EQ(product(i, j).v, Element(a, b, i, j).v) << m << " " << n << " " << k;
        EXPECT_EQ(sum(i, j).v, (before(i, j) + Element(a, b, i, j)).v);
      }
    }
  }
}

TYPED_TEST(ProductTest, LargestResiduesDoNotOverflow) {
  using T = TypeParam;
  const Matrix<T> a = Matrix<T>::Constant(2, 1000, T{T::prime() - 1});
  Matrix<T> product;
  SetProduct(product, a, a.transpose());
  EXPECT_EQ(product(1, 0).v, 1000U % T::prime()) << "(-1) (-1) a thousand times";
}

TEST(FloatProductTest, IsEigens) {
  const Matrix<double> a = Random<double>(7, 9, "a");
  const Matrix<double> b = Random<double>(9, 5, "b");
  Matrix<double> expected(7, 5);
  expected.noalias() = a * b;
  Matrix<double> product;
  SetProduct(product, a, b);
  EXPECT_EQ(product, expected);
  expected.noalias() += a * b;
  AddProduct(product, a, b);
  EXPECT_EQ(product, expected);
}

}  // namespace
}  // namespace plumbline
