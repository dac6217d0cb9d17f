#include "base/tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace plumbline {

class Tensor::Storage {
 public:
  Storage(Allocator& allocator, size_t bytes, MemoryCategory category)
      : allocator_(allocator),
        bytes_(bytes),
        category_(category),
        memory_(allocator.Allocate(bytes, category)) {}
  ~Storage() { allocator_.Free(memory_, bytes_, category_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* memory() const { return static_cast<std::byte*>(memory_); }

 private:
  Allocator& allocator_;
  size_t bytes_;
  MemoryCategory category_;
  void* memory_;
};

namespace {

std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

int64_t AxisOf(int64_t axis, int64_t dims) {
  const int64_t result = axis < 0 ? axis + dims : axis;
  if (result < 0 || result >= dims)
    throw InvalidArgument("axis {} of a tensor of {} dimensions", axis, dims);
  return result;
}

}  // namespace

int64_t ElementsOf(const Shape& shape) {
  int64_t elements = 1;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw InvalidArgument("shape {}: negative extent", ToString(shape));
    // An empty tensor has strides too, which the other extents must not overflow.
    const int64_t factor = std::max<int64_t>(extent, 1);
    if (elements > std::numeric_limits<int64_t>::max() / 16 / factor) {
      throw InvalidArgument("shape {}: too many elements", ToString(shape));
    }
    elements *= factor;
    empty = empty || extent == 0;
  }
  return empty ? 0 : elements;
}

std::string ToString(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Tensor Tensor::Empty(const Context& context, DType dtype, Shape shape, MemoryCategory category) {
  Tensor result;
  result.elements_ = ElementsOf(shape);
  result.dtype_ = dtype;
  result.storage_ = std::make_shared<Storage>(context.memory(), result.bytes(), category);
  result.strides_ = RowMajorStrides(shape);
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::Zeros(const Context& context, DType dtype, Shape shape, MemoryCategory category) {
  Tensor result = Empty(context, dtype, std::move(shape), category);
  result.FillZero();
  return result;
}

int64_t Tensor::dim(int64_t axis) const { return shape_[AxisOf(axis, dims())]; }

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (size_t axis = shape_.size(); axis-- > 0;) {
    if (shape_[axis] != 1 && strides_[axis] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

std::byte* Tensor::raw() {
  PL_CHECK(defined());
  return storage_->memory() + static_cast<size_t>(offset_) * SizeOf(dtype_);
}

const std::byte* Tensor::raw() const { return const_cast<Tensor*>(this)->raw(); }

Tensor Tensor::View(Shape shape) const {
  PL_CHECK(contiguous());
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& extent : shape) {
    if (extent == -1) {
      PL_CHECK(open == nullptr);
      open = &extent;
    } else {
      known *= extent;
    }
  }
  if (open != nullptr) *open = known == 0 ? 0 : elements_ / known;
  if (ElementsOf(shape) != elements_) {
    throw InvalidArgument("cannot view {} as {}", ToString(shape_), ToString(shape));
  }
  Tensor result = *this;
  result.strides_ = RowMajorStrides(shape);
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::Slice(int64_t axis, int64_t begin, int64_t end) const {
  axis = AxisOf(axis, dims());
  if (begin < 0 || begin > end || end > shape_[axis]) {
    throw InvalidArgument("slice [{}, {}) of axis {} of {}", begin, end, axis, ToString(shape_));
  }
  Tensor result = *this;
  result.offset_ += begin * strides_[axis];
  result.shape_[axis] = end - begin;
  result.elements_ = ElementsOf(result.shape_);
  return result;
}

Tensor Tensor::Select(int64_t axis, int64_t index) const {
  axis = AxisOf(axis, dims());
  Tensor result = Slice(axis, index, index + 1);
  result.shape_.erase(result.shape_.begin() + axis);
  result.strides_.erase(result.strides_.begin() + axis);
  return result;
}

Tensor Tensor::Transpose(int64_t axis_a, int64_t axis_b) const {
  Tensor result = *this;
  axis_a = AxisOf(axis_a, dims());
  axis_b = AxisOf(axis_b, dims());
  std::swap(result.shape_[axis_a], result.shape_[axis_b]);
  std::swap(result.strides_[axis_a], result.strides_[axis_b]);
  return result;
}

Tensor Tensor::Contiguous(const Context& context) const {
  return contiguous() ? *this : Clone(context);
}

Tensor Tensor::Clone(const Context& context, MemoryCategory category) const {
  Tensor result = Empty(context, dtype_, shape_, category);
  result.CopyFrom(*this);
  return result;
}

void Tensor::CopyFrom(const Tensor& source) {
  if (source.dtype_ != dtype_ || source.shape_ != shape_) {
    throw InvalidArgument("copy of {}{} into {}{}", Name(source.dtype_), ToString(source.shape_),
                          Name(dtype_), ToString(shape_));
  }
  const size_t size = SizeOf(dtype_);
  std::byte* to = raw();
  const std::byte* from = source.raw();
  ForEachRun(*this, source, [&](int64_t to_offset, int64_t from_offset, int64_t n) {
    std::memmove(to + to_offset * static_cast<int64_t>(size),
                 from + from_offset * static_cast<int64_t>(size), static_cast<size_t>(n) * size);
  });
}

void Tensor::FillZero() {
  const int64_t size = static_cast<int64_t>(SizeOf(dtype_));
  ForEachRun(*this, *this, [&](int64_t offset, int64_t, int64_t n) {
    std::memset(raw() + offset * size, 0, n * size);
  });
}

void Tensor::FillPoison() {
  const int64_t size = static_cast<int64_t>(SizeOf(dtype_));
  ForEachRun(*this, *this, [&](int64_t offset, int64_t, int64_t n) {
    std::memset(raw() + offset * size, Allocator::kPoisonByte, n * size);
  });
}

void Tensor::CheckDType(DType wanted) const {
  if (dtype_ != wanted)
    throw Internal("tensor {}{} read as {}", Name(dtype_), ToString(shape_), Name(wanted));
}

int64_t Tensor::OffsetOf(const std::vector<int64_t>& index) const {
  PL_CHECK(index.size() == shape_.size());
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    PL_CHECK(index[axis] >= 0);
    PL_CHECK(index[axis] < shape_[axis]);
    offset += index[axis] * strides_[axis];
  }
  return offset;
}

}  // namespace plumbline
