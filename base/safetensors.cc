#include "base/safetensors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr int64_t kMaxElements = int64_t{1} << 56;

// A name from the file, fit for one line of a message.
std::string Printable(std::string_view name) {
  constexpr size_t kShown = 80;
  std::string result;
  for (char c : name.substr(0, kShown)) {
    result += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
  }
  return name.size() > kShown ? result + "..." : result;
}

DType DTypeOfFile(const std::string& path, const std::string& tensor, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, DType>, 5> kDTypes = {{{"F64", DType::kF64},
                                                                          {"F32", DType::kF32},
                                                                          {"BF16", DType::kBF16},
                                                                          {"F16", DType::kF16},
                                                                          {"I64", DType::kI64}}};
  for (const auto& [known, dtype] : kDTypes) {
    if (known == name) return dtype;
  }
  throw InvalidArgument("{}: tensor '{}' has dtype '{}'; expected F64, F32, BF16, F16 or I64", path,
                        Printable(tensor), Printable(name));
}

// JSON in which no object has a key twice, which the parser alone would let pass.
Json ParseStrictly(const std::string& path, const std::string& header) {
  std::vector<std::set<std::string>> keys;
  const auto on_event = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw InvalidArgument("{}: the header names '{}' twice", path, Printable(key));
      }
    }
    return true;
  };
  try {
    return Json::parse(header, on_event);
  } catch (const Json::parse_error& error) {
    throw InvalidArgument("{}: the header is no valid JSON (at byte {} of {})", path, error.byte,
                          header.size());
  }
}

// A list of integers, each 0 or above.
std::vector<int64_t> Integers(const std::string& path, const std::string& tensor, const Json& entry,
                              const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end() || !found->is_array()) {
    throw InvalidArgument("{}: tensor '{}' has no list '{}'", path, Printable(tensor), field);
  }
  std::vector<int64_t> result;
  for (const Json& value : *found) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxElements) {
      throw InvalidArgument("{}: tensor '{}' has a value in '{}' that is no integer from 0 to {}",
                            path, Printable(tensor), field, kMaxElements);
    }
    result.push_back(value.get<int64_t>());
  }
  return result;
}

// Bytes of a dense tensor; zero extents count as 1 for the limit, because strides use the others.
int64_t DenseBytes(const std::string& path, const std::string& tensor, DType dtype,
                   const Shape& shape) {
  int64_t elements = 1;
  bool empty = false;
  for (int64_t extent : shape) {
    empty = empty || extent == 0;
    const int64_t factor = std::max<int64_t>(extent, 1);
    if (elements > kMaxElements / factor) {
      throw InvalidArgument("{}: tensor '{}' has too many elements", path, Printable(tensor));
    }
    elements *= factor;
  }
  return empty ? 0 : elements * static_cast<int64_t>(SizeOf(dtype));
}

SafetensorsFile::Entry ParseEntry(const std::string& path, const std::string& tensor,
                                  const Json& entry, int64_t data_bytes) {
  if (!entry.is_object()) {
    throw InvalidArgument("{}: header entry '{}' is no object", path, Printable(tensor));
  }
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) {
    throw InvalidArgument("{}: tensor '{}' has no string 'dtype'", path, Printable(tensor));
  }
  SafetensorsFile::Entry result;
  result.dtype = DTypeOfFile(path, tensor, dtype->get<std::string>());
  result.shape = Integers(path, tensor, entry, "shape");
  const std::vector<int64_t> offsets = Integers(path, tensor, entry, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw InvalidArgument("{}: tensor '{}' needs data_offsets [begin, end] with begin <= end", path,
                          Printable(tensor));
  }
  result.begin = offsets[0];
  result.end = offsets[1];
  if (result.end > data_bytes) {
    throw InvalidArgument("{}: tensor '{}' ends at byte {}, past the file's {} bytes of data", path,
                          Printable(tensor), result.end, data_bytes);
  }
  const int64_t expected = DenseBytes(path, tensor, result.dtype, result.shape);
  if (result.end - result.begin != expected) {
    throw InvalidArgument("{}: tensor '{}' has {} bytes, but {}{} takes {}", path,
                          Printable(tensor), result.end - result.begin, Name(result.dtype),
                          ToString(result.shape), expected);
  }
  return result;
}

int64_t LittleEndian(const std::array<unsigned char, 8>& bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return static_cast<int64_t>(value);
}

int64_t SizeOfRegularFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw IoError("{}: no such file", path);
  if (!std::filesystem::is_regular_file(status)) throw IoError("{}: no regular file", path);
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw IoError("{}: {}", path, error.message());
  return static_cast<int64_t>(size);
}

std::ifstream Open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("{}: cannot be opened: {}", path, std::strerror(errno));
  return file;
}

void ReadBytes(std::ifstream& file, const std::string& path, void* to, int64_t bytes) {
  file.read(static_cast<char*>(to), bytes);
  if (file.gcount() != bytes) {
    throw IoError("{}: read {} of {} bytes", path, file.gcount(), bytes);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  const int64_t file_bytes = SizeOfRegularFile(path_);
  std::ifstream file = Open(path_);
  std::array<unsigned char, 8> length = {};
  if (file_bytes < static_cast<int64_t>(length.size())) {
    throw InvalidArgument("{}: {} bytes are too short for a safetensors file", path_, file_bytes);
  }
  ReadBytes(file, path_, length.data(), length.size());
  const int64_t after_length = file_bytes - static_cast<int64_t>(length.size());
  const int64_t header_bytes = LittleEndian(length);
  if (header_bytes < 0 || header_bytes > after_length) {
    throw InvalidArgument("{}: a header of {} bytes is announced, but only {} bytes follow", path_,
                          static_cast<uint64_t>(header_bytes), after_length);
  }
  if (header_bytes > kMaxHeaderBytes) {
    throw InvalidArgument("{}: a header of {} bytes; expected at most {}", path_, header_bytes,
                          kMaxHeaderBytes);
  }
  std::string header(static_cast<size_t>(header_bytes), '\0');
  ReadBytes(file, path_, header.data(), header_bytes);
  data_begin_ = static_cast<int64_t>(length.size()) + header_bytes;
  ParseHeader(header, file_bytes - data_begin_);
  CheckCoverage(file_bytes - data_begin_);
}

void SafetensorsFile::ParseHeader(const std::string& header, int64_t data_bytes) {
  const Json json = ParseStrictly(path_, header);
  if (!json.is_object()) throw InvalidArgument("{}: the header is no JSON object", path_);
  for (const auto& [name, entry] : json.items()) {
    if (name != "__metadata__") {
      entries_.emplace(name, ParseEntry(path_, name, entry, data_bytes));
      continue;
    }
    if (!entry.is_object()) throw InvalidArgument("{}: __metadata__ is no object", path_);
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        throw InvalidArgument("{}: __metadata__ '{}' is no string", path_, Printable(key));
      }
      metadata_.emplace(key, value.get<std::string>());
    }
  }
}

// The tensors lie end to end: an overlap would read one's bytes as another's, a gap would hide
// some.
void SafetensorsFile::CheckCoverage(int64_t data_bytes) const {
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string_view>> ranges;
  for (const auto& [name, entry] : entries_) ranges.push_back({{entry.begin, entry.end}, name});
  std::sort(ranges.begin(), ranges.end());
  int64_t expected = 0;
  for (const auto& [range, name] : ranges) {
    if (range.first != expected) {
      throw InvalidArgument("{}: tensor '{}' begins at byte {}, expected {} ({})", path_,
                            Printable(name), range.first, expected,
                            range.first < expected ? "it overlaps another" : "there is a gap");
    }
    expected = range.second;
  }
  if (expected != data_bytes) {
    throw InvalidArgument("{}: {} bytes of data, but the tensors take {}", path_, data_bytes,
                          expected);
  }
}

const SafetensorsFile::Entry& SafetensorsFile::EntryOf(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw InvalidArgument("{}: has no tensor '{}'", path_, Printable(name));
  }
  return found->second;
}

Tensor SafetensorsFile::Load(const Context& context, std::string_view name,
                             MemoryCategory category) const {
  const Entry& entry = EntryOf(name);
  std::ifstream file = Open(path_);
  Tensor result = Tensor::Empty(context, entry.dtype, entry.shape, category);
  file.seekg(data_begin_ + entry.begin);
  ReadBytes(file, path_, result.raw(), entry.end - entry.begin);
  return result;
}

}  // namespace plumbline
