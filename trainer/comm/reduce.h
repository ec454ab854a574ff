// Additions of the collectives: ((x0 + x1) + x2) ... element by element, in fp32 for f32 and bf16.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/comm/communicator.h"

namespace muster::comm {

// out[0, count) = sum of inputs in the order given; bf16 is rounded once, to nearest even. `out`
// may be one of the inputs. NaNs stay NaNs.
void add_in_order(std::span<const void* const> inputs, void* out, std::size_t count, DType dtype);

// The same sum into each of the outputs; each may be one of the inputs.
void add_in_order_to_all(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::size_t count, DType dtype);

}  // namespace muster::comm
