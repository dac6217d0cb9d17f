#include "scenarios/update_bounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/compare.h"
#include "base/error.h"

namespace plumbline {

double LargestAdamRatio(double beta1, double beta2, int64_t step) {
  const double all1 = 1 - std::pow(beta1, static_cast<double>(step));
  const double all2 = 1 - std::pow(beta2, static_cast<double>(step));
  double squares = 0;
  for (int64_t age = 0; age < step; ++age) {
    const double a = (1 - beta1) * std::pow(beta1, static_cast<double>(age)) / all1;
    const double b = (1 - beta2) * std::pow(beta2, static_cast<double>(age)) / all2;
    squares += a * a / b;
  }
  return std::sqrt(squares);
}

void UpdateBounds::AddGradient(const std::string& parameter, const Tensor& main_grad,
                               double bound) {
  Followed& of = followed_[parameter];
  of.gradient = main_grad;
  of.bound = bound;
}

void UpdateBounds::SetClipCoefficient(double coefficient, double bound) {
  clip_coefficient_ = coefficient;
  clip_bound_ = bound;
}

void UpdateBounds::AdamUpdate(double gradient, double error, int64_t step, double largest_ratio,
                              Element& of) const {
  const double beta1 = train_.adam_beta1;
  const double beta2 = train_.adam_beta2;
  const double fresh1 = 1 - beta1;
  const double fresh2 = 1 - beta2;
  of.mean = beta1 * of.mean + fresh1 * gradient;
  of.square = beta2 * of.square + fresh2 * gradient * gradient;
  of.mean_error = beta1 * of.mean_error + fresh1 * error;
  of.square_error = beta2 * of.square_error + fresh2 * (2 * std::abs(gradient) + error) * error;
  of.squared_errors = beta2 * of.squared_errors + fresh2 * error * error;
  const double correct1 = 1 - std::pow(beta1, static_cast<double>(step));
  const double correct2 = 1 - std::pow(beta2, static_cast<double>(step));
  const double mean = std::abs(of.mean) / correct1;
  const double root = std::sqrt(of.square / correct2);
  const double moved = std::sqrt(of.squared_errors / correct2);
  const double divisor = root + train_.adam_eps;
  const double smallest = std::max(0.0, root - moved) + train_.adam_eps;
  const double followed = (of.mean_error / correct1 + mean * moved / divisor) / smallest;
  of.weight_error += train_.lr * std::min(followed, largest_ratio + mean / divisor);
}

void UpdateBounds::SgdUpdate(double error, Element& of) const {
  of.mean_error =
      train_.sgd_momentum * of.mean_error + error + train_.weight_decay * of.weight_error;
  of.weight_error += train_.lr * of.mean_error;
}

void UpdateBounds::Update(Followed& of) const {
  const Tensor gradient = std::exchange(of.gradient, Tensor());
  const double* g = gradient.data<double>();
  const double largest = MaxAbs(gradient);
  ++of.step;
  of.elements.resize(static_cast<size_t>(gradient.elements()));
  const double ratio = LargestAdamRatio(train_.adam_beta1, train_.adam_beta2, of.step);
  for (size_t i = 0; i < of.elements.size(); ++i) {
    const double read = clip_coefficient_ * g[i];
    const double error =
        clip_coefficient_ * of.bound * largest * (1 + clip_bound_) + std::abs(read) * clip_bound_;
    if (train_.optimizer == OptimizerKind::kAdam) {
      AdamUpdate(read, error, of.step, ratio, of.elements[i]);
    } else {
      SgdUpdate(error, of.elements[i]);
    }
  }
}

std::shared_ptr<const std::vector<float>> UpdateBounds::Of(const std::string& parameter,
                                                           Quantity quantity) {
  const auto found = followed_.find(parameter);
  if (found == followed_.end()) return nullptr;
  Followed& of = found->second;
  if (of.gradient.defined()) Update(of);
  auto errors = std::make_shared<std::vector<float>>();
  errors->reserve(of.elements.size());
  for (const Element& element : of.elements) {
    const double error = quantity == Quantity::kExpAvg     ? element.mean_error
                         : quantity == Quantity::kExpAvgSq ? element.square_error
                                                           : element.weight_error;
    errors->push_back(static_cast<float>(error));
  }
  return errors;
}

}  // namespace plumbline
