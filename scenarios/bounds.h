// How far a tensor may be from the reference.
//
// Numerics: f64: a deviation (base/compare.h) of 1e-11, about 45,000 units of rounding: rounding
//           errors of correct layouts stay below 1e-12, mistakes start at 1e-8. f32: as many units
//           of its own rounding, 5.4e-3. Logic is checked in f64, so that f32 only tells an
//           operator that is wrong there alone.
//
//           Adam divides by what may be rounding itself. Gradients carry a rounding of up to
//           d = 1e-15 G, G being the largest magnitude in the gradient's tensor. A step's update
//           lr mhat / (sqrt(vhat) + eps) then moves, to first order, by at most
//             lr (D1 + |mhat| D2 / (sqrt(vhat) + eps)) / (sqrt(vhat) + eps),
//           as mhat is a weighted mean of gradients and sqrt(vhat) a weighted norm of them, so that
//           these are off by at most D1 and D2, the same mean and norm of the steps' d (triangle
//           inequality). After each step a parameter's element may be off by the sum of this over
//           the steps so far more. Where the gradient is analytically zero (a key bias without
//           rotary positions) that is lr 1e-15 G / eps a step, where it is of the size of G it is
//           2e-15 lr, far below the bound. Gradients count as the optimizer reads them, clipped.
//           A key bias that is off shifts a head's scores alike, which softmax does not see: of the
//           next step's activations linear_qkv and key alone are off, by as much as the bias.
//           Moments need none of this: they are not divided, and rounding of 1e-15 G stays within
//           1e-11 of a moment of the size of G.
//           For f32 the rounding grows with its unit. A field has none: its bound is 0.
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

// The unit of rounding in which the constants above are stated, relative to f64's.
double RoundingRelativeToF64(DType dtype);

// What the elements of one tensor may be off by, beyond the bound.
struct AdamExemption {
  // For f64: a parameter's by element, an activation's by the elements of its last axes. Null:
  // nothing.
  std::shared_ptr<const std::vector<float>> extra;

  // The extra absolute term of an element.
  double ExtraAt(int64_t global_index, DType dtype) const;
};

// Follows the reference's gradients from step to step.
class AdamExemptionRule {
 public:
  explicit AdamExemptionRule(const TrainConfig& train);
  // A parameter's complete gradient of a step, f64 and row-major. Of a field nothing is kept.
  void AddGradient(const std::string& parameter, const Tensor& main_grad);
  // By which the step's gradients are multiplied before the update. Never called: 1.
  void SetClipCoefficient(double coefficient) { clip_coefficient_ = coefficient; }
  // Once for each gradient that was added, when the step's clip coefficient is known.
  AdamExemption AfterUpdate(const std::string& parameter);
  // Of an activation, as of the last update.
  AdamExemption OfActivation(const std::string& tensor, const Shape& shape) const;

 private:
  struct Moments {
    double mean = 0;
    double square = 0;
  };
  struct Followed {
    Tensor gradient;  // of the step under way
    int64_t step = 0;
    Moments largest;  // what Adam would make of G itself
    std::vector<Moments> elements;
    std::shared_ptr<const std::vector<float>> extra;
  };

  void Update(double gradient, Moments& moments) const;

  const TrainConfig train_;
  double clip_coefficient_ = 1;
  std::unordered_map<std::string, Followed> followed_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_BOUNDS_H_
