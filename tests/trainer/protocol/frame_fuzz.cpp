#include <cstddef>
#include <cstdint>

#include "trainer/protocol/frames.h"
#include "trainer/protocol/membership.h"

// Bytes from a registered peer: frames, and what the membership makes of them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::protocol::FrameReader reader;
  muster::protocol::Rules rules;
  rules.workers = 2;
  rules.max_workers = 3;
  rules.checkpoints = true;
  muster::protocol::Membership membership(rules);
  for (const muster::protocol::MemberId id : {1, 2, 3}) {
    (void)membership.joined(id, {{"pod", "worker"}, {"podUid", id}}, 0);
    if (id < 3) (void)membership.received(id, {{"type", "ready"}}, 0);
  }
  reader.append({reinterpret_cast<const char*>(data), size});
  while (true) {
    const auto message = reader.next();
    if (!message.ok() || !*message) return 0;
    // The next one speaks too, so that changes are promised and checkpoints completed.
    for (const muster::protocol::MemberId id : {1, 2, 3}) {
      (void)membership.received(id, **message, 0);
    }
    (void)membership.state().dump();
  }
}
