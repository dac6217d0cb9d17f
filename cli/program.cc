#include "cli/program.h"

#include <algorithm>
#include <exception>
#include <new>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/describing_commands.h"
#include "cli/schedule_command.h"

namespace plumbline {
namespace {

int Dispatch(const CommandLine& line, const Console& console) {
  if (!line.help.empty()) {
    console.out << line.help;
    return 0;
  }
  if (line.command == "verify") return RunVerify(line, console);
  if (line.command == "layout") return RunLayout(line, console);
  if (line.command == "schedule") return RunSchedule(line.words, console);
  if (line.command == "gradcheck") return RunGradcheck(line, console);
  if (line.command == "golden") return RunGolden(line, console);
  if (line.command == "buffers") return RunBuffers(line, console);
  if (line.command == "timeline") return RunTimeline(line, console);
  if (line.command == "memory") return RunMemory(line, console);
  if (line.command == "rules") return RunRules(line, console);
  if (line.command == "plants") return RunPlants(console);
  return RunArguments(console);
}

int Fail(const Console& console, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  console.err << "plumbline: " << message << std::endl;
  return 2;
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, const Console& console) {
  try {
    const int status = Dispatch(ParseCommandLine(arguments), console);
    console.out.flush();
    if (!console.out) return Fail(console, "standard output: could not write everything");
    return status;
  } catch (const Error& error) {
    const bool ours = error.code() == ErrorCode::kInternal;
    return Fail(console, (ours ? "a bug of plumbline: " : "") + std::string(error.what()));
  } catch (const std::bad_alloc&) {
    return Fail(console, "out of memory; lower the sizes or the number of ranks");
  } catch (const std::exception& error) {
    return Fail(console, "a bug of plumbline: " + std::string(error.what()));
  }
}

}  // namespace plumbline
