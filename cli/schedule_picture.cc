#include "cli/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

// What one slot of one stage shows.
struct Cell {
  const Operation* operation = nullptr;  // nullptr: idle
  bool begins = false;
};

// Background and foreground out of a terminal's 256 colours.
struct Shade {
  int back;
  int front;
};
// By chunk, dark to light as the chunks go up; more chunks are told apart by letters too.
constexpr size_t kShades = 4;
constexpr std::array<Shade, kShades> kForwardShades = {{{25, 231}, {32, 231}, {75, 16}, {153, 16}}};
constexpr std::array<Shade, kShades> kBackwardShades = {
    {{22, 231}, {28, 231}, {71, 16}, {150, 16}}};
constexpr Shade kWeightShade = {178, 16};

std::string Painted(Shade shade, const std::string& text) {
  return fmt::format("\033[48;5;{};38;5;{}m{}\033[0m", shade.back, shade.front, text);
}

Shade ShadeOf(const Operation& operation) {
  const size_t chunk = static_cast<size_t>(operation.chunk) % kShades;
  switch (operation.kind) {
    case OperationKind::kForward:
      return kForwardShades[chunk];
    case OperationKind::kBackwardWeight:
      return kWeightShade;
    default:
      return kBackwardShades[chunk];
  }
}

char Letter(OperationKind kind) {
  if (kind == OperationKind::kForward) return 'F';
  return kind == OperationKind::kBackwardWeight ? 'W' : 'B';
}

// "a", "b", ..., "z", "aa": as the columns of a spreadsheet.
std::string ChunkLetters(int chunk) {
  std::string letters;
  for (int rest = chunk + 1; rest > 0; rest = (rest - 1) / 26) {
    letters.insert(letters.begin(), static_cast<char>('a' + (rest - 1) % 26));
  }
  return letters;
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Simulation& simulation, const PictureStyle& style)
      : schedule_(schedule), style_(style) {
    const int v = schedule.config.virtual_chunks;
    letters_ = !style.colour || static_cast<size_t>(v) > kShades;
    slot_ = SlotLength(simulation);
    slots_ = simulation.makespan / slot_;
    FillRows(simulation);
    stage_digits_ = fmt::format("{}", schedule.config.pp - 1).size();
    size_t label = 0;
    for (const auto& row : rows_) {
      for (const Cell& cell : row) {
        if (cell.operation != nullptr) label = std::max(label, Label(*cell.operation).size());
      }
    }
    cell_width_ = label + 1;
  }

  std::string Draw() const {
    const int64_t per_block = SlotsPerBlock();
    const int64_t blocks = per_block == 0 ? 0 : (slots_ + per_block - 1) / per_block;
    // A few screens at most; the first and the last block are always shown.
    constexpr int64_t kMostLines = 200;
    const int64_t lines = static_cast<int64_t>(rows_.size()) + 2;
    int64_t shown_at_each_end = blocks;
    if (style_.width > 0 && blocks * lines > kMostLines) {
      shown_at_each_end = std::max<int64_t>(1, kMostLines / 2 / lines);
    }
    std::string text;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * per_block;
      if (block >= shown_at_each_end && block < blocks - shown_at_each_end) {
        block = blocks - shown_at_each_end - 1;
        text +=
            fmt::format("... times {} to {} are left out; --width 0 or --svg FILE shows all\n\n",
                        begin * slot_, (block + 1) * per_block * slot_);
        continue;
      }
      text += Block(begin, std::min(slots_, begin + per_block)) + "\n";
    }
    return text + Legend();
  }

 private:
  static int64_t SlotLength(const Simulation& simulation) {
    int64_t slot = 0;
    for (const auto& spans : simulation.spans) {
      for (const TimeSpan& span : spans) slot = std::gcd(slot, std::gcd(span.start, span.end));
    }
    return std::max<int64_t>(1, slot);
  }

  void FillRows(const Simulation& simulation) {
    // A picture of more slots than this is of no use to anyone, and takes gigabytes.
    constexpr int64_t kMostCells = int64_t{1} << 26;
    if (slots_ > kMostCells / schedule_.config.pp) {
      throw InvalidArgument(
          "the costs make {} slots of time on {} stages, too many to draw; give costs with a "
          "larger "
          "common divisor, or --json",
          slots_, schedule_.config.pp);
    }
    rows_.assign(schedule_.stages.size(), std::vector<Cell>(static_cast<size_t>(slots_)));
    for (size_t stage = 0; stage < rows_.size(); ++stage) {
      for (size_t i = 0; i < schedule_.stages[stage].size(); ++i) {
        const Operation& operation = schedule_.stages[stage][i];
        if (!IsCompute(operation.kind)) continue;
        const TimeSpan& span = simulation.spans[stage][i];
        for (int64_t slot = span.start / slot_; slot < span.end / slot_; ++slot) {
          rows_[stage][static_cast<size_t>(slot)] = {&operation, slot * slot_ == span.start};
        }
      }
    }
  }

  std::string Label(const Operation& operation) const {
    std::string label;
    if (letters_) label += Letter(operation.kind);
    label += fmt::format("{}", operation.microbatch);
    if (letters_ && schedule_.config.virtual_chunks > 1) label += ChunkLetters(operation.chunk);
    return label;
  }

  // "stage 12 |" and a space, or "stage" above it.
  size_t MarginWidth() const { return stage_digits_ + 9; }

  int64_t SlotsPerBlock() const {
    if (style_.width <= 0) return slots_;
    const int64_t room = style_.width - static_cast<int64_t>(MarginWidth());
    return std::clamp<int64_t>(room / static_cast<int64_t>(cell_width_), 1,
                               std::max<int64_t>(1, slots_));
  }

  std::string Block(int64_t begin, int64_t end) const {
    std::string text = Ruler(begin, end);
    for (size_t stage = 0; stage < rows_.size(); ++stage) {
      std::string line = fmt::format("stage {:>{}} | ", stage, stage_digits_);
      for (int64_t slot = begin; slot < end; ++slot) {
        line += CellText(rows_[stage][static_cast<size_t>(slot)],
                         slot + 1 < end ? &rows_[stage][static_cast<size_t>(slot) + 1] : nullptr);
      }
      if (!style_.colour) line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

  // Times above the first slot of the block and above every fifth or more, as room allows.
  std::string Ruler(int64_t begin, int64_t end) const {
    std::string line = fmt::format("{:<{}}", "time", MarginWidth());
    const size_t widest = fmt::format("{}", end * slot_).size() + 2;
    int64_t step = 5;
    while (static_cast<size_t>(step) * cell_width_ < widest) step += 5;
    for (int64_t slot = begin; slot < end; ++slot) {
      const size_t column = MarginWidth() + static_cast<size_t>(slot - begin) * cell_width_;
      const bool tick = slot == begin || slot % step == 0;
      if (!tick || column < line.size() + (slot == begin ? 0 : 2)) continue;
      line.resize(column, ' ');
      line += fmt::format("{}", slot * slot_);
    }
    return line + "\n";
  }

  // `next` is the cell to the right: an operation that goes on has no gap before it.
  std::string CellText(const Cell& cell, const Cell* next) const {
    if (cell.operation == nullptr) {
      const std::string dot = fmt::format("{:<{}}", ".", cell_width_);
      return style_.colour ? "\033[2m" + dot + "\033[0m" : dot;
    }
    if (style_.colour) {
      const std::string label = cell.begins ? Label(*cell.operation) : "";
      return Painted(ShadeOf(*cell.operation), fmt::format("{:<{}}", label, cell_width_));
    }
    const bool goes_on = next != nullptr && next->operation == cell.operation && !next->begins;
    std::string text = cell.begins ? Label(*cell.operation) : std::string();
    text.resize(cell_width_ - 1, cell.begins && !goes_on ? ' ' : '-');
    return text + (goes_on ? '-' : ' ');
  }

  std::string Legend() const {
    const bool split = SplitsBackward(schedule_.config.kind);
    const int v = schedule_.config.virtual_chunks;
    std::vector<std::string> words;
    const auto add = [&](OperationKind kind, std::string_view what) {
      const Operation sample{.kind = kind};
      words.push_back(style_.colour
                          ? Painted(ShadeOf(sample), letters_ ? std::string{' ', Letter(kind), ' '}
                                                              : std::string("   ")) +
                                fmt::format(" {}", what)
                          : fmt::format("{} {}", Letter(kind), what));
    };
    add(OperationKind::kForward, "forward");
    add(split ? OperationKind::kBackwardInput : OperationKind::kBackward,
        split ? "backward, input part" : "backward");
    if (split) add(OperationKind::kBackwardWeight, "backward, weight part");
    words.push_back(". idle");
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : "   ") + word;
    text += "   numbers are microbatches";
    if (v > 1 && letters_) {
      text += fmt::format(", {} to {} chunks 0 to {}", ChunkLetters(0), ChunkLetters(v - 1), v - 1);
    } else if (v > 1) {
      text += "\nchunks";
      for (int chunk = 0; chunk < v; ++chunk) {
        for (const OperationKind kind : {OperationKind::kForward, OperationKind::kBackward}) {
          const Operation sample{.kind = kind, .chunk = chunk};
          text += (kind == OperationKind::kForward ? "  " : "") +
                  Painted(ShadeOf(sample), fmt::format(" {} ", chunk));
        }
      }
    }
    return text + "\n";
  }

  const Schedule& schedule_;
  const PictureStyle& style_;
  bool letters_ = true;  // in cells, beside the microbatch
  int64_t slot_ = 1;     // its length
  int64_t slots_ = 0;
  size_t stage_digits_ = 1;
  size_t cell_width_ = 1;
  std::vector<std::vector<Cell>> rows_;  // by stage and slot
};

}  // namespace

std::string SchedulePicture(const Schedule& schedule, const Simulation& simulation,
                            const PictureStyle& style) {
  PL_CHECK(simulation.ran());
  return Picture(schedule, simulation, style).Draw();
}

}  // namespace plumbline
