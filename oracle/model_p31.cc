#include "oracle/field_traits.h"
#include "oracle/model_inl.h"

namespace plumbline {

template class Gpt<P31>;

}  // namespace plumbline
