#include "trainer/model/allocator.h"

#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace muster::model {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD,
          32 * kMiB);  // the most that glibc takes; larger blocks are still mapped
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 * kMiB);
  mallopt(M_ARENA_MAX, 1);  // other threads' arenas give memory back by rules of their own
#endif
}

}  // namespace muster::model
