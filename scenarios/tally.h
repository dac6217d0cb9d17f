// How much was compared of each quantity, and how far off the worst of it was.
#ifndef PLUMBLINE_SCENARIOS_TALLY_H_
#define PLUMBLINE_SCENARIOS_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/site.h"

namespace plumbline {

struct ComparedQuantity {
  std::string quantity;  // "forward value", "main_grad", "exp_avg", "replicas", "collectives" ...
  int64_t tensors = 0;   // logical tensors, each counted once whatever the number of ranks
  int64_t values = 0;    // elements compared, over all ranks
  double worst = 0;      // worst deviation, by its bound; replicas: 1 when some are not equal
  double bound = 0;      // what it may be
  // In bf16 and fp16, where bounds differ from site to site: the noise floor of that site.
  double floor = 0;
  Site worst_site;
};

// A tensor's deviation, what it may be, and its noise floor.
struct Measured {
  double deviation = 0;
  double bound = 0;
  double floor = 0;
};

class Tally {
 public:
  // `bound`: the deviation that tensors may have.
  explicit Tally(double bound);

  // One logical tensor or counter, at its place in the order of sites; which of two equally bad
  // ones is named does not depend on the order of calls.
  void Add(const Site& site, int64_t place, int64_t values, double deviation);
  // With a bound of its own.
  void Add(const Site& site, int64_t place, int64_t values, const Measured& measured);
  void AddReplicas(const Site& site, int64_t place, int64_t values, bool equal);

  // Without the quantities of which nothing was compared.
  std::vector<ComparedQuantity> Quantities() const;

 private:
  static constexpr size_t kRows = 11;
  static size_t RowOf(const Site& site);
  void AddTo(size_t row, const Site& site, int64_t place, int64_t values, const Measured& measured);

  std::array<ComparedQuantity, kRows> rows_;
  std::array<int64_t, kRows> worst_place_ = {};
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_TALLY_H_
