// Puts the oracle's matrices into a ReferenceSink under their sites.
//
// Scalars that no tensor can hold (dual numbers) are not recorded; nor is anything without a sink.
#ifndef PLUMBLINE_ORACLE_RECORDER_H_
#define PLUMBLINE_ORACLE_RECORDER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "base/probe.h"
#include "base/site.h"
#include "oracle/matrix.h"

namespace plumbline {

template <class T>
class Recorder {
 public:
  // `sink` may be nullptr.
  explicit Recorder(ReferenceSink* sink) : sink_(sink) {}

  void set_step(int64_t step) { step_ = static_cast<int32_t>(step); }
  // -1: outside of microbatches.
  void set_microbatch(int64_t microbatch) { microbatch_ = static_cast<int32_t>(microbatch); }

  void Record(Phase phase, Quantity quantity, const std::string& tensor, int32_t layer,
              const Matrix<T>& matrix, Shape shape) {
    if constexpr (Storable<T>) {
      if (sink_ == nullptr) return;
      sink_->Record(MakeSite(phase, quantity, tensor, layer), ToTensor(matrix, std::move(shape)));
    }
  }
  void RecordScalar(Phase phase, const std::string& tensor, const T& value) {
    Record(phase, Quantity::kValue, tensor, -1, Matrix<T>::Constant(1, 1, value), {});
  }
  void RecordCounter(const std::string& tensor, int64_t value) {
    if (sink_ == nullptr) return;
    sink_->RecordCounter(MakeSite(Phase::kStep, Quantity::kCounter, tensor, -1), value);
  }

 private:
  Site MakeSite(Phase phase, Quantity quantity, const std::string& tensor, int32_t layer) const {
    Site site;
    site.step = step_;
    site.microbatch = microbatch_;
    site.layer = layer;
    site.phase = phase;
    site.quantity = quantity;
    site.tensor = tensor;
    return site;
  }

  ReferenceSink* sink_;
  int32_t step_ = -1;
  int32_t microbatch_ = -1;
};

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_RECORDER_H_
