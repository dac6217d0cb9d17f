// Records for the matcher's tests.
#ifndef PLUMBLINE_TESTS_FINGERPRINT_FINGERPRINT_TESTING_H_
#define PLUMBLINE_TESTS_FINGERPRINT_FINGERPRINT_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mesh.h"
#include "fingerprint/record.h"

namespace plumbline::fingerprint_testing {

// An all_reduce of f64[8] by one member of a group.
inline CollectiveRecord AllReduceOf(int rank, std::string group, std::vector<int> members,
                                    int64_t sequence, std::string tensor) {
  CollectiveRecord record;
  record.global_rank = rank;
  record.group_name = std::move(group);
  record.group_hash = HashOfMembers(members);
  record.members = std::make_shared<const std::vector<int>>(std::move(members));
  record.sequence = sequence;
  record.op = "all_reduce";
  record.reduce_op = "sum";
  record.input_shape = {8};
  record.output_shape = {8};
  record.site.step = 1;
  record.site.tensor = std::move(tensor);
  return record;
}

}  // namespace plumbline::fingerprint_testing

#endif  // PLUMBLINE_TESTS_FINGERPRINT_FINGERPRINT_TESTING_H_
