// Reads safetensors files: named tensors behind a JSON header.
//
// Format: 8 bytes with the header's length (little endian), the header (a JSON object: name ->
// {dtype, shape, data_offsets}, and under "__metadata__" a map of strings), then the tensors'
// bytes, row-major, without gaps. Every length and offset is checked before it is used.
//
// Errors: IoError when the file cannot be read; InvalidArgument, naming the file and what is wrong,
//         when its content is malformed or has a dtype other than F64, F32, BF16, F16, I64.
#ifndef PLUMBLINE_BASE_SAFETENSORS_H_
#define PLUMBLINE_BASE_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/tensor.h"

namespace plumbline {

class SafetensorsFile {
 public:
  struct Entry {
    DType dtype = DType::kF64;
    Shape shape;
    int64_t begin = 0;  // bytes, from the end of the header
    int64_t end = 0;
  };

  // Reads and checks the header; tensors are read by Load.
  explicit SafetensorsFile(std::string path);

  const std::string& path() const { return path_; }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  bool Has(std::string_view name) const { return entries_.contains(name); }
  // Throws InvalidArgument when the file has no tensor of that name.
  const Entry& EntryOf(std::string_view name) const;
  Tensor Load(const Context& context, std::string_view name,
              MemoryCategory category = MemoryCategory::kOther) const;

 private:
  void ParseHeader(const std::string& header, int64_t data_bytes);
  void CheckCoverage(int64_t data_bytes) const;

  std::string path_;
  int64_t data_begin_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_SAFETENSORS_H_
