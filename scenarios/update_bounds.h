// What the optimizer makes of gradients that are within their bounds: how far each element of the
// moments and of the weights may then be off.
//
// A gradient may be off by d = bound * max|gradient|. In low precision many elements are smaller
// than that. Adam's first steps move each by lr times a sign, nearly, so that such an element may
// go the other way: no bound relative to the tensor says that, and a wide one would hide mistakes
// everywhere else. So the bounds follow the update, element by element. With the step's gradient g
// as the optimizer reads it (clipped) and e = d + |g| times the clip coefficient's own bound:
//
//   exp_avg:     M = b1 M + (1 - b1) e
//   exp_avg_sq:  V = b2 V + (1 - b2) (2 |g| e + e^2)
//   weights:     W = W + lr min((M' + |m| N / (s + eps)) / (max(0, s - N) + eps),
//                               K + |m| / (s + eps))
//
// where m and s are the reference's mean and root of the mean square after their bias corrections,
// M' the corrected M, and N the same root of the steps' e^2: as a norm, s moves by at most N
// (triangle inequality), which gives the first term. The second is the size of both updates: by the
// inequality of Cauchy and Schwarz |m| <= K s for any gradients, K^2 = sum_i a_i^2 / b_i with the
// weights a_i and b_i that the two means give to step i. K is 1 on step 1.
//
// SGD: with momentum mu the buffer is off by M = mu M + e + decay W, the weights by W = W + lr M.
//
// Numerics: all in double; sizes are of the reference. The rounding of the update itself comes on
//           top (noise_floor.h).
#ifndef PLUMBLINE_SCENARIOS_UPDATE_BOUNDS_H_
#define PLUMBLINE_SCENARIOS_UPDATE_BOUNDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/config.h"
#include "base/site.h"
#include "base/tensor.h"

namespace plumbline {

class UpdateBounds {
 public:
  explicit UpdateBounds(const TrainConfig& train) : train_(train) {}

  // A parameter's complete gradient of a step, f64 and row-major, and the deviation it may have.
  void AddGradient(const std::string& parameter, const Tensor& main_grad, double bound);
  // Of the step; without a call 1.
  void SetClipCoefficient(double coefficient, double bound);
  // When all gradients of the step are there: what the elements of a parameter's weights or moments
  // may be off by after it. Null without a gradient.
  std::shared_ptr<const std::vector<float>> Of(const std::string& parameter, Quantity quantity);

 private:
  struct Element {
    double mean = 0;  // the reference's moments
    double square = 0;
    double mean_error = 0;      // M
    double square_error = 0;    // V
    double squared_errors = 0;  // N^2, without its correction
    double weight_error = 0;    // W
  };
  struct Followed {
    Tensor gradient;  // of the step under way
    double bound = 0;
    int64_t step = 0;
    std::vector<Element> elements;
  };

  void Update(Followed& of) const;
  void AdamUpdate(double gradient, double error, int64_t step, double largest_ratio,
                  Element& element) const;
  void SgdUpdate(double error, Element& element) const;

  TrainConfig train_;
  double clip_coefficient_ = 1;
  double clip_bound_ = 0;
  std::unordered_map<std::string, Followed> followed_;
};

// K: the largest |mean| / root of the mean square, both corrected, after so many steps of Adam.
double LargestAdamRatio(double beta1, double beta2, int64_t step);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_UPDATE_BOUNDS_H_
