// Errors: the tool cannot do what was asked. (What a checked program did wrong is a Finding,
// base/finding.h.)
//
// Rank code reads like math, so failures are exceptions. They are caught in three places: a rank's
// main, the program's main (one line, exit 2) and a test's matcher.
#ifndef PLUMBLINE_BASE_ERROR_H_
#define PLUMBLINE_BASE_ERROR_H_

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace plumbline {

enum class ErrorCode : uint8_t { kInvalidArgument, kIo, kUnavailable, kInternal, kAborted };

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// A value, flag, file or shape that the caller gave is not acceptable. The message names it and
// what was expected.
class InvalidArgument : public Error {
 public:
  template <class... Args>
  explicit InvalidArgument(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)) {}
};

// A file could not be read or written.
class IoError : public Error {
 public:
  template <class... Args>
  explicit IoError(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorCode::kIo, fmt::format(format, std::forward<Args>(args)...)) {}
};

// The machine lacks something (memory, a device, a CPU feature).
class Unavailable : public Error {
 public:
  template <class... Args>
  explicit Unavailable(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorCode::kUnavailable, fmt::format(format, std::forward<Args>(args)...)) {}
};

// A bug of Plumbline itself.
class Internal : public Error {
 public:
  template <class... Args>
  explicit Internal(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...)) {}
};

// A rank is unwound because the world stops (a peer failed, or a finding stopped the run).
class Aborted : public Error {
 public:
  template <class... Args>
  explicit Aborted(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorCode::kAborted, fmt::format(format, std::forward<Args>(args)...)) {}
};

// Who runs at the moment, for the messages of PL_CHECK: set by the world when it switches ranks.
// -1: no rank.
struct RunningRank {
  int global_rank = -1;
  uint64_t seed = 0;
};
RunningRank& CurrentRank();

namespace internal {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line,
                              const std::string& values);

template <class V>
std::string Printable(const V& value) {
  if constexpr (fmt::is_formattable<V>::value) {
    return fmt::format("{}", value);
  } else {
    return "?";
  }
}

struct CheckResult {
  bool ok;
  std::string values;
};

template <class L, class R>
CheckResult MakeCheckResult(bool ok, const L& left, const char* op, const R& right) {
  return {ok, ok ? std::string() : Printable(left) + " " + op + " " + Printable(right)};
}

template <class L>
struct CheckOperand {
  const L& left;
  template <class R>
  CheckResult operator==(const R& right) const {
    return MakeCheckResult(left == right, left, "==", right);
  }
  template <class R>
  CheckResult operator!=(const R& right) const {
    return MakeCheckResult(left != right, left, "!=", right);
  }
  template <class R>
  CheckResult operator<(const R& right) const {
    return MakeCheckResult(left < right, left, "<", right);
  }
  template <class R>
  CheckResult operator<=(const R& right) const {
    return MakeCheckResult(left <= right, left, "<=", right);
  }
  template <class R>
  CheckResult operator>(const R& right) const {
    return MakeCheckResult(left > right, left, ">", right);
  }
  template <class R>
  CheckResult operator>=(const R& right) const {
    return MakeCheckResult(left >= right, left, ">=", right);
  }
  // For PL_CHECK(flag). NOLINTNEXTLINE(google-explicit-constructor)
  operator CheckResult() const { return {static_cast<bool>(left), "false"}; }
};

struct CheckSplit {
  template <class L>
  CheckOperand<L> operator<<(const L& left) const {
    return {left};
  }
};

}  // namespace internal
}  // namespace plumbline

// Our own bugs. On in every build; prints the expression, both values, the rank and the seed, and
// throws Internal. Write one comparison or one flag, not `a && b`.
#define PL_CHECK(...)                                                                         \
  do {                                                                                        \
    const ::plumbline::internal::CheckResult pl_result = ::plumbline::internal::CheckSplit()  \
                                                         << __VA_ARGS__;                      \
    if (!pl_result.ok) {                                                                      \
      ::plumbline::internal::CheckFailed(#__VA_ARGS__, __FILE__, __LINE__, pl_result.values); \
    }                                                                                         \
  } while (false)

#endif  // PLUMBLINE_BASE_ERROR_H_
