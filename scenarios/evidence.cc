#include "scenarios/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace plumbline {
namespace {

// A factor found by least squares is a named number when it is this near; the residual is then
// taken with the number itself.
constexpr double kRecognised = 1e-3;
// A formula may leave this much of the deviation, and no more than this many bounds.
constexpr double kUnexplainedShare = 1e-3;
constexpr double kUnexplainedBounds = 100;

// What goes wrong over an axis goes wrong for all its ranks.
bool MayBeMeant(const Evidence& evidence, const NamedNumber& number) {
  return !number.name.empty() &&
         (number.axis.empty() || WholeGroupsAreWrong(evidence, number.axis));
}

// The names of a value, the likeliest first. Neighbours of counts are only meant where nothing is
// that number, but for those that count what is added.
NamedNumber WithItsNames(const Evidence& evidence, const Number& value, NumberUse use) {
  std::vector<NamedNumber> added;
  std::vector<NamedNumber> counts;
  std::vector<NamedNumber> neighbours;
  for (const NamedNumber& number : evidence.numbers) {
    if (!(number.value == value) || !MayBeMeant(evidence, number)) continue;
    const bool all_but_one =
        number.name == number.axis + " - 1" || number.name == "1 - " + number.axis;
    if (!number.neighbour) {
      counts.push_back(number);
    } else if (use == NumberUse::kAdded && !number.axis.empty() && all_but_one) {
      added.push_back(number);
    } else {
      neighbours.push_back(number);
    }
  }
  added.insert(added.end(), counts.begin(), counts.end());
  const std::vector<NamedNumber>& all = added.empty() ? neighbours : added;
  if (all.empty()) return {value, "", ""};
  NamedNumber named = all.front();
  for (size_t i = 1; i < all.size(); ++i) named.also.push_back(all[i].name);
  return named;
}

// The name of minus the number.
std::string Negated(const std::string& name) {
  constexpr std::string_view kOneLess = " - 1";
  constexpr std::string_view kOneMinus = "1 - ";
  if (name.empty()) return name;
  if (name.starts_with('-')) return name.substr(1);
  if (name.starts_with(kOneMinus)) return name.substr(kOneMinus.size()) + std::string(kOneLess);
  if (name.ends_with(kOneLess)) {
    return std::string(kOneMinus) + name.substr(0, name.size() - kOneLess.size());
  }
  return "-" + name;
}

}  // namespace

const RankPiece* Evidence::PieceOfRank(int rank) const {
  for (const RankPiece& piece : pieces) {
    if (piece.rank == rank) return &piece;
  }
  return nullptr;
}

std::vector<int> Evidence::WrongRanks() const {
  std::vector<int> ranks;
  for (const RankPiece& piece : pieces) {
    if (piece.wrong) ranks.push_back(piece.rank);
  }
  return ranks;
}

std::optional<Values> Stack(const Evidence& evidence, const ValuesOfPiece& values_of) {
  Values all;
  for (const RankPiece& piece : evidence.pieces) {
    if (!piece.wrong) continue;
    std::optional<Values> values = values_of(piece);
    if (!values || values->size() != piece.values.size()) return std::nullopt;
    for (size_t i = 0; i < piece.index.size(); ++i) {
      if (piece.index[i] < 0) (*values)[i] = 0;
    }
    all.insert(all.end(), values->begin(), values->end());
  }
  return all;
}

Values StackActual(const Evidence& evidence) {
  return *Stack(evidence, [](const RankPiece& piece) { return piece.values; });
}

Values StackReference(const Evidence& evidence) { return StackWhole(evidence, evidence.reference); }

Values StackWhole(const Evidence& evidence, const Values& whole) {
  return *Stack(evidence, [&](const RankPiece& piece) { return Pick(whole, piece.index); });
}

double ResidualOf(const Evidence& evidence, const Values& a, const Values& b) {
  PL_CHECK(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = Distance(a[i], b[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst == 0 ? 0 : worst / evidence.scale;
}

bool Explains(const Evidence& evidence, double residual) {
  // Within the noise nothing can be explained; a formula must then leave most of it behind.
  const double share = std::max(kUnexplainedShare * evidence.deviation,
                                std::min(evidence.noise, evidence.deviation / 4));
  return residual <= share && residual <= kUnexplainedBounds * evidence.bound;
}

Values Pick(const Values& whole, const std::vector<int64_t>& index) {
  Values picked(index.size(), 0.0);
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] >= 0) picked[i] = whole[static_cast<size_t>(index[i])];
  }
  return picked;
}

Values AddScaled(const Values& a, const Number& k, const Values& b) {
  PL_CHECK(a.size() == b.size());
  Values sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + k * b[i];
  return sum;
}

Values Scaled(const Number& k, const Values& a) {
  Values scaled(a.size());
  for (size_t i = 0; i < a.size(); ++i) scaled[i] = k * a[i];
  return scaled;
}

Number FactorBetween(const Values& a, const Values& b) {
  PL_CHECK(a.size() == b.size());
  double product = 0;
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].exact() || b[i].exact()) {
      if (b[i] == 0.0) continue;
      return a[i] / b[i];
    }
    product += a[i].real() * b[i].real();
    square += b[i].real() * b[i].real();
  }
  return square > 0 ? product / square : 0;
}

bool Negative(const NamedNumber& number) {
  const double size = Size(number.value);
  return std::isnan(size) ? number.name.starts_with('-') : size < 0;
}

std::optional<NamedNumber> Recognise(const Evidence& evidence, const Number& k, NumberUse use) {
  if (!k.exact() && !std::isfinite(k.real())) return std::nullopt;
  const NamedNumber* nearest = nullptr;
  double best = std::numeric_limits<double>::infinity();
  for (const NamedNumber& number : evidence.numbers) {
    const double distance = Distance(number.value, k);
    const double share = std::max(kRecognised, std::min(evidence.noise, 0.05));
    const double near = k.exact() ? 0 : share * std::max(std::abs(number.value.real()), 1e-3);
    if (distance <= near && distance < best) {
      nearest = &number;
      best = distance;
    }
  }
  if (nearest == nullptr) {
    return AsSmallFraction(k) ? std::optional<NamedNumber>({k, "", ""}) : std::nullopt;
  }
  return WithItsNames(evidence, nearest->value, use);
}

std::string ToString(const NamedNumber& number) {
  const double k = Size(number.value);
  std::string text = ToString(number.value);
  // Inverses of whole numbers read better as such.
  const double inverse = 1 / k;
  if (!number.value.exact() && k != 0 && std::abs(k) < 1 && std::round(inverse) == inverse) {
    text = fmt::format("1/{}", inverse);
    if (k < 0) text = fmt::format("-1/{}", -inverse);
  }
  if (number.name.empty()) return text;
  std::string names = number.name;
  for (size_t i = 0; i < number.also.size(); ++i) {
    names += fmt::format(", {}{}", i + 1 == number.also.size() ? "or " : "", number.also[i]);
  }
  return fmt::format("{} ({})", text, names);
}

std::string SignedFactor(const NamedNumber& number) {
  NamedNumber size = number;
  const bool negative = Negative(number);
  if (negative) {
    size.value = -number.value;
    size.name = Negated(size.name);
    for (std::string& name : size.also) name = Negated(name);
  }
  return fmt::format("{} {}", negative ? '-' : '+',
                     size.value == 1.0 ? "" : ToString(size) + " * ");
}

bool WholeGroupsAreWrong(const Evidence& evidence, const std::string& axes) {
  for (const RankPiece& piece : evidence.pieces) {
    if (!piece.wrong) continue;
    if (!evidence.mesh->HasGroup(axes, piece.rank)) return false;
    for (const int member : evidence.mesh->GroupOf(axes, piece.rank).members) {
      const RankPiece* other = evidence.PieceOfRank(member);
      if (other != nullptr && !other->wrong) return false;
    }
  }
  return true;
}

bool IsTiedOverStages(const Evidence& evidence) {
  const std::vector<int> wrong = evidence.WrongRanks();
  return evidence.mesh->extent("pp") > 1 && evidence.site.tensor == kWordTable &&
         std::all_of(wrong.begin(), wrong.end(), [&](int rank) {
           return evidence.mesh->HasGroup("embedding", rank) &&
                  evidence.PieceOfRank(evidence.mesh->GroupOf("embedding", rank).members.back()) !=
                      nullptr;
         });
}

std::vector<std::string> AxesWithRanks(const Mesh& mesh) {
  constexpr std::array<const char*, 4> kAxes = {"tp", "cp", "dp", "pp"};
  std::vector<std::string> all;
  for (size_t count = 1; count <= kAxes.size(); ++count) {
    for (unsigned chosen = 1; chosen < 1U << kAxes.size(); ++chosen) {
      std::string name;
      size_t axes = 0;
      for (size_t i = 0; i < kAxes.size(); ++i) {
        if ((chosen >> i & 1U) == 0 || mesh.extent(kAxes[i]) == 1) continue;
        if (!name.empty()) name += '-';
        name += kAxes[i];
        ++axes;
      }
      if (axes == count && std::find(all.begin(), all.end(), name) == all.end())
        all.push_back(name);
    }
  }
  return all;
}

}  // namespace plumbline
