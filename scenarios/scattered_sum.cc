#include "scenarios/scattered_sum.h"

#include "base/error.h"

namespace plumbline {
namespace {

template <class T>
ScatteredSum AddAs(const std::vector<SumTerm>& terms, int64_t elements) {
  std::vector<T> whole(static_cast<size_t>(elements));
  std::vector<bool> held(whole.size(), false);
  for (const SumTerm& term : terms) {
    const T* values = term.values->data<T>();
    for (const IndexRun& run : *term.runs) {
      for (int64_t i = 0; i < run.n; ++i) {
        const auto at = static_cast<size_t>(run.global + i);
        const T value = values[run.local + i];
        whole[at] = held[at] ? whole[at] + value : value;
        held[at] = true;
      }
    }
  }
  std::vector<T> packed;
  ScatteredSum sum;
  for (size_t at = 0; at < whole.size(); ++at) {
    if (!held[at]) continue;
    packed.push_back(whole[at]);
    sum.global_index.push_back(static_cast<int64_t>(at));
  }
  sum.values = Tensor::FromVector(Context{}, {static_cast<int64_t>(packed.size())}, packed);
  return sum;
}

}  // namespace

ScatteredSum AddScattered(const std::vector<SumTerm>& terms, int64_t elements) {
  PL_CHECK(!terms.empty());
  return DispatchScalar(terms.front().values->dtype(),
                        [&]<class T>() { return AddAs<T>(terms, elements); });
}

}  // namespace plumbline
