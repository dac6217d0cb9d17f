// Moves the payloads of a collective once all its calls are there.
//
// Numerics: reductions take the members in group order (kernels/reduce.h). Calls that differ in
//           dtype or reduce op are each computed by their own, over their peers' bytes.
// Errors:   InvalidArgument when the dtype has no arithmetic.
#ifndef PLUMBLINE_PARALLEL_COMM_PAYLOAD_H_
#define PLUMBLINE_PARALLEL_COMM_PAYLOAD_H_

#include <memory>
#include <span>

#include "base/context.h"
#include "parallel/comm/pending_call.h"

namespace plumbline {

using Calls = std::span<const std::shared_ptr<PendingCall>>;

// Whether the calls, by position, can be joined without reading or writing beyond a buffer: one
// operation, and the bytes that each sends are those that its peer expects.
bool FitTogether(Calls calls);
bool FitTogether(const PendingCall& send, const PendingCall& recv);

// Writes the outputs of blocking calls, and stages those of the others (Delivery); takes the
// checksums that are due. `context` provides the staging memory.
void MovePayloads(Calls calls, const Context& context);
void MoveMessage(PendingCall& send, PendingCall& recv, const Context& context);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_PAYLOAD_H_
