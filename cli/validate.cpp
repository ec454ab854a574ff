#include "cli/validate.h"

#include <cstdio>

#include "cli/documents.h"
#include "common/exit_code.h"

namespace muster::cli {
namespace {

bool validate_document(const Document& document) {
  const auto parsed = job::parse(document.content);
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s", job::describe(parsed.problems, document.source).c_str());
    return false;
  }
  std::printf("%s: %s is valid\n", document.source.c_str(), parsed.job.name.c_str());
  if (const auto supported = job::check_supported(parsed.job); !supported.ok()) {
    std::printf("%s: but this version cannot run it: %s\n", document.source.c_str(),
                supported.error().message.c_str());
  }
  return true;
}

}  // namespace

int validate(const ValidateOptions& options) {
  bool all_valid = true;
  for (const auto& file : options.files) {
    const auto documents = read_jobs(file);
    if (!documents.ok()) {
      std::fprintf(stderr, "%s\n", documents.error().message.c_str());
      all_valid = false;
      continue;
    }
    for (const auto& document : *documents) all_valid &= validate_document(document);
  }
  return all_valid ? exit_finished : exit_invalid_job;
}

}  // namespace muster::cli
