#include "kernels/host/attention_plan.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "kernels/host/common.h"

namespace plumbline::host {
namespace {

// The document of each position; 0 everywhere when there is one.
std::vector<int64_t> DocumentsOf(const AttentionOptions& options, int64_t batch_row,
                                 const std::vector<int64_t>& positions) {
  std::vector<int64_t> result(positions.size(), 0);
  const Tensor& ids = options.document_ids;
  if (!ids.defined()) return result;
  const int64_t* row = ids.data<int64_t>() + batch_row * ids.strides()[0];
  for (size_t i = 0; i < positions.size(); ++i) result[i] = row[positions[i] * ids.strides()[1]];
  return result;
}

void CheckPositions(std::string_view op, std::string_view name,
                    const std::vector<int64_t>& positions, int64_t rows,
                    const AttentionOptions& options) {
  if (static_cast<int64_t>(positions.size()) != rows) {
    throw InvalidArgument("{}: {} {} positions for {} rows", op, positions.size(), name, rows);
  }
  const bool bounded = options.document_ids.defined() || options.dropout.probability > 0;
  const int64_t end =
      options.document_ids.defined() ? options.document_ids.dim(1) : options.global_sequence;
  for (int64_t position : positions) {
    if (bounded && (position < 0 || position >= end)) {
      throw InvalidArgument("{}: {} position {} of a sequence of {}", op, name, position, end);
    }
  }
}

}  // namespace

void RunLists::Add(Run run) {
  const bool first_of_row = first_[first_.size() - 2] == runs_.size();
  if (!first_of_row && runs_.back().end == run.begin) {
    runs_.back().end = run.end;
  } else if (run.begin < run.end) {
    runs_.push_back(run);
  }
  first_.back() = runs_.size();
}

Run RunLists::Hull(int64_t begin, int64_t end) const {
  Run hull = {0, 0};
  for (int64_t row = begin; row < end; ++row) {
    const std::span<const Run> runs = Of(row);
    if (runs.empty()) continue;
    const bool first = hull.begin == hull.end;
    hull.begin = first ? runs.front().begin : std::min(hull.begin, runs.front().begin);
    hull.end = first ? runs.back().end : std::max(hull.end, runs.back().end);
  }
  return hull;
}

RunLists KeysOfQueries(const AttentionOptions& options, int64_t batch_row) {
  const std::vector<int64_t>& queries = options.query_positions;
  const std::vector<int64_t>& keys = options.key_positions;
  RunLists result;
  if (!options.document_ids.defined() && std::is_sorted(keys.begin(), keys.end())) {
    for (int64_t query : queries) {
      result.StartRow();
      result.Add({0, std::upper_bound(keys.begin(), keys.end(), query) - keys.begin()});
    }
    return result;
  }
  const std::vector<int64_t> query_documents = DocumentsOf(options, batch_row, queries);
  const std::vector<int64_t> key_documents = DocumentsOf(options, batch_row, keys);
  for (size_t i = 0; i < queries.size(); ++i) {
    result.StartRow();
    for (size_t j = 0; j < keys.size(); ++j) {
      const int64_t key = static_cast<int64_t>(j);
      if (keys[j] <= queries[i] && key_documents[j] == query_documents[i]) {
        result.Add({key, key + 1});
      }
    }
  }
  return result;
}

RunLists QueriesOfKeys(const AttentionOptions& options, int64_t batch_row) {
  const std::vector<int64_t>& queries = options.query_positions;
  const std::vector<int64_t>& keys = options.key_positions;
  RunLists result;
  const int64_t count = static_cast<int64_t>(queries.size());
  if (!options.document_ids.defined() && std::is_sorted(queries.begin(), queries.end())) {
    for (int64_t key : keys) {
      result.StartRow();
      result.Add({std::lower_bound(queries.begin(), queries.end(), key) - queries.begin(), count});
    }
    return result;
  }
  const std::vector<int64_t> query_documents = DocumentsOf(options, batch_row, queries);
  const std::vector<int64_t> key_documents = DocumentsOf(options, batch_row, keys);
  for (size_t j = 0; j < keys.size(); ++j) {
    result.StartRow();
    for (size_t i = 0; i < queries.size(); ++i) {
      const int64_t query = static_cast<int64_t>(i);
      if (keys[j] <= queries[i] && key_documents[j] == query_documents[i]) {
        result.Add({query, query + 1});
      }
    }
  }
  return result;
}

AttentionExtents CheckAttention(std::string_view op, const Tensor& q, const Tensor& k,
                                const Tensor& v, const AttentionOptions& options) {
  CheckDims(op, "q", q, 4);
  CheckDims(op, "k", k, 4);
  CheckSame(op, k, v);
  CheckDTypes(op, q, k);
  const AttentionExtents extents = {q.dim(0), k.dim(0), q.dim(1), q.dim(2), k.dim(2), q.dim(3)};
  if (k.dim(1) != extents.batch || k.dim(3) != extents.channels || extents.groups < 1 ||
      extents.heads % extents.groups != 0) {
    throw InvalidArgument("{}: q {} and k {}; expected equal batch and channels, heads % groups 0",
                          op, ToString(q.shape()), ToString(k.shape()));
  }
  if (options.document_ids.defined()) {
    CheckDims(op, "document_ids", options.document_ids, 2);
    CheckIndices(op, "document_ids", options.document_ids);
    if (options.document_ids.dim(0) != extents.batch) {
      throw InvalidArgument("{}: document_ids {} for a batch of {}", op,
                            ToString(options.document_ids.shape()), extents.batch);
    }
  }
  CheckPositions(op, "query", options.query_positions, extents.queries, options);
  CheckPositions(op, "key", options.key_positions, extents.keys, options);
  return extents;
}

}  // namespace plumbline::host
