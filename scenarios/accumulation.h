// Whether main_grad is the sum of the microbatches' gradients, exactly: after every addition it
// must be what the additions so far give in the dtype that is due, in the order in which they came,
// bit for bit. So an accumulation in 16 bits shows at the first microbatch whose addition rounds
// differently, and a buffer that was not zeroed, or zeroed in between, at the next addition.
#ifndef PLUMBLINE_SCENARIOS_ACCUMULATION_H_
#define PLUMBLINE_SCENARIOS_ACCUMULATION_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/dtype.h"
#include "base/site.h"
#include "base/tensor.h"

namespace plumbline {

struct AccumulationFault {
  Site site;               // of main_grad, with the microbatch
  std::vector<int> ranks;  // in the order in which they came to it
  std::string what;        // of the first rank: where in its piece, both values
};

class AccumulationChecker {
 public:
  // `due`: the dtype of main gradients (RunConfig::grad_dtype).
  explicit AccumulationChecker(DType due) : due_(due) {}

  // As Probe::ObserveAccumulation (base/probe.h), from one rank.
  void Observe(int rank, const Site& site, const Tensor& gradient, const Tensor& main_grad);

  // The first of each rank and parameter, in the order in which they were seen.
  const std::vector<AccumulationFault>& faults() const { return faults_; }

 private:
  struct Sum {
    int32_t step = -1;
    Tensor value;
    bool wrong = false;
  };

  DType due_;
  std::map<std::tuple<int, int, std::string>, Sum> sums_;  // by rank, chunk and tensor
  std::vector<AccumulationFault> faults_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_ACCUMULATION_H_
