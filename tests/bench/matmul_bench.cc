// The fixed-order matrix product against Eigen's own, in one run: ratios above 1 mean faster than
// Eigen.
//
//   bazelw run //tests/bench:matmul_bench
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/dtype.h"
#include "base/rng.h"
#include "base/tensor.h"
#include "kernels/matmul.h"

namespace plumbline {
namespace {

const Context kContext = {};

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<const RowMajor<T>>;

template <class T>
Tensor Random(int64_t rows, int64_t columns, std::string_view name) {
  const RandomStream stream = DataStream(1, name);
  std::vector<T> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(stream.Uniform(i) - 0.5);
  return Tensor::FromVector<T>(kContext, {rows, columns}, values);
}

template <class T>
View<T> ViewOf(const Tensor& x) {
  return View<T>(x.data<T>(), x.dim(0), x.dim(1));
}

// Processor seconds of this thread, which other programs on the machine do not add to.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds per call of each of two functions: the least over rounds in which they take turns, so
// that both see the same neighbours on the machine.
template <class F, class G>
std::pair<double, double> LeastSeconds(double flops, F ours, G theirs) {
  constexpr int kRounds = 60;
  const int64_t repeats = std::max<int64_t>(1, static_cast<int64_t>(2e7 / std::max(flops, 1.0)));
  const auto once = [repeats](auto& f) {
    const double begin = CpuSeconds();
    for (int64_t i = 0; i < repeats; ++i) f();
    return (CpuSeconds() - begin) / static_cast<double>(repeats);
  };
  double least_ours = 1e9;
  double least_theirs = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    least_ours = std::min(least_ours, once(ours));
    least_theirs = std::min(least_theirs, once(theirs));
  }
  return {least_ours, least_theirs};
}

void Print(std::string_view product, DType dtype, int64_t m, int64_t n, int64_t k,
           std::pair<double, double> seconds) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  fmt::print("{:2} {} {:4} x {:4} x {:4}   ours {:7.2f}   Eigen {:7.2f} GFLOP/s   ratio {:.2f}\n",
             product, Name(dtype), m, n, k, flops / seconds.first * 1e-9,
             flops / seconds.second * 1e-9, seconds.second / seconds.first);
}

// Each call makes its result afresh, on both sides.
template <class T>
void Compare(int64_t m, int64_t n, int64_t k) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const Tensor x = Random<T>(m, k, "x");
  const Tensor w = Random<T>(n, k, "w");
  const Tensor dy = Random<T>(m, n, "dy");
  const View<T> ex = ViewOf<T>(x), ew = ViewOf<T>(w), edy = ViewOf<T>(dy);
  double sink = 0;
  const auto ours = [&](auto f) {
    return [&sink, f] { sink += static_cast<double>(*f().template data<T>()); };
  };
  const auto theirs = [&](auto f) {
    return [&sink, f] { sink += static_cast<double>(f()(0, 0)); };
  };
  Print("NT", kDTypeOf<T>, m, n, k,
        LeastSeconds(flops, ours([&] { return MatmulNT(kContext, x, w); }),
                     theirs([&] { return RowMajor<T>(ex * ew.transpose()); })));
  Print("NN", kDTypeOf<T>, m, n, k,
        LeastSeconds(flops, ours([&] { return MatmulNN(kContext, dy, w); }),
                     theirs([&] { return RowMajor<T>(edy * ew); })));
  Print("TN", kDTypeOf<T>, m, n, k,
        LeastSeconds(flops, ours([&] { return MatmulTN(kContext, dy, x); }),
                     theirs([&] { return RowMajor<T>(edy.transpose() * ex); })));
  if (std::isnan(sink)) fmt::print("NaN\n");
}

template <class T>
void CompareAll() {
  Compare<T>(512, 512, 512);
  // Shares of a rank: 64 tokens of a hidden size of 64 over 4 tensor-parallel ranks.
  Compare<T>(64, 64, 64);
  Compare<T>(64, 48, 64);
  Compare<T>(64, 16, 64);
  Compare<T>(16, 16, 16);
  Compare<T>(64, 251, 64);
  Compare<T>(128, 256, 128);
}

}  // namespace
}  // namespace plumbline

int main() {
  plumbline::CompareAll<float>();
  plumbline::CompareAll<double>();
  return 0;
}
