// What Eigen must know to compute with prime fields (base/field.h).
#ifndef PLUMBLINE_ORACLE_FIELD_TRAITS_H_
#define PLUMBLINE_ORACLE_FIELD_TRAITS_H_

#include <Eigen/Core>

#include "base/field.h"

namespace Eigen {

template <class Rules>
struct NumTraits<plumbline::Field<Rules>> {
  using Real = plumbline::Field<Rules>;
  using NonInteger = plumbline::Field<Rules>;
  using Literal = plumbline::Field<Rules>;
  using Nested = plumbline::Field<Rules>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 0,
    RequireInitialization = 0,
    ReadCost = 1,
    AddCost = 2,
    MulCost = 4
  };
};

}  // namespace Eigen

#endif  // PLUMBLINE_ORACLE_FIELD_TRAITS_H_
