#include "oracle/dual.h"
#include "oracle/model_inl.h"

namespace plumbline {

template class Gpt<Dual<double>>;

}  // namespace plumbline
