#include "trainer/data/dataset.h"
#include "trainer/data/sequences.h"
#include "trainer/data/tabular.h"

namespace muster::data {

Result<Datasets> open(const job::Data& data, std::int64_t seed) {
  if (data.format == "csv") return open_csv(data, seed);
  if (data.format == "text" || data.format == "tokens") return open_sequences(data);
  return Error{Code::unsupported, "data of format " + data.format +
                                      " comes with a later version; csv, text and tokens are here"};
}

}  // namespace muster::data
