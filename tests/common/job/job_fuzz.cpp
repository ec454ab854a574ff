// Whatever is accepted must survive the round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/job/job.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto documents =
      muster::job::read_documents(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!documents.ok()) return 0;
  for (const auto& document : *documents) {
    const auto parsed = muster::job::parse(document);
    if (!parsed.ok()) continue;
    (void)muster::job::spec_hash(parsed.job);
    if (!muster::job::parse(muster::job::to_json(parsed.job)).ok()) std::abort();
  }
  return 0;
}
