#include "oracle/model_inl.h"

namespace plumbline {

template class Gpt<double>;

}  // namespace plumbline
