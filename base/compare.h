// Comparison of tensors: three named strengths, and the statistics from which a verdict is made.
//
// Numerics: NaN matches only NaN, an infinity only itself; any other pair with one of them is
//           infinitely far apart. The deviation of a tensor is max|a - r| / max|r|, both maxima
//           over the whole tensor and the second over the finite values of r; 0/0 is 0.
#ifndef PLUMBLINE_BASE_COMPARE_H_
#define PLUMBLINE_BASE_COMPARE_H_

#include <cstdint>
#include <string>

#include "base/logical_tensor.h"
#include "base/tensor.h"

namespace plumbline {

// How far a tensor, or a piece of one, is from its reference. Pieces are merged over ranks.
struct Difference {
  double max_abs_diff = 0;       // infinity when a NaN or an infinity has no match
  double max_abs_reference = 0;  // over the finite values
  int64_t index = -1;            // global row-major index of max_abs_diff; -1: all are equal
  double actual = 0;             // the two values there
  double reference = 0;
  int64_t count = 0;      // elements looked at, without padding
  int64_t nonfinite = 0;  // NaN or infinity without a match, on either side

  double Deviation() const;
  // `!(Deviation() <= bound)` is what fails; there is no other way to ask.
  bool Within(double bound) const { return Deviation() <= bound; }
  void Merge(const Difference& other);
};

// Dtypes may differ (each f64, f32, bf16, f16 or i64) and are compared in f64; strides are free.
// Throws InvalidArgument when the shapes differ.
Difference Compare(const Tensor& actual, const Tensor& reference);

// One rank's piece against the tensor of the whole model, without gathering: element i of `local`
// against element piece.global_index[i] of `global`; padding is skipped. max_abs_reference covers
// the piece only: merged over ranks that hold everything it is the tensor's.
Difference ComparePiece(const Tensor& local, const LocalPiece& piece, const Tensor& global);

// max|x| over the finite values: the scale of a deviation.
double MaxAbs(const Tensor& tensor);

// How equal two tensors must be.
class Strength {
 public:
  enum class Kind : uint8_t { kBitwise, kUlps, kBound };

  // The same bits: -0 is not 0, and a NaN matches its own payload only.
  static Strength Bitwise();
  // At most n representable numbers apart (0 and -0 are the same).
  static Strength WithinUlps(int64_t n);
  // Deviation at most `bound`; `formula` says where the bound comes from.
  static Strength Within(double bound, std::string formula);

  Kind kind() const { return kind_; }
  int64_t ulps() const { return ulps_; }
  double bound() const { return bound_; }
  std::string ToString() const;  // "bitwise equal", "within 2 ulps", "within 1e-11 (k * eps)"

 private:
  Kind kind_ = Kind::kBitwise;
  int64_t ulps_ = 0;
  double bound_ = 0;
  std::string formula_;
};

struct Match {
  bool ok = false;
  // One line: strength, index, both values; empty when ok.
  std::string message;
};

// Throws InvalidArgument when shapes differ, or, but for Strength::Within, dtypes.
Match Matches(const Tensor& actual, const Tensor& reference, const Strength& strength);

// Whether two tensors of the same dtype and shape have the same bits, at memory speed.
bool BitEqual(const Tensor& a, const Tensor& b);

// How many representable numbers lie between a and b, plus one; 0 when equal or both NaN, the
// largest int64 when only one is NaN or only one is that infinity.
int64_t UlpsApart(double a, double b);
int64_t UlpsApart(float a, float b);
int64_t UlpsApart(BF16 a, BF16 b);
int64_t UlpsApart(F16 a, F16 b);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_COMPARE_H_
