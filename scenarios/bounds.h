// How far a tensor may be from the reference.
//
// Numerics: f64: a deviation (base/compare.h) of 1e-11, about 45,000 units of rounding: rounding
//           errors of correct layouts stay below 1e-12, mistakes start at 1e-8. f32: as many units
//           of its own rounding, 5.4e-3. Logic is checked in f64, so that f32 only tells an
//           operator that is wrong there alone.
//
//           Adam divides by sqrt(v) + eps, so that where a gradient is analytically zero (a key
//           bias without rotary positions) rounding of 1e-16 G becomes lr 1e-16 G / eps. After each
//           step the elements whose reference gradient was below 1e-12 G in every step so far may
//           be off by the sum over these steps of lr 1e-15 G / eps more, G being the largest
//           magnitude in the gradient's tensor at that step. Moments need no exemption: they are
//           not divided, and rounding of 1e-16 G stays within 1e-11 of a moment of the size of G.
//           For f32 both constants grow with the unit of rounding. A field has no rounding: its
//           bound is 0, and nothing is exempt.
#ifndef PLUMBLINE_SCENARIOS_BOUNDS_H_
#define PLUMBLINE_SCENARIOS_BOUNDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/config.h"
#include "base/dtype.h"
#include "base/tensor.h"

namespace plumbline {

// What the reference of a run in `dtype` computes in: a field itself, else f64.
DType ReferenceDType(DType dtype);

// Of a tensor that was computed in `dtype`. Throws InvalidArgument for a dtype without arithmetic.
double DeviationBound(DType dtype);

// The unit of rounding in which the constants of the exemption are stated, relative to f64's.
double RoundingRelativeToF64(DType dtype);

// What some elements of one parameter may be off by, beyond the bound.
struct AdamExemption {
  // Element by element: largest |gradient| / G over the steps so far. Null: no element is exempt.
  std::shared_ptr<const std::vector<float>> largest_gradient;
  double extra = 0;  // for f64

  // The extra absolute term of an element.
  double ExtraAt(int64_t global_index, DType dtype) const;
};

// Follows the reference's gradients from step to step.
class AdamExemptionRule {
 public:
  explicit AdamExemptionRule(const TrainConfig& train);
  // A parameter's complete gradient of a step, f64 and row-major. Once a step, in order. Of a field
  // nothing is kept.
  void AddGradient(const std::string& parameter, const Tensor& main_grad);
  // As of the last gradient.
  AdamExemption Of(const std::string& parameter) const;

 private:
  bool adam_;
  double extra_per_gradient_;  // lr 1e-15 / eps
  std::unordered_map<std::string, AdamExemption> exemptions_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_BOUNDS_H_
