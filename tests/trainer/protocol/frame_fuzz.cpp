#include <cstddef>
#include <cstdint>

#include "trainer/protocol/frames.h"
#include "trainer/protocol/membership.h"

// Bytes from a registered peer: frames, and what the membership makes of them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::protocol::FrameReader reader;
  muster::protocol::Membership membership({});
  (void)membership.joined(1, {{"pod", "worker-0"}}, 0);
  reader.append({reinterpret_cast<const char*>(data), size});
  while (true) {
    const auto message = reader.next();
    if (!message.ok() || !*message) return 0;
    (void)membership.received(1, **message, 0);
    (void)membership.state();
  }
}
