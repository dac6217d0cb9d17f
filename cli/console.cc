#include "cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace plumbline {
namespace {

// Code points, as far as a terminal shows one column for each.
size_t Columns(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

const char* Code(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kBold:
      return "\033[1m";
    case Colour::kDim:
      return "\033[2m";
  }
  return "";
}

}  // namespace

Console StandardConsole() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const bool plain = (no_colour != nullptr && no_colour[0] != '\0') ||
                     (term != nullptr && std::string_view(term) == "dumb");
  return {std::cout, std::cerr, terminal && !plain, terminal && isatty(STDERR_FILENO) == 1};
}

std::string Paint(const Console& console, Colour colour, const std::string& text) {
  return console.colour ? Code(colour) + text + "\033[0m" : text;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows,
                        const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - Columns(row[i]), ' ');
      const bool to_right = std::find(right.begin(), right.end(), i) != right.end();
      line += to_right ? blanks + row[i] : row[i] + blanks;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Wrap(const std::vector<std::string>& words, size_t indent, size_t width) {
  std::string text;
  std::string line;
  const std::string margin(indent, ' ');
  for (const std::string& word : words) {
    if (!line.empty() && indent + Columns(line) + 1 + Columns(word) > width) {
      text += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) text += margin + line + "\n";
  return text;
}

void ProgressLine::Show(double fraction, const std::string& what) {
  if (!console_.progress) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < std::chrono::seconds(1)) return;
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  constexpr size_t kCells = 30;
  const double clamped = std::clamp(fraction, 0.0, 1.0);
  const size_t filled = static_cast<size_t>(clamped * kCells);
  console_.err << fmt::format("\r\033[K[{}{}] {:3.0f} %  {}", std::string(filled, '#'),
                              std::string(kCells - filled, '.'), 100 * clamped, what)
               << std::flush;
  last_ = now;
  shown_ = true;
}

void ProgressLine::Clear() {
  if (!shown_) return;
  console_.err << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace plumbline
