#include "trainer/checkpoint/index.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "common/crypto.h"
#include "common/file.h"
#include "trainer/checkpoint/durable_file.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t index_limit = 256u << 20;

Error damaged(const std::string& what) {
  return {Code::protocol, "the checkpoint index is damaged: " + what};
}

template <class T, class Read>
Result<T> reading(Read read) {
  try {
    return read();
  } catch (const json::exception& e) {
    return damaged(e.what());
  }
}

std::optional<std::int64_t> number_after(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return {};
  std::int64_t value = 0;
  const char* begin = name.data() + prefix.size();
  const auto [at, error] = std::from_chars(begin, name.data() + name.size(), value);
  if (error != std::errc() || at == begin || (*at != '.' && *at != 0)) return {};
  return value;
}

// Steps that have an index file, newest first.
std::vector<std::int64_t> published_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (!name.ends_with(".json")) continue;
    if (const auto step = number_after(name, "index-")) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// Piece by piece: a shard may be larger than the coordinator's memory.
Result<std::string> file_sha256(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  crypto::Sha256 hash;
  std::vector<char> piece(1 << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.update(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) return Error{Code::io, "cannot read " + path};
  return hash.hex();
}

Status check_shards(const std::string& folder, const Index& index) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& s : index.shards) {
    const auto path = folder + "/" + s.file;
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) return Error{Code::io, path + ": " + error.message()};
    if (size != s.bytes) return damaged(path + " has another size");
    MUSTER_TRY(sha256, file_sha256(path));
    if (sha256 != s.sha256) return damaged(path + " has another SHA-256");
    ranges.emplace_back(s.begin, s.end);
  }
  std::sort(ranges.begin(), ranges.end());
  std::int64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin > at) return damaged("a part of the state is in no shard");
    at = std::max(at, end);
  }
  return at >= index.layout.total ? Status() : damaged("a part of the state is in no shard");
}

Status check_job(const Index& index, const std::string& job_uid) {
  if (job_uid.empty() || index.job_uid == job_uid) return {};
  return damaged("it is of another job (uid " + index.job_uid + ")");
}

}  // namespace

json to_json(const Layout& layout) {
  json parameters = json::array();
  for (const auto& p : layout.parameters) {
    parameters.push_back({{"name", p.name}, {"shape", p.shape}, {"offset", p.offset}});
  }
  return {{"parameters", parameters}, {"total", layout.total}};
}

json to_json(const ShardRecord& s) {
  return {{"rank", s.rank}, {"file", s.file},   {"begin", s.begin},
          {"end", s.end},   {"bytes", s.bytes}, {"sha256", s.sha256}};
}

json to_json(const Index& index) {
  json shards = json::array();
  for (const auto& s : index.shards) shards.push_back(to_json(s));
  return {{"version", 1},
          {"step", index.step},
          {"epoch", index.epoch},
          {"jobUid", index.job_uid},
          {"specHash", index.spec_hash},
          {"samples", index.samples},
          {"states", index.states},
          {"layout", to_json(index.layout)},
          {"trainer", index.trainer},
          {"shards", shards}};
}

Result<Layout> layout_from_json(const json& j) {
  return reading<Layout>([&j] {
    Layout layout;
    for (const auto& p : j.at("parameters")) {
      layout.parameters.push_back({p.at("name").get<std::string>(),
                                   p.at("shape").get<std::vector<std::int64_t>>(),
                                   p.at("offset").get<std::int64_t>()});
    }
    layout.total = j.at("total").get<std::int64_t>();
    return layout;
  });
}

Result<ShardRecord> shard_from_json(const json& j) {
  return reading<ShardRecord>([&j] {
    return ShardRecord{j.at("rank").get<int>(),
                       j.at("file").get<std::string>(),
                       j.at("begin").get<std::int64_t>(),
                       j.at("end").get<std::int64_t>(),
                       j.at("bytes").get<std::uint64_t>(),
                       j.at("sha256").get<std::string>()};
  });
}

Result<Index> index_from_json(const json& j) {
  if (!j.is_object()) return damaged("it is not an object");
  MUSTER_TRY(layout, layout_from_json(j.contains("layout") ? j["layout"] : json()));
  std::vector<ShardRecord> shards;
  if (j.contains("shards") && j["shards"].is_array()) {
    for (const auto& s : j["shards"]) {
      MUSTER_TRY(shard, shard_from_json(s));
      shards.push_back(shard);
    }
  }
  return reading<Index>([&] {
    Index index;
    index.step = j.at("step").get<std::int64_t>();
    index.epoch = j.at("epoch").get<std::uint64_t>();
    index.job_uid = j.at("jobUid").get<std::string>();
    index.spec_hash = j.at("specHash").get<std::string>();
    index.samples = j.at("samples").get<std::int64_t>();
    index.states = j.at("states").get<std::vector<std::string>>();
    index.layout = layout;
    index.trainer = j.at("trainer");
    index.shards = shards;
    return index;
  });
}

std::string index_path(const std::string& folder, std::int64_t step) {
  return folder + "/index-" + std::to_string(step) + ".json";
}

std::string shard_path(std::int64_t step, std::uint64_t epoch, int rank) {
  return "step-" + std::to_string(step) + "." + std::to_string(epoch) + "/rank-" +
         std::to_string(rank) + ".safetensors";
}

Status publish(const std::string& folder, const Index& index) {
  const auto body = to_json(index).dump();
  const auto text = body + "\n" + crypto::sha256_hex(body) + "\n";
  for (const auto& s : index.shards) {
    MUSTER_CHECK_OK(sync_folder(fs::path(folder + "/" + s.file).parent_path().string()));
  }
  MUSTER_TRY(file, DurableFile::create(index_path(folder, index.step)));
  MUSTER_CHECK_OK(file.write(text.data(), text.size()));
  MUSTER_CHECK_OK(file.close());
  return sync_folder(folder);
}

Result<Index> read_index(const std::string& path) {
  MUSTER_TRY(text, read_file(path, index_limit));
  const auto newline = text.find('\n');
  if (newline == std::string::npos ||
      text.substr(newline + 1) != crypto::sha256_hex(text.substr(0, newline)) + "\n") {
    return damaged(path + " is torn");
  }
  const auto parsed = json::parse(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(newline),
                                  nullptr, false);
  auto index = index_from_json(parsed);
  if (!index.ok()) return index.error().while_doing(path);
  return index;
}

Result<std::optional<Index>> newest_valid(const std::string& folder, const std::string& job_uid,
                                          std::vector<std::string>* skipped) {
  for (const auto step : published_steps(folder)) {
    auto index = read_index(index_path(folder, step));
    Status status = index.ok() ? check_job(*index, job_uid) : Status(index.error());
    if (status.ok()) status = check_shards(folder, *index);
    if (status.ok()) return std::optional<Index>(*std::move(index));
    if (skipped != nullptr) skipped->push_back(status.error().message);
  }
  return std::optional<Index>();
}

Status prune(const std::string& folder, std::int64_t keep, std::int64_t best_step) {
  const auto steps = published_steps(folder);
  if (steps.empty()) return {};
  std::vector<std::int64_t> kept;
  for (const auto step : steps) {
    const bool stays = static_cast<std::int64_t>(kept.size()) < std::max<std::int64_t>(1, keep) ||
                       step == best_step;
    if (stays) {
      kept.push_back(step);
    } else {
      fs::remove(index_path(folder, step));
    }
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto step = number_after(entry.path().filename().string(), "step-");
    if (!step || *step > steps.front()) continue;
    if (std::find(kept.begin(), kept.end(), *step) == kept.end()) {
      fs::remove_all(entry.path(), error);
    }
  }
  return {};
}

}  // namespace muster::checkpoint
