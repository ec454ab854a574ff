#include "cli/documents.h"

#include <filesystem>
#include <iostream>
#include <iterator>

#include "common/file.h"

namespace muster::cli {
namespace {

constexpr std::size_t standard_input_limit = 64u << 20;

Result<std::string> read_standard_input() {
  std::string text;
  char part[65536];
  while (std::cin.read(part, sizeof part) || std::cin.gcount() > 0) {
    text.append(part, static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > standard_input_limit) {
      return Error{Code::invalid_job, "standard input: larger than 64 MiB, which no job is"};
    }
  }
  return text;
}

}  // namespace

Result<std::vector<Document>> read_jobs(const std::string& file) {
  const bool standard_input = file == "-";
  const std::string source = standard_input ? "standard input" : file;
  MUSTER_TRY(text, standard_input ? read_standard_input() : read_file(file));
  MUSTER_TRY(contents, job::read_documents(text, source));
  if (contents.empty()) return Error{Code::invalid_job, source + ": holds no TrainingJob"};
  const auto folder = standard_input ? std::filesystem::current_path()
                                     : std::filesystem::absolute(file).parent_path();
  std::vector<Document> documents;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto number = contents.size() > 1 ? ", document " + std::to_string(i + 1) : "";
    documents.push_back({source + number, folder.string(), std::move(contents[i])});
  }
  return documents;
}

void resolve_data_paths(job::TrainingJob& job, const std::string& folder) {
  const auto resolve = [&](std::string& path) {
    if (!path.empty() && path.front() != '/') {
      path = (std::filesystem::path(folder) / path).lexically_normal().string();
    }
  };
  for (auto& path : job.spec.data.train) resolve(path);
  for (auto& path : job.spec.data.validation) resolve(path);
  resolve(job.spec.data.tokenizer);
}

}  // namespace muster::cli
