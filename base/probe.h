// How a program shows its tensors to whoever compares them.
#ifndef PLUMBLINE_BASE_PROBE_H_
#define PLUMBLINE_BASE_PROBE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/finding.h"
#include "base/logical_tensor.h"
#include "base/site.h"
#include "base/tensor.h"

namespace plumbline {

// What a rank's probe is told: at `site` this rank holds `local`, its piece of a logical tensor.
// The layout is built once by the module and shared; `piece` is PieceOf(*tensor, mesh, rank).
struct ObservedLayout {
  LogicalTensor tensor;
  LocalPiece piece;
};

// One per rank. The parallel program calls it at every tagged point; it must not change what it is
// shown.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void Observe(const Site& site, const ObservedLayout& layout, const Tensor& local) = 0;
  // Integer counters of the step. Losses, norms and coefficients are 0-d tensors.
  virtual void ObserveCounter(const Site& site, int64_t value) = 0;
  // After every addition of a microbatch's gradient: `gradient` went into `main_grad`, which is
  // shown as it now is.
  virtual void ObserveAccumulation(const Site& site, const Tensor& gradient,
                                   const Tensor& main_grad) {
    (void)site;
    (void)gradient;
    (void)main_grad;
  }
  // What the program itself finds wrong, as a framework's own assertion would.
  virtual void ObserveFault(FindingClass kind, const Site& site, const std::string& what) {
    (void)kind;
    (void)site;
    (void)what;
  }
};

// Where the reference puts its tensors: global, row-major, in the order in which they are produced,
// which defines the order of sites.
class ReferenceSink {
 public:
  virtual ~ReferenceSink() = default;
  virtual void Record(const Site& site, Tensor global) = 0;
  virtual void RecordCounter(const Site& site, int64_t value) = 0;
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_PROBE_H_
