#include "oracle/dual.h"
#include "oracle/field_traits.h"
#include "oracle/model_inl.h"

namespace plumbline {

template class Gpt<Dual<M61>>;

}  // namespace plumbline
