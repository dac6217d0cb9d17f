#include "oracle/field_traits.h"
#include "oracle/model_inl.h"

namespace plumbline {

template class Gpt<M61>;

}  // namespace plumbline
