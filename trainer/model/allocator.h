// The C library's allocator, set for training: each step allocates and frees the same activations.
#pragma once

namespace muster::model {

// Keeps freed memory in the process instead of handing it back to the kernel and faulting it in
// again every step (a seventh of a small GPT's step on one core). Call it first in main(), before
// threads start. The process then keeps its peak memory. Without effect on other C libraries.
void keep_freed_memory();

}  // namespace muster::model
