// muster validate FILE...: the verdicts that a cluster gives, without one.
#pragma once

#include <string>
#include <vector>

namespace muster::cli {

struct ValidateOptions {
  std::vector<std::string> files;
};

// Prints every problem of every document. 0 when all are valid, else 2.
int validate(const ValidateOptions& options);

}  // namespace muster::cli
