// What a checkpoint is: one safetensors file a rank under step-<k>.<epoch>/, then index-<k>.json,
// which the coordinator publishes after every rank has acknowledged its file. Nothing is renamed
// (object stores cannot); the newest valid index wins, and a torn or stale one is never chosen.
//
// State is flat: every state tensor (parameters, exp_avg, ...) is one 1-D fp32 buffer over all
// parameters, in the order and at the offsets of the layout; a rank's file holds one interval of
// each, so a checkpoint loads at any world size by interval arithmetic.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::checkpoint {

struct ParameterLayout {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // of its first element in the flat buffers
  bool operator==(const ParameterLayout&) const = default;
};

struct Layout {
  std::vector<ParameterLayout> parameters;
  std::int64_t total = 0;  // elements of a flat buffer, padding included
  bool operator==(const Layout&) const = default;
};

struct ShardRecord {
  int rank = 0;
  std::string file;  // relative to the checkpoint folder: step-<k>.<epoch>/rank-<r>.safetensors
  std::int64_t begin = 0, end = 0;  // elements of every flat buffer that the file holds
  std::uint64_t bytes = 0;
  std::string sha256;  // hex
};

struct Index {
  std::int64_t step = 0;    // steps committed
  std::uint64_t epoch = 0;  // of the coordinator that published
  std::string job_uid;
  std::string spec_hash;
  std::int64_t samples = 0;         // the cursor
  std::vector<std::string> states;  // names of the flat buffers, "parameters" first
  Layout layout;
  nlohmann::json trainer = nlohmann::json::object();  // schedule, early stopping, best metric ...
  std::vector<ShardRecord> shards;
};

nlohmann::json to_json(const Layout& layout);
nlohmann::json to_json(const ShardRecord& shard);
nlohmann::json to_json(const Index& index);
Result<Layout> layout_from_json(const nlohmann::json& json);
Result<ShardRecord> shard_from_json(const nlohmann::json& json);
Result<Index> index_from_json(const nlohmann::json& json);

// index-<k>.json is written once, under its final name: content, fsync, then fsync of the folder.
// It ends with its own checksum, so that a torn one is known.
Status publish(const std::string& folder, const Index& index);

// The newest index of this job whose own checksum, and every shard's presence, size and SHA-256
// hold. An empty uid accepts any job's (resumeFrom). Nothing when there is none. Reasons why newer
// ones were passed over are appended to `skipped`.
Result<std::optional<Index>> newest_valid(const std::string& folder, const std::string& job_uid,
                                          std::vector<std::string>* skipped = nullptr);
Result<Index> read_index(const std::string& path);
std::string index_path(const std::string& folder, std::int64_t step);
std::string shard_path(std::int64_t step, std::uint64_t epoch, int rank);  // relative

// Removes all but the newest `keep` published checkpoints and `best_step` (-1: none), indexes
// first; folders of unpublished steps older than the newest published one go too.
Status prune(const std::string& folder, std::int64_t keep, std::int64_t best_step);

}  // namespace muster::checkpoint
