// Helpers of the communicator tests: groups, sites, worlds, tensors with values that tell where
// they come from.
#ifndef PLUMBLINE_TESTS_PARALLEL_COMM_COMM_TESTING_H_
#define PLUMBLINE_TESTS_PARALLEL_COMM_COMM_TESTING_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/mesh.h"
#include "base/site.h"
#include "base/tensor.h"
#include "parallel/comm/world.h"

namespace plumbline::comm_testing {

inline Group GroupOf(std::string name, std::vector<int> members) {
  Group group;
  group.name = std::move(name);
  group.members = std::move(members);
  group.hash = HashOfMembers(group.members);
  return group;
}

// Ranks first, first + 1, ...
inline Group Range(std::string name, int first, int size) {
  std::vector<int> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), first);
  return GroupOf(std::move(name), std::move(members));
}

inline Site SiteOf(std::string tensor, int microbatch = -1) {
  Site site;
  site.step = 1;
  site.microbatch = microbatch;
  site.tensor = std::move(tensor);
  return site;
}

inline WorldOptions Options(int size) {
  WorldOptions options;
  options.size = size;
  return options;
}

inline Tensor Filled(const Context& context, int64_t elements, double value) {
  return Tensor::FromVector<double>(context, {elements},
                                    std::vector<double>(static_cast<size_t>(elements), value));
}

// The findings as text, for failure messages.
inline std::string Texts(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.message + "\n";
  return text;
}

}  // namespace plumbline::comm_testing

#endif  // PLUMBLINE_TESTS_PARALLEL_COMM_COMM_TESTING_H_
