#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <set>

#include "base/error.h"
#include "cli/command_options.h"
#include "cli/launch_line.h"
#include "cli/schedule_command.h"
#include "cli/toml_arguments.h"

namespace plumbline {
namespace {

constexpr const char* kVersion = "plumbline 0.1.0";

struct Command {
  const char* name;
  const char* summary;
  const char* examples;
  bool run_arguments = false;           // takes those of a training run
  std::vector<OptionRow> options = {};  // and these beside them
};

std::vector<Command> VerifyCommand() {
  return {{"verify",
           "Train a small GPT on simulated ranks beside the reference and compare everything",
           "Examples:\n"
           "  plumbline verify --tp 2 --sp --data README.md\n"
           "  plumbline verify --tp 4 --dp 2 --swiglu --normalization RMSNorm "
           "--position-embedding-type rope --disable-bias-linear\n"
           "  plumbline verify --tp 2 --sp --plant sp-norm-gradient-not-summed\n"
           "  plumbline verify torchrun --nproc-per-node 4 pretrain_gpt.py "
           "--tensor-model-parallel-size 2 --sequence-parallel\n\n"
           "What is not given takes a value that hides no mistakes, and is printed. Exit status: 0 "
           "pass, 1 findings, 2 error.\n"
           "`plumbline arguments` lists what becomes of every argument of Megatron-LM.",
           true}};
}

std::vector<Command> DescribingCommands() {
  return {
      {"layout", "Print a mesh: groups, coordinates, and which part of a parameter a rank holds",
       "Examples:\n"
       "  plumbline layout --tp 2 --pp 2 --dp 2 --order tp-pp-dp\n"
       "  plumbline layout --tp 2 --dp 2 --param "
       "decoder.layers.0.self_attention.linear_qkv.weight",
       true},
      {"schedule", kScheduleSummary, ""},
      {"buffers",
       "Print which buffer, bucket and data-parallel rank each parameter and gradient belongs to",
       "Examples:\n"
       "  plumbline buffers --dp 4 --use-distributed-optimizer --overlap-grad-reduce "
       "--ddp-bucket-size 20000 --bf16\n"
       "  plumbline buffers --pp 2 --dp 2 --use-distributed-optimizer --rank 5\n\n"
       "The model and layout are verify's, of any size: nothing is allocated. A shard is a "
       "position in the data- and context-parallel group of one optimizer instance. `ready` is the "
       "order in "
       "which the backward completes the buckets.",
       true,
       {{"--rank", "N", "the stage of this rank alone, and what it owns"}}},
      {"timeline",
       "Print when a step's collectives run beside its computation, and what is exposed",
       "Examples:\n"
       "  plumbline timeline --dp 4 --use-distributed-optimizer --ddp-bucket-size 20000\n"
       "  plumbline timeline --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --tp 1 "
       "--dp 64 --bf16 --use-distributed-optimizer --perfetto step.json\n\n"
       "A model of one rank, in whole nanoseconds: costs are given, not measured, and waits for "
       "other pipeline stages are left out. Buckets are those of --overlap-grad-reduce in every "
       "row, so that only the overlap differs; exposed = communication - overlapped.",
       true,
       {{"--stage", "N", "the pipeline stage; 0"},
        {"--overlap", "NAME", "list the collectives of none, grad, param or both; the flags' own"},
        {"--forward-ps", "N", "of one microbatch, picoseconds per parameter; 40"},
        {"--backward-ps", "N", "the same of a backward; 80"},
        {"--latency-ns", "N", "of a collective; 10000"},
        {"--bandwidth-gbs", "N", "of a rank, 1e9 bytes a second; 50"},
        {"--perfetto", "FILE", "write all four as a trace for Perfetto or Chrome too"}}},
      {"memory",
       "Print bytes per parameter by state: by formula, by layout, and as allocated",
       "Examples:\n"
       "  plumbline memory --dp 4 --use-distributed-optimizer --bf16\n"
       "  plumbline memory --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --tp 1 "
       "--dp 64 --bf16 --use-distributed-optimizer --measure no\n\n"
       "`by layout` adds padding and uneven shards to the formula; `measured` is what the ranks of "
       "a real step hold when it ends.",
       true,
       {{"--measure", "yes|no", "run a step on simulated ranks; yes. no: of any size"}}}};
}

std::vector<Command> CheckingCommands() {
  return {
      {"gradcheck", "Check the reference's own gradients against derivatives of its forward",
       "Examples:\n"
       "  plumbline gradcheck --dtype exact\n"
       "  plumbline gradcheck --swiglu --normalization RMSNorm --position-embedding-type rope\n\n"
       "For each parameter tensor and a random direction v the derivative of the step's loss along "
       "v, by dual numbers, must be the inner product of gradient and v: within 1e-12 in f64, and "
       "equal in --dtype exact. The model is that of verify. Exit status: 0 pass, 1 a tensor "
       "differs, 2 error.",
       true},
      {"golden", "Run the reference on golden files and print how far it is from them",
       "Example:\n"
       "  plumbline golden tests/golden/llama_gqa_swiglu.safetensors\n\n"
       "Exit status: 0 when every quantity is within 1e-9, else 1; 2 error."}};
}

std::vector<Command> ListingCommands() {
  return {{"rules", "List which combinations of data-parallel settings are refused, and why", ""},
          {"plants", "List the mistakes that verify --plant knows", ""},
          {"arguments", "List every known argument and what becomes of it", ""}};
}

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = [] {
    std::vector<Command> all = VerifyCommand();
    for (const std::vector<Command>& part :
         {DescribingCommands(), CheckingCommands(), ListingCommands()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return commands;
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  return names;
}

std::string Overview() {
  CLI::App app("A correctness harness and reference oracle for Megatron-style parallel training.",
               "plumbline");
  app.set_version_flag("--version", kVersion);
  for (const Command& command : Commands()) app.add_subcommand(command.name, command.summary);
  app.footer("`plumbline COMMAND --help` says more.");
  return app.help();
}

// Registers what occurs in the words (CLI11 compares each option with all others, which takes 30 ms
// for the whole table) and, for the help, what is modelled.
void AddRunArguments(const std::vector<std::string>& words, CLI::App& app) {
  std::set<std::string> occurring;
  for (const std::string& word : words) {
    if (word.starts_with("--")) occurring.insert(word.substr(2, word.find('=') - 2));
  }
  const bool help =
      occurring.contains("help") || std::find(words.begin(), words.end(), "-h") != words.end();
  for (const Argument& argument : AllArguments()) {
    const bool modelled = argument.kind == ArgumentClass::kModelled;
    if (!occurring.contains(argument.name) && !occurring.contains(argument.alias) &&
        !(help && modelled)) {
      continue;
    }
    std::string names = "--" + argument.name;
    if (!argument.alias.empty()) names += ",--" + argument.alias;
    CLI::Option* option =
        argument.arity == Arity::kNone ? app.add_flag(names, argument.note) : app.add_option(names);
    option->description(argument.note);
    option->group(modelled ? argument.group : "");
    if (argument.arity == Arity::kNone) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      continue;
    }
    option->type_name(argument.value);
    if (argument.arity == Arity::kOne) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      option->expected(argument.arity == Arity::kSome ? 1 : 0,
                       CLI::detail::expected_max_vector_size);
      option->allow_extra_args();
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
}

// What --config FILE and `--flag=` would make of the words before CLI11 sees them.
void CheckWords(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos || equals + 1 < word.size())
      continue;
    throw InvalidArgument("{}: expected a value after '='", word.substr(0, equals));
  }
}

void CheckValue(const Argument& argument, const std::vector<std::string>& values) {
  if (argument.arity == Arity::kNone) {
    if (values.back() != "true" && values.back() != "false") {
      throw InvalidArgument("--{}={}: takes no value", argument.name, values.back());
    }
    return;
  }
  for (const std::string& value : values) {
    if (value.starts_with("--") && FindArgument(value.substr(2)) != nullptr) {
      throw InvalidArgument("--{}: expected a value, not '{}'", argument.name, value);
    }
    if (value.empty()) throw InvalidArgument("--{}: the value is empty", argument.name);
  }
}

GivenArguments Collect(const CLI::App& app) {
  GivenArguments given;
  for (const Argument& argument : AllArguments()) {
    const CLI::Option* option = app.get_option_no_throw("--" + argument.name);
    if (option == nullptr || option->count() == 0) continue;
    std::vector<std::string> values = option->results();
    if (argument.arity == Arity::kOne || argument.arity == Arity::kNone) {
      values = {values.back()};
    }
    CheckValue(argument, values);
    given.Set({&argument, std::move(values), ""});
  }
  return given;
}

[[noreturn]] void ThrowUnexpected(const std::string& word, bool run_arguments) {
  if (!word.starts_with("-") || word == "-") {
    throw InvalidArgument("unexpected word '{}'; expected arguments that begin with --", word);
  }
  std::string flag = word.substr(0, word.find('='));
  std::string name = flag;
  name.erase(0, name.find_first_not_of('-'));
  std::string nearest;
  if (run_arguments) {
    std::replace(name.begin(), name.end(), '_', '-');
    nearest = NearestArgument(name);
  }
  throw InvalidArgument("unknown argument '{}'{}", flag,
                        nearest.empty() ? "" : "; did you mean '--" + nearest + "'?");
}

// Parses and fills in help.
void Parse(const std::vector<std::string>& words, bool run_arguments, CLI::App& app,
           CommandLine* line) {
  line->help = ParseWords(words, app);
  if (!line->help.empty()) return;
  const std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) ThrowUnexpected(extras.front(), run_arguments);
}

void ParseRun(const Command& command, const std::vector<std::string>& words, CLI::App& app,
              CommandLine* line) {
  const LaunchLine launch = StripLauncher(words);
  line->launcher_world_size = launch.world_size;
  CheckWords(launch.arguments);
  AddRunArguments(launch.arguments, app);
  AddOptions(command.options, app);
  Parse(launch.arguments, true, app, line);
  if (!line->help.empty()) return;
  line->given = Collect(app);
  line->options = CollectOptions(command.options, app);
  if (const std::optional<std::string> config = line->given.Text("config")) {
    line->given.AddMissing(ParseTomlFile(*config));
  }
  line->json = line->given.Flag("json");
}

}  // namespace

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (arguments.empty()) {
    throw InvalidArgument("expected a command: {}; see plumbline --help",
                          fmt::join(CommandNames(), ", "));
  }
  line.command = arguments.front();
  if (line.command == "--help" || line.command == "-h" || line.command == "help") {
    line.help = Overview();
    return line;
  }
  if (line.command == "--version") {
    line.help = std::string(kVersion) + "\n";
    return line;
  }
  const auto command =
      std::find_if(Commands().begin(), Commands().end(),
                   [&](const Command& candidate) { return line.command == candidate.name; });
  if (command == Commands().end()) {
    const std::string nearest = NearestWord(line.command, CommandNames());
    throw InvalidArgument(
        "unknown command '{}'{}", line.command,
        nearest.empty() ? "; see plumbline --help" : "; did you mean '" + nearest + "'?");
  }
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (line.command == "schedule") {
    line.words = words;  // it has arguments of its own, and parses them itself
    return line;
  }
  CLI::App app(command->summary, "plumbline " + line.command);
  app.footer(command->examples);
  if (line.command == "layout") {
    app.add_option("--param", line.parameters,
                   "a parameter whose pieces are shown; may be repeated")
        ->type_name("NAME");
  }
  if (command->run_arguments) {
    ParseRun(*command, words, app, &line);
  } else if (line.command == "golden") {
    app.add_option("files", line.files, "golden files")->type_name("FILE");
    app.add_flag("--json", line.json, "one JSON object instead of text");
    Parse(words, false, app, &line);
    if (line.help.empty() && line.files.empty()) {
      throw InvalidArgument("golden: expected at least one FILE.safetensors");
    }
  } else {
    if (line.command == "rules") {
      app.add_flag("--json", line.json, "one JSON object instead of text");
    }
    Parse(words, false, app, &line);
  }
  return line;
}

}  // namespace plumbline
