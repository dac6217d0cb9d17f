// What stands before a training program's own arguments when a whole launch line is pasted.
#ifndef PLUMBLINE_CLI_LAUNCH_LINE_H_
#define PLUMBLINE_CLI_LAUNCH_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

struct LaunchLine {
  std::vector<std::string> arguments;  // the rest, in order
  int64_t world_size = 0;              // --nproc-per-node * --nnodes; 0: not said
};

// Takes out `torchrun --nproc-per-node 8 --nnodes 2 ... pretrain_gpt.py` (or python, srun,
// NAME=VALUE settings: from a launcher's name to the first word that ends in .py), or the bare name
// of a script. Values of known arguments are never taken for a launcher.
//
// Errors: InvalidArgument when a launcher's name is followed by no script.
LaunchLine StripLauncher(const std::vector<std::string>& arguments);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_LAUNCH_LINE_H_
