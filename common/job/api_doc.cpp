// muster-api-doc: prints docs/api.md.
#include <cstdio>

#include "common/job/schema.h"

int main() {
  std::fputs(muster::job::api_document().c_str(), stdout);
  return 0;
}
