#include "base/finding.h"

#include "base/error.h"

namespace plumbline {

std::string_view Name(FindingClass value) {
  switch (value) {
    case FindingClass::kValueMismatch:
      return "value_mismatch";
    case FindingClass::kReplicaMismatch:
      return "replica_mismatch";
    case FindingClass::kNonFinite:
      return "non_finite";
    case FindingClass::kMissingTensor:
      return "missing_tensor";
    case FindingClass::kCollectiveMismatch:
      return "collective_mismatch";
    case FindingClass::kPayloadChanged:
      return "payload_changed";
    case FindingClass::kDeadlock:
      return "deadlock";
    case FindingClass::kBufferLayout:
      return "buffer_layout";
    case FindingClass::kUnusedParameter:
      return "unused_parameter";
    case FindingClass::kPrematureUse:
      return "premature_use";
    case FindingClass::kAccumulation:
      return "accumulation";
  }
  throw Internal("finding class {} has no name", static_cast<int>(value));
}

}  // namespace plumbline
