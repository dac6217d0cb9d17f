// Everything that is known about one divergent tensor, and what every formula is measured with.
//
// A formula is a hypothesis about what the wrong ranks hold. It fits when its residual is far below
// the deviation that it explains.
#ifndef PLUMBLINE_SCENARIOS_EVIDENCE_H_
#define PLUMBLINE_SCENARIOS_EVIDENCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "base/site.h"
#include "base/tensor.h"
#include "scenarios/number.h"

namespace plumbline {

// One rank's piece, comparable with the reference.
struct RankPiece {
  int rank = -1;
  std::vector<int64_t> index;  // global indices; -1: padding
  Values values;               // padding is 0
  bool wrong = false;
};

// What one rank put into one reduction at this site.
struct RankTerm {
  int rank = -1;
  Values values;
};
// One reduction of all ranks.
struct TermSet {
  std::string group_axes;
  bool scattered = false;  // a reduce-scatter: each term holds the pieces of all members
  std::vector<RankTerm> terms;
};

struct NamedNumber {
  Number value;
  std::string name;                    // "tp", "1/dp", "num_microbatches"; empty: the number itself
  std::string axis;                    // the mesh axis that it counts, "embedding", or empty
  bool neighbour = false;              // of a count: "tp - 1", "sqrt(dp)"
  std::vector<std::string> also = {};  // what else has this value here
};

// A tensor of the whole model, with the shape of the divergent one.
struct NamedTensor {
  std::string name;
  Values values;
};

// What the sites around the vocabulary need.
struct VocabularyEvidence {
  int64_t rows_per_rank = 0;
  std::vector<int64_t> tokens;  // in the order of the tensor's positions
  std::vector<int64_t> labels;
  Values table;   // [V, H], when the tensor is the embedding's output
  Values logits;  // [positions, V], when the tensor is the loss per token
  int64_t vocab = 0;
  Number label_smoothing = 0;
};

struct Evidence {
  Site site;
  Shape shape;
  const Mesh* mesh = nullptr;
  Values reference;      // the whole tensor, row-major
  double scale = 0;      // max|reference|; of a field 1
  double deviation = 0;  // what is to be explained; of a field any positive number
  double bound = 0;      // of a deviation that needs no explanation
  // In bf16 and fp16 the bound too, which no formula gets below; else 0.
  double noise = 0;
  std::vector<RankPiece> pieces;  // of all ranks that showed it, by rank
  std::vector<NamedNumber> numbers;
  std::vector<TermSet> reductions;
  std::vector<NamedTensor> stale;   // earlier values of the same tensor
  std::vector<NamedTensor> others;  // what may have been added once more
  std::optional<VocabularyEvidence> vocabulary;

  const RankPiece* PieceOfRank(int rank) const;
  std::vector<int> WrongRanks() const;
};

struct Formula {
  std::string text;     // "actual = 2 * reference"
  double residual = 0;  // relative to the scale
  std::string axes;     // of the group concerned, as "tp"; or empty
  std::string cause;    // the component that this usually means
};

// The values of all wrong ranks, one after the other: what `values_of` says of each, or nothing as
// soon as it says nothing of one. Padding counts as 0.
using ValuesOfPiece = std::function<std::optional<Values>(const RankPiece&)>;
std::optional<Values> Stack(const Evidence& evidence, const ValuesOfPiece& values_of);
Values StackActual(const Evidence& evidence);
Values StackReference(const Evidence& evidence);
// The elements of a whole tensor that the wrong ranks' pieces stand for.
Values StackWhole(const Evidence& evidence, const Values& whole);

// max|a - b| / scale; infinity when there is a NaN. In a field 0 when all are equal, else 1.
double ResidualOf(const Evidence& evidence, const Values& a, const Values& b);
// Whether a residual explains the deviation.
bool Explains(const Evidence& evidence, double residual);

// Elements of a whole tensor that a piece stands for; padding is 0.
Values Pick(const Values& whole, const std::vector<int64_t>& index);
// a + k * b.
Values AddScaled(const Values& a, const Number& k, const Values& b);
Values Scaled(const Number& k, const Values& a);
// The k for which a is nearest to k * b, by least squares; 0 when b is zero. In a field the k of
// the first element at which b is not 0: exact when there is one for all.
Number FactorBetween(const Values& a, const Values& b);

// What a number stands for: k of k * reference, or of reference + k * something. All ranks but one
// add what is added by mistake, so that there tp - 1 comes before a count that happens to equal it.
enum class NumberUse : uint8_t { kFactor, kAdded };
// The named number nearest to k, when one is near, with all the names that it may have. In a field
// the one that is k, else k itself when it is a small fraction.
std::optional<NamedNumber> Recognise(const Evidence& evidence, const Number& k,
                                     NumberUse use = NumberUse::kFactor);
// Whether a number, or the one that its name says, is below 0.
bool Negative(const NamedNumber& number);
// "2 (tp)", "3 (tp - 1, or num_microbatches)", "1/3".
std::string ToString(const NamedNumber& number);
// "+ 2 (tp) * " and "- ": a term's sign and factor, 1 left out.
std::string SignedFactor(const NamedNumber& number);
// Whether all ranks of the wrong ranks' groups are wrong: a mistake of a whole reduction.
bool WholeGroupsAreWrong(const Evidence& evidence, const std::string& axes);

// Whether the tensor is a word table that the first and the last stage of a pipeline both hold, in
// the embedding group.
inline constexpr std::string_view kWordTable = "embedding.word_embeddings.weight";
bool IsTiedOverStages(const Evidence& evidence);

// The names of all products of axes with more than one rank, from the smallest: "tp", "dp" ...
std::vector<std::string> AxesWithRanks(const Mesh& mesh);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_EVIDENCE_H_
