#include "cli/given_arguments.h"

#include <fmt/ranges.h>

#include <charconv>

#include "base/error.h"

namespace plumbline {

void GivenArguments::Set(GivenArgument given) {
  PL_CHECK(given.argument != nullptr);
  const std::string name = given.argument->name;
  all_[name] = std::move(given);
}

void GivenArguments::AddMissing(const GivenArguments& weaker) {
  for (const auto& [name, given] : weaker.all_) all_.emplace(name, given);
}

const GivenArgument* GivenArguments::Find(const std::string& name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

bool GivenArguments::Has(const std::string& name) const {
  const GivenArgument* given = Find(name);
  if (given == nullptr) return false;
  return given->argument->arity != Arity::kNone || given->values.back() != "false";
}

std::string GivenArguments::Label(const std::string& name) const {
  const GivenArgument* given = Find(name);
  return (given == nullptr ? "" : given->where) + "--" + name;
}

std::optional<std::string> GivenArguments::Text(const std::string& name) const {
  const GivenArgument* given = Find(name);
  if (given == nullptr) return std::nullopt;
  PL_CHECK(given->argument->arity == Arity::kOne);
  return given->values.back();
}

std::optional<int64_t> GivenArguments::Integer(const std::string& name) const {
  const std::optional<std::string> text = Text(name);
  if (!text.has_value()) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc::result_out_of_range) {
    throw InvalidArgument("{} {}: too large; expected a 64-bit integer", Label(name), *text);
  }
  if (error != std::errc() || stop != end) {
    throw InvalidArgument("{} '{}': expected an integer", Label(name), *text);
  }
  return value;
}

std::optional<double> GivenArguments::Number(const std::string& name) const {
  const std::optional<std::string> text = Text(name);
  if (!text.has_value()) return std::nullopt;
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc::result_out_of_range) {
    throw InvalidArgument("{} {}: out of a double's range", Label(name), *text);
  }
  if (error != std::errc() || stop != end) {
    throw InvalidArgument("{} '{}': expected a number", Label(name), *text);
  }
  return value;
}

void GivenArguments::ThrowChoice(const std::string& name, const std::string& value,
                                 const std::vector<std::string>& expected) const {
  throw InvalidArgument("{} '{}': expected {}", Label(name), value, fmt::join(expected, " or "));
}

void GivenArguments::CheckRange(const std::string& name, int64_t value, int64_t least,
                                int64_t most) const {
  if (value < least || value > most) {
    throw InvalidArgument("{} {}: expected {} to {}", Label(name), value, least, most);
  }
}

}  // namespace plumbline
