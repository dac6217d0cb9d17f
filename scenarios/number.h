// A value of a compared tensor, for what is rare: reports and diagnosis. A double, or a residue of
// a prime field; the same formulas are fitted to both.
//
// Numerics: two doubles compute as doubles. As soon as one operand is a residue the other is taken
//           into its field, a double by its exact dyadic value, so that 2.0 is 2 and 0.5 is 1/2
//           there; a share such as 1/3 must be made by Fraction. Dividing by 0 gives 0 in a field,
//           and does not make the run void.
#ifndef PLUMBLINE_SCENARIOS_NUMBER_H_
#define PLUMBLINE_SCENARIOS_NUMBER_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/field.h"
#include "base/tensor.h"

namespace plumbline {

class Number {
 public:
  // Implicit, so that formulas over numbers read as those over doubles.
  Number(double value = 0) : real_(value) {}
  template <class Rules>
  Number(Field<Rules> value) : residue_(value.v), dtype_(kDTypeOf<Field<Rules>>) {}

  bool exact() const { return dtype_ != DType::kF64; }
  DType dtype() const { return dtype_; }
  // Of a number that is not exact; of a residue, its integer.
  double real() const { return exact() ? static_cast<double>(residue_) : real_; }
  uint64_t residue() const { return residue_; }
  template <class Rules>
  Field<Rules> As() const {
    if (exact()) return {residue_};
    return ScalarTraits<Field<Rules>>::FromDouble(real_);
  }

  friend Number operator+(const Number& a, const Number& b);
  friend Number operator-(const Number& a, const Number& b);
  friend Number operator*(const Number& a, const Number& b);
  friend Number operator/(const Number& a, const Number& b);
  friend Number operator-(const Number& a) { return Number(0.0) - a; }
  Number& operator+=(const Number& b) { return *this = *this + b; }
  Number& operator*=(const Number& b) { return *this = *this * b; }
  friend bool operator==(const Number& a, const Number& b);
  // Residues by their integers, as a MAX over ranks orders them.
  friend bool operator<(const Number& a, const Number& b);

 private:
  double real_ = 0;
  uint64_t residue_ = 0;
  DType dtype_ = DType::kF64;
};

using Values = std::vector<Number>;

// Of the first value; f64 of none.
DType DTypeOf(const Values& values);

// n / d, in the field of an exact dtype, else a double.
Number Fraction(DType dtype, int64_t n, int64_t d);
// A value of a configuration (lr, eps): its literal in the field, else itself.
Number Literal(DType dtype, double value);
// The scalar's square root.
Number SquareRoot(const Number& x);

// |a - b|; of residues 0 when they are equal, else 1.
double Distance(const Number& a, const Number& b);

// n / d with the smallest parts, d > 0, when both are small enough that chance is out of the
// question: at most 4096, and less in a small field.
struct SmallFraction {
  int64_t n = 0;
  int64_t d = 1;
};
std::optional<SmallFraction> AsSmallFraction(const Number& x);
// A double; a residue that is a small fraction, as one; else NaN.
double Size(const Number& x);

// "0.25"; a residue that is a small fraction "1/4", else its integer.
std::string ToString(const Number& x);
std::ostream& operator<<(std::ostream& out, const Number& x);

// Row-major, times a factor. Floats of any width become doubles.
Values ToValues(const Tensor& tensor, const Number& factor = 1.0);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_NUMBER_H_
