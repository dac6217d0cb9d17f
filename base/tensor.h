// A strided view of typed storage. Copying a Tensor shares the storage; Clone copies it.
#ifndef PLUMBLINE_BASE_TENSOR_H_
#define PLUMBLINE_BASE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/dtype.h"
#include "base/error.h"

namespace plumbline {

using Shape = std::vector<int64_t>;

int64_t ElementsOf(const Shape& shape);
std::string ToString(const Shape& shape);  // "[2, 16, 32]"

class Tensor {
 public:
  // An undefined tensor: no storage, defined() is false.
  Tensor() = default;

  // Fresh storage, row-major. Empty holds poison (NaN in every float type) until it is written.
  static Tensor Empty(const Context& context, DType dtype, Shape shape,
                      MemoryCategory category = MemoryCategory::kActivation);
  static Tensor Zeros(const Context& context, DType dtype, Shape shape,
                      MemoryCategory category = MemoryCategory::kActivation);
  // Row-major copy of `values`; for tests and small tables.
  template <class T>
  static Tensor FromVector(const Context& context, const Shape& shape, const std::vector<T>& values,
                           MemoryCategory category = MemoryCategory::kActivation);

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }  // in elements
  int64_t dims() const { return static_cast<int64_t>(shape_.size()); }
  // Negative axes count from the end.
  int64_t dim(int64_t axis) const;
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * SizeOf(dtype_); }
  bool contiguous() const;
  bool SharesStorage(const Tensor& other) const { return storage_ == other.storage_; }

  // First element. data<T>() checks the dtype; it does not ask for contiguity, so use strides() or
  // Contiguous().
  template <class T>
  T* data() {
    CheckDType(kDTypeOf<T>);
    return reinterpret_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    CheckDType(kDTypeOf<T>);
    return reinterpret_cast<const T*>(raw());
  }
  std::byte* raw();
  const std::byte* raw() const;
  // One element by its index along each axis.
  template <class T>
  T& at(const std::vector<int64_t>& index) {
    return data<T>()[OffsetOf(index)];
  }
  template <class T>
  T at(const std::vector<int64_t>& index) const {
    return data<T>()[OffsetOf(index)];
  }

  // Views: share the storage.
  Tensor View(Shape shape) const;  // needs contiguous(); one dimension may be -1
  Tensor Slice(int64_t axis, int64_t begin, int64_t end) const;
  Tensor Select(int64_t axis, int64_t index) const;  // drops the axis
  Tensor Transpose(int64_t axis_a, int64_t axis_b) const;
  // Itself when contiguous, else a packed copy.
  Tensor Contiguous(const Context& context) const;
  Tensor Clone(const Context& context, MemoryCategory category = MemoryCategory::kActivation) const;

  // Element-wise copy of the same dtype and shape between any strides.
  void CopyFrom(const Tensor& source);
  void FillZero();
  void FillPoison();

  template <class T>
  std::vector<T> ToVector() const;  // in row-major order

 private:
  class Storage;
  void CheckDType(DType wanted) const;
  int64_t OffsetOf(const std::vector<int64_t>& index) const;

  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::kF64;
  int64_t offset_ = 0;
  int64_t elements_ = 0;
  Shape shape_;
  std::vector<int64_t> strides_;
};

// Calls f(a_offset, b_offset, n) for runs of n elements that are adjacent in both tensors (same
// shape), row-major.
template <class F>
void ForEachRun(const Tensor& a, const Tensor& b, F&& f);

}  // namespace plumbline

#include "base/tensor_inl.h"  // IWYU pragma: export

#endif  // PLUMBLINE_BASE_TENSOR_H_
