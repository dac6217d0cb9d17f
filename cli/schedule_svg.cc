#include "cli/schedule_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

// Pixels.
constexpr double kMargin = 24;
constexpr double kLabelWidth = 72;  // "stage 63"
constexpr double kLiveWidth = 96;   // "peak live 12"
constexpr double kRowHeight = 26;
constexpr double kRowGap = 4;
constexpr double kTop = 78;  // title, subtitle
constexpr double kDigitWidth = 6.8;
constexpr double kMostWidth = 8000;

struct Rgb {
  double red, green, blue;
};
constexpr Rgb kForward = {38, 92, 163};
constexpr Rgb kBackward = {46, 125, 70};
constexpr Rgb kWeight = {224, 164, 36};

// Chunk 0 in full colour, later chunks lighter.
Rgb Lighter(Rgb colour, int chunk, int chunks) {
  const double share = chunks > 1 ? 0.62 * chunk / (chunks - 1) : 0;
  const auto mix = [share](double value) { return value + (255 - value) * share; };
  return {mix(colour.red), mix(colour.green), mix(colour.blue)};
}

Rgb ColourOf(OperationKind kind, int chunk, int chunks) {
  if (kind == OperationKind::kForward) return Lighter(kForward, chunk, chunks);
  if (kind == OperationKind::kBackwardWeight) return Lighter(kWeight, chunk, chunks);
  return Lighter(kBackward, chunk, chunks);
}

std::string Hex(Rgb colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(colour.red), std::lround(colour.green),
                     std::lround(colour.blue));
}

// Rec. 601 luma, out of 255.
bool IsDark(Rgb colour) {
  return 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue < 140;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// One decimal at most, none where it is zero.
std::string Px(double value) {
  const double rounded = std::round(value * 10) / 10;
  return rounded == std::floor(rounded) ? fmt::format("{:.0f}", rounded)
                                        : fmt::format("{:.1f}", rounded);
}

class Svg {
 public:
  Svg(const Schedule& schedule, const Simulation& simulation)
      : schedule_(schedule), simulation_(simulation) {
    // The shortest box gets room for its number, unless the picture would become too wide for that.
    int64_t shortest = std::max<int64_t>(1, simulation.makespan);
    ForEachBox([&](size_t, const Operation&, const TimeSpan& span) {
      shortest = std::min(shortest, span.end - span.start);
    });
    const double digits =
        static_cast<double>(fmt::format("{}", schedule.config.microbatches - 1).size());
    const double makespan = static_cast<double>(std::max<int64_t>(1, simulation.makespan));
    scale_ = std::min(std::max(18.0, digits * kDigitWidth + 8) / static_cast<double>(shortest),
                      kMostWidth / makespan);
    scale_ = std::max(scale_, 320 / makespan);
    chart_width_ = scale_ * static_cast<double>(simulation.makespan);
  }

  std::string Draw(const std::string& title, const std::string& subtitle) {
    const double rows = static_cast<double>(schedule_.stages.size()) * (kRowHeight + kRowGap);
    // The head and the legend may be wider than the chart.
    const double text_width = std::max({620.0, 11.0 * static_cast<double>(title.size()),
                                        7.4 * static_cast<double>(subtitle.size())});
    const double width =
        2 * kMargin + std::max(text_width, kLabelWidth + chart_width_ + kLiveWidth);
    const double axis = kTop + rows + 4;
    const double height = axis + 34 + LegendHeight();
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\" "
        "fill=\"#222\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        Px(width), Px(height));
    text_ +=
        fmt::format("<text x=\"{}\" y=\"34\" font-size=\"18\" font-weight=\"bold\">{}</text>\n",
                    Px(kMargin), Escaped(title));
    text_ += fmt::format("<text x=\"{}\" y=\"56\" font-size=\"13\" fill=\"#555\">{}</text>\n",
                         Px(kMargin), Escaped(subtitle));
    Rows();
    Boxes();
    Axis(axis);
    Legend(axis + 40);
    return text_ + "</svg>\n";
  }

 private:
  template <class Visit>
  void ForEachBox(const Visit& visit) const {
    for (size_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      for (size_t i = 0; i < schedule_.stages[stage].size(); ++i) {
        const Operation& operation = schedule_.stages[stage][i];
        const TimeSpan& span = simulation_.spans[stage][i];
        if (IsCompute(operation.kind) && span.end > span.start) visit(stage, operation, span);
      }
    }
  }

  double X(int64_t time) const {
    return kMargin + kLabelWidth + scale_ * static_cast<double>(time);
  }
  static double Y(size_t stage) {
    return kTop + static_cast<double>(stage) * (kRowHeight + kRowGap);
  }

  void Rows() {
    for (size_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      const double middle = Y(stage) + kRowHeight / 2 + 4;
      text_ +=
          fmt::format("<text x=\"{}\" y=\"{}\">stage {}</text>\n", Px(kMargin), Px(middle), stage);
      text_ +=
          fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f0f0f0\"/>\n",
                      Px(X(0)), Px(Y(stage)), Px(chart_width_), Px(kRowHeight));
      text_ += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#555\">peak live {}</text>\n",
                           Px(X(0) + chart_width_ + 12), Px(middle), simulation_.peak_live[stage]);
    }
  }

  void Boxes() {
    const int chunks = schedule_.config.virtual_chunks;
    text_ += "<g stroke=\"#fff\" stroke-width=\"0.8\">\n";
    ForEachBox([&](size_t stage, const Operation& operation, const TimeSpan& span) {
      text_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}, time {} to "
          "{}</title></rect>\n",
          Px(X(span.start)), Px(Y(stage)), Px(X(span.end) - X(span.start)), Px(kRowHeight),
          Hex(ColourOf(operation.kind, operation.chunk, chunks)), ToString(operation), span.start,
          span.end);
    });
    text_ += "</g>\n<g text-anchor=\"middle\" font-size=\"11\" pointer-events=\"none\">\n";
    ForEachBox([&](size_t stage, const Operation& operation, const TimeSpan& span) {
      const std::string label = fmt::format("{}", operation.microbatch);
      const double width = X(span.end) - X(span.start);
      if (width < static_cast<double>(label.size()) * kDigitWidth + 2) return;
      const bool dark = IsDark(ColourOf(operation.kind, operation.chunk, chunks));
      text_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", Px(X(span.start) + width / 2),
                           Px(Y(stage) + kRowHeight / 2 + 4), dark ? " fill=\"#fff\"" : "", label);
    });
    text_ += "</g>\n";
  }

  // Ticks at 1, 2 or 5 times a power of ten, at least 60 pixels apart.
  int64_t TickStep() const {
    int64_t power = 1;
    while (true) {
      for (const int64_t step : {power, 2 * power, 5 * power}) {
        if (static_cast<double>(step) * scale_ >= 60 || step >= simulation_.makespan) return step;
      }
      power *= 10;
    }
  }

  void Axis(double y) {
    text_ += fmt::format("<path d=\"M{} {}H{}\" stroke=\"#888\"/>\n", Px(X(0)), Px(y),
                         Px(X(0) + chart_width_));
    text_ += "<g font-size=\"11\" fill=\"#555\" text-anchor=\"middle\">\n";
    const int64_t step = TickStep();
    for (int64_t time = 0; time <= simulation_.makespan; time += step) {
      text_ +=
          fmt::format("<path d=\"M{} {}v5\" stroke=\"#888\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
                      Px(X(time)), Px(y), Px(X(time)), Px(y + 18), time);
      if (time > simulation_.makespan - step) break;  // the sum could leave 64 bits
    }
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"start\">time</text>\n</g>\n",
                         Px(kMargin), Px(y + 18));
  }

  // The rows of the legend are the kinds, its columns the chunks (of which the first few are
  // shown).
  std::vector<std::pair<OperationKind, std::string_view>> Kinds() const {
    if (!SplitsBackward(schedule_.config.kind)) {
      return {{OperationKind::kForward, "forward"}, {OperationKind::kBackward, "backward"}};
    }
    return {{OperationKind::kForward, "forward"},
            {OperationKind::kBackwardInput, "backward, input part"},
            {OperationKind::kBackwardWeight, "backward, weight part"}};
  }

  double LegendHeight() const { return schedule_.config.virtual_chunks > 1 ? 66 : 30; }

  void Legend(double y) {
    const int chunks = schedule_.config.virtual_chunks;
    double x = kMargin;
    const auto swatch = [&](std::string_view colour, std::string_view what, double width) {
      text_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\"/><text x=\"{}\" "
          "y=\"{}\">{}</text>\n",
          Px(x), Px(y - 11), colour, Px(x + 20), Px(y), what);
      x += width;
    };
    for (const auto& [kind, what] : Kinds()) {
      swatch(Hex(ColourOf(kind, 0, chunks)), what, 44 + 6.6 * static_cast<double>(what.size()));
    }
    swatch("#f0f0f0", "idle", 70);
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#555\">numbers are microbatches</text>\n",
                         Px(x), Px(y));
    if (chunks == 1) return;
    y += 26;
    x = kMargin;
    constexpr int kShown = 6;
    for (int chunk = 0; chunk < std::min(chunks, kShown); ++chunk) {
      for (const auto& [kind, what] : Kinds()) {
        text_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\"/>\n",
                             Px(x), Px(y - 11), Hex(ColourOf(kind, chunk, chunks)));
        x += 15;
      }
      text_ += fmt::format("<text x=\"{}\" y=\"{}\">chunk {}</text>\n", Px(x + 5), Px(y), chunk);
      x += 66;
    }
    if (chunks > kShown) {
      text_ += fmt::format("<text x=\"{}\" y=\"{}\">lighter: later chunks</text>\n", Px(x), Px(y));
    }
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  double scale_ = 1;  // pixels for a unit of time
  double chart_width_ = 0;
  std::string text_;
};

}  // namespace

std::string ScheduleSvg(const Schedule& schedule, const Simulation& simulation,
                        const std::string& title, const std::string& subtitle) {
  PL_CHECK(simulation.ran());
  return Svg(schedule, simulation).Draw(title, subtitle);
}

}  // namespace plumbline
