// What exact mode costs beside float64.
//
//   bazelw run //tests/bench:exact_bench
//
// Prints ratios within one run, in processor time: a whole verdict, its parallel part and its
// reference part over p = 2^61 - 1 (and the other primes) to those in f64, at most 4; the matrix
// product; sums of residues to reading them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <vector>

#include "base/batch.h"
#include "base/field.h"
#include "base/init.h"
#include "base/mesh.h"
#include "kernels/matmul.h"
#include "kernels/reduce.h"
#include "oracle/reference.h"
#include "scenarios/scenario.h"
#include "scenarios/verify.h"

namespace plumbline {
namespace {

constexpr double kLimit = 4;

Scenario EightRanks(DType dtype) {
  Scenario scenario;
  TransformerConfig& model = scenario.config.model;
  model.num_layers = 2;
  model.hidden_size = 128;
  model.ffn_hidden_size = 512;
  model.num_attention_heads = 8;
  model.num_query_groups = 4;
  model.kv_channels = 16;
  model.seq_length = 32;
  model.max_position_embeddings = 32;
  model.hidden_dropout = 0.1;
  TrainConfig& train = scenario.config.train;
  train.steps = 2;
  train.micro_batch_size = 2;
  train.global_batch_size = 2 * 2 * 2;
  scenario.config.parallel.tp = 4;
  scenario.config.parallel.dp = 2;
  scenario.config.parallel.sequence_parallel = true;
  scenario.config.dtype = dtype;
  return scenario;
}

// Processor time of all threads, the best of some calls.
double Seconds(const std::function<void()>& run, int times = 5) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const std::clock_t start = std::clock();
    run();
    const std::clock_t end = std::clock();
    best = std::min(best, static_cast<double>(end - start) / CLOCKS_PER_SEC);
  }
  return best;
}

class NoSink : public ReferenceSink {
 public:
  void Record(const Site&, Tensor) override {}
  void RecordCounter(const Site&, int64_t) override {}
};

class NoProbe : public Probe {
 public:
  void Observe(const Site&, const ObservedLayout&, const Tensor&) override {}
  void ObserveCounter(const Site&, int64_t) override {}
};

std::vector<uint8_t> Text() {
  std::vector<uint8_t> text;
  for (uint32_t i = 0; i < 40000; ++i) text.push_back(static_cast<uint8_t>((i * i * 7 + i) >> 3));
  return text;
}

struct Parts {
  double verdict = 0;
  double parallel = 0;
  double reference = 0;
};

Parts TimeParts(DType dtype) {
  const Scenario scenario = EightRanks(dtype);
  const RunConfig& config = scenario.config;
  const SeededParameters parameters(config.model, config.train.seed);
  const TextBatches batches(config.model, config.train, Text());
  const ScenarioInputs inputs = {parameters, batches};
  const Mesh mesh(config.parallel);
  CurrentFieldRun() = {1, 0};
  Parts parts;
  parts.verdict = Seconds([&] {
    if (!Verify(scenario, inputs).pass) fmt::print("the verdict is no pass\n");
  });
  NoProbe probe;
  RunObserver observer;
  observer.probe_of = [&](int) -> Probe& { return probe; };
  parts.parallel = Seconds([&] { RunParallel(scenario, inputs, mesh, observer); });
  NoSink sink;
  parts.reference =
      Seconds([&] { RunReference(config.model, config.train, dtype, parameters, batches, sink); });
  return parts;
}

void PrintSteps() {
  const Parts in_double = TimeParts(DType::kF64);
  fmt::print("step, 8 ranks, h 128: f64 verdict {:.1f} ms (parallel {:.1f}, reference {:.1f})\n",
             1e3 * in_double.verdict, 1e3 * in_double.parallel, 1e3 * in_double.reference);
  for (const DType dtype : {DType::kM61, DType::kP50, DType::kP31}) {
    const Parts exact = TimeParts(dtype);
    const double ratio = exact.verdict / in_double.verdict;
    fmt::print("  {} to f64: verdict {:.2f}{}, parallel {:.2f}, reference {:.2f}\n", Name(dtype),
               ratio,
               dtype != DType::kM61 ? ""
               : ratio <= kLimit    ? " (within 4)"
                                    : " (above 4)",
               exact.parallel / in_double.parallel, exact.reference / in_double.reference);
  }
}

template <class T>
Tensor Filled(const Shape& shape) {
  std::vector<T> values;
  for (int64_t i = 0; i < ElementsOf(shape); ++i) {
    if constexpr (kIsField<T>) {
      values.push_back(ScalarTraits<T>::Any(FieldFunction::kInit, static_cast<uint64_t>(i)));
    } else {
      values.push_back(static_cast<T>(i % 97) / T(97));
    }
  }
  return Tensor::FromVector<T>(Context{}, shape, values);
}

template <class T>
double MatmulSeconds(int64_t n) {
  const Tensor x = Filled<T>({n, n});
  const Tensor w = Filled<T>({n, n});
  return Seconds([&] { MatmulNT(Context{}, x, w); });
}

void PrintMatmul() {
  constexpr int64_t kSize = 512;
  const double products = static_cast<double>(kSize * kSize * kSize);
  const double in_double = MatmulSeconds<double>(kSize);
  const auto line = [&](const char* name, double seconds) {
    fmt::print("  {}: {:.2f} G products/s, {:.1f} times f64's time\n", name,
               products / seconds / 1e9, seconds / in_double);
  };
  fmt::print("matrix product, n = {}: f64 {:.2f} G products/s\n", kSize,
             products / in_double / 1e9);
  line("m61", MatmulSeconds<M61>(kSize));
  line("p50", MatmulSeconds<P50>(kSize));
  line("p31", MatmulSeconds<P31>(kSize));
}

// result = a + b, as a reduction of two ranks does it: three streams through memory.
template <class T>
double ReduceSeconds(int64_t elements) {
  const Tensor a = Filled<T>({elements});
  const Tensor b = Filled<T>({elements});
  Tensor result = Tensor::Zeros(Context{}, kDTypeOf<T>, {elements});
  const std::vector<const Tensor*> sources = {&a, &b};
  return Seconds([&] { Reduce(ReduceOp::kSum, sources, result); });
}

void PrintSums() {
  constexpr int64_t kElements = int64_t{1} << 23;
  const double bytes = 3.0 * 8 * static_cast<double>(kElements);
  const double in_double = ReduceSeconds<double>(kElements);
  fmt::print("sums of {} MiB: f64 {:.1f} GB/s", (kElements * 8) >> 20, bytes / in_double / 1e9);
  fmt::print("; m61 {:.2f}, p50 {:.2f}, p31 {:.2f} times f64's time\n",
             ReduceSeconds<M61>(kElements) / in_double, ReduceSeconds<P50>(kElements) / in_double,
             ReduceSeconds<P31>(kElements) / in_double);
}

}  // namespace
}  // namespace plumbline

int main() {
  plumbline::PrintSteps();
  plumbline::PrintMatmul();
  plumbline::PrintSums();
  return 0;
}
