// Where a command prints, and how: tables, colours, progress.
#ifndef PLUMBLINE_CLI_CONSOLE_H_
#define PLUMBLINE_CLI_CONSOLE_H_

#include <chrono>
#include <ostream>
#include <string>
#include <vector>

namespace plumbline {

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool colour = false;    // of `out`
  bool progress = false;  // on `err`
};

// Colour when standard output is a terminal, NO_COLOR is not set and TERM is not "dumb"; progress
// when both streams are terminals.
Console StandardConsole();

enum class Colour { kGreen, kRed, kBold, kDim };
// The text itself without colour.
std::string Paint(const Console& console, Colour colour, const std::string& text);

// Columns as wide as their widest cell, two spaces apart, no trailing blanks. `right`: columns
// aligned to the right.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows,
                        const std::vector<size_t>& right);

// Words in lines of at most `width` columns, each behind `indent` spaces.
std::string Wrap(const std::vector<std::string>& words, size_t indent, size_t width);

// A line that is rewritten in place, from the second second on.
class ProgressLine {
 public:
  explicit ProgressLine(const Console& console)
      : console_(console), start_(std::chrono::steady_clock::now()) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(double fraction, const std::string& what);
  void Clear();

 private:
  const Console& console_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
  bool shown_ = false;
};

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_CONSOLE_H_
