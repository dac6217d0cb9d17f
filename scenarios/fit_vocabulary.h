// Formulas of the two places that cut the vocabulary: the embedding and the loss.
#ifndef PLUMBLINE_SCENARIOS_FIT_VOCABULARY_H_
#define PLUMBLINE_SCENARIOS_FIT_VOCABULARY_H_

#include <optional>

#include "scenarios/evidence.h"

namespace plumbline {

// Rows of the table, or targets of the loss, read at token - shift, and 0 outside the table; label
// smoothing over the vocabulary of one rank.
std::optional<Formula> FitVocabulary(const Evidence& evidence);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_VOCABULARY_H_
