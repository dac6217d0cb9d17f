// Template parts of base/tensor.h.
#ifndef PLUMBLINE_BASE_TENSOR_INL_H_
#define PLUMBLINE_BASE_TENSOR_INL_H_

#include <cstring>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace plumbline {

template <class F>
void ForEachRun(const Tensor& a, const Tensor& b, F&& f) {
  PL_CHECK(a.shape() == b.shape());
  if (a.elements() == 0) return;
  if (a.contiguous() && b.contiguous()) {
    f(int64_t{0}, int64_t{0}, a.elements());
    return;
  }
  const int64_t dims = a.dims();
  const bool last_is_run = a.strides()[dims - 1] == 1 && b.strides()[dims - 1] == 1;
  const int64_t run = last_is_run ? a.shape()[dims - 1] : 1;
  const int64_t outer = last_is_run ? dims - 1 : dims;
  std::vector<int64_t> index(static_cast<size_t>(dims), 0);
  int64_t a_offset = 0;
  int64_t b_offset = 0;
  while (true) {
    f(a_offset, b_offset, run);
    int64_t axis = outer - 1;
    for (; axis >= 0; --axis) {
      a_offset += a.strides()[axis];
      b_offset += b.strides()[axis];
      if (++index[axis] < a.shape()[axis]) break;
      a_offset -= a.strides()[axis] * a.shape()[axis];
      b_offset -= b.strides()[axis] * b.shape()[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

template <class T>
Tensor Tensor::FromVector(const Context& context, const Shape& shape, const std::vector<T>& values,
                          MemoryCategory category) {
  Tensor result = Empty(context, kDTypeOf<T>, shape, category);
  PL_CHECK(result.elements() == static_cast<int64_t>(values.size()));
  if (!values.empty()) std::memcpy(result.raw(), values.data(), values.size() * sizeof(T));
  return result;
}

template <class T>
std::vector<T> Tensor::ToVector() const {
  CheckDType(kDTypeOf<T>);
  const Tensor packed = Contiguous(Context{});
  const T* first = packed.data<T>();
  return std::vector<T>(first, first + packed.elements());
}

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_TENSOR_INL_H_
