#include "scenarios/piece_set.h"

#define XXH_INLINE_ALL  // its AVX2 loops, in place of the library's portable ones
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace plumbline {

PieceReport ReportOf(int rank, const LayoutPlan& plan, const Tensor& local) {
  const XXH128_hash_t hash = XXH3_128bits(local.raw(), local.bytes());
  return {rank, plan.piece, hash.low64, hash.high64};
}

ReplicaCheck CheckReplicas(std::vector<PieceReport>& reports) {
  std::sort(reports.begin(), reports.end(), [](const PieceReport& a, const PieceReport& b) {
    return std::pair(a.piece, a.rank) < std::pair(b.piece, b.rank);
  });
  const auto equal = [](const PieceReport& a, const PieceReport& b) {
    return a.hash_low == b.hash_low && a.hash_high == b.hash_high;
  };
  ReplicaCheck check;
  for (auto begin = reports.begin(); begin != reports.end();) {
    auto end = begin + 1;
    bool all_equal = true;
    for (; end != reports.end() && end->piece == begin->piece; ++end) {
      all_equal = all_equal && equal(*begin, *end);
    }
    check.any = check.any || end - begin > 1;
    if (!all_equal) {
      auto usual = begin;
      int64_t most = 0;
      for (auto candidate = begin; candidate != end; ++candidate) {
        const int64_t votes = std::count_if(
            begin, end, [&](const PieceReport& other) { return equal(*candidate, other); });
        if (votes > most) {
          most = votes;
          usual = candidate;
        }
      }
      for (auto other = begin; other != end; ++other) {
        if (!equal(*usual, *other)) check.unequal.push_back(other->rank);
      }
    }
    begin = end;
  }
  std::sort(check.unequal.begin(), check.unequal.end());
  return check;
}

Overlay::Overlay(int64_t elements, size_t element_bytes)
    : element_bytes_(element_bytes),
      bytes_(static_cast<size_t>(elements) * element_bytes),
      owner_(static_cast<size_t>(elements), -1) {}

void Overlay::Add(int rank, const std::vector<IndexRun>& runs, const Tensor& local) {
  for (const IndexRun& run : runs) {
    for (int64_t i = 0; i < run.n; ++i) {
      const auto global = static_cast<size_t>(run.global + i);
      const std::byte* mine = local.raw() + static_cast<size_t>(run.local + i) * element_bytes_;
      std::byte* kept = bytes_.data() + global * element_bytes_;
      int32_t& owner = owner_[global];
      if (owner < 0) {
        owner = rank;
        std::memcpy(kept, mine, element_bytes_);
        continue;
      }
      shared_ = true;
      if (unequal_rank_ < 0 && std::memcmp(kept, mine, element_bytes_) != 0) {
        unequal_rank_ = rank;
        unequal_to_ = owner;
        index_ = run.global + i;
      }
    }
  }
}

int64_t Coverage::FirstMissing(const std::vector<PieceReport>& reports, int64_t elements) {
  std::vector<int> pieces;
  pieces.reserve(reports.size());
  for (const PieceReport& report : reports) pieces.push_back(report.piece);
  std::sort(pieces.begin(), pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  const auto [answer, fresh] = answers_.try_emplace({std::move(pieces), elements}, -1);
  if (fresh) {
    std::vector<bool> held(static_cast<size_t>(elements), false);
    for (const int piece : answer->first.first) {
      for (const IndexRun& run : plans_.OfPiece(piece).runs) {
        std::fill_n(held.begin() + run.global, run.n, true);
      }
    }
    const auto missing = std::find(held.begin(), held.end(), false);
    answer->second = missing == held.end() ? -1 : missing - held.begin();
  }
  return answer->second;
}

}  // namespace plumbline
