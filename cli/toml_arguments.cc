#include "cli/toml_arguments.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "cli/files.h"

namespace plumbline {
namespace {

std::string Place(const std::string& path, const toml::source_region& source) {
  return fmt::format("{} line {}: ", path, source.begin.line);
}

// A scalar as it would stand on the command line.
std::optional<std::string> ScalarText(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  return std::nullopt;
}

class TomlReader {
 public:
  explicit TomlReader(std::string path) : path_(std::move(path)) {}

  void ReadTable(const toml::table& table) {
    for (const auto& [key, node] : table) {
      if (const toml::table* inner = node.as_table()) {
        ReadTable(*inner);
      } else {
        ReadEntry(std::string(key.str()), node);
      }
    }
  }

  const GivenArguments& given() const { return given_; }

 private:
  void ReadEntry(const std::string& key, const toml::node& node) {
    GivenArgument given;
    given.where = Place(path_, node.source());
    std::string name = key;
    given.argument = FindArgument(name);
    if (given.argument == nullptr) {
      std::replace(name.begin(), name.end(), '_', '-');
      given.argument = FindArgument(name);
    }
    if (given.argument == nullptr) {
      const std::string nearest = NearestArgument(name);
      throw InvalidArgument("{}unknown argument '{}'{}", given.where, key,
                            nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
    }
    if (given.argument->name == "config") {
      throw InvalidArgument("{}config: a file cannot name another", given.where);
    }
    if (given_.Find(given.argument->name) != nullptr) {
      throw InvalidArgument("{}'{}' is there twice", given.where, key);
    }
    given.values = Values(*given.argument, key, node, given.where);
    given_.Set(std::move(given));
  }

  static std::vector<std::string> Values(const Argument& argument, const std::string& key,
                                         const toml::node& node, const std::string& where) {
    if (argument.arity == Arity::kNone) {
      const auto* flag = node.as_boolean();
      if (flag == nullptr) throw InvalidArgument("{}'{}': expected true or false", where, key);
      return {flag->get() ? "true" : "false"};
    }
    std::vector<std::string> values;
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& element : *array) {
        const std::optional<std::string> text = ScalarText(element);
        if (!text.has_value()) throw InvalidArgument("{}'{}': expected plain values", where, key);
        values.push_back(*text);
      }
    } else if (const std::optional<std::string> text = ScalarText(node)) {
      values.push_back(*text);
    } else {
      throw InvalidArgument("{}'{}': expected a string or a number", where, key);
    }
    if (argument.arity == Arity::kOne && values.size() != 1) {
      throw InvalidArgument("{}'{}': expected one value, not {}", where, key, values.size());
    }
    return values;
  }

  std::string path_;
  GivenArguments given_;
};

}  // namespace

GivenArguments ParseToml(const std::string& text, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument("{}{}", Place(path, error.source()), std::string(error.description()));
  }
  TomlReader reader(path);
  reader.ReadTable(table);
  return reader.given();
}

GivenArguments ParseTomlFile(const std::string& path) {
  const std::vector<uint8_t> bytes = ReadFile("--config", path);
  return ParseToml(std::string(bytes.begin(), bytes.end()), path);
}

}  // namespace plumbline
