#include "trainer/coordinator/messages.h"

#include <cmath>

#include "common/json_fields.h"

namespace muster::coordinator {
namespace {

using nlohmann::json;

const char* name_of(Phase phase) {
  static constexpr const char* names[] = {"starting",   "loading",       "data",      "forward",
                                          "backward",   "communication", "optimizer", "validation",
                                          "checkpoint", "waiting"};
  return names[static_cast<int>(phase)];
}

comm::PeerAddress address_from(const json& j) {
  return {j.value("tcp", ""), j.value("unix", ""), j.value("machine", "")};
}

}  // namespace

json to_json(const Hello& h) {
  return {{"pod", h.pod},
          {"podUid", h.pod_uid},
          {"localRank", h.local_rank},
          {"pid", h.pid},
          {"address",
           {{"tcp", h.address.tcp}, {"unix", h.address.unix_name}, {"machine", h.address.machine}}},
          {"memoryBytes", h.memory_bytes},
          {"gflops", h.gflops}};
}

json to_json(const Report& r, double phase_age) {
  json j{{"type", "heartbeat"},   {"step", r.step},       {"phase", name_of(r.phase)},
         {"phaseAge", phase_age}, {"samples", r.samples}, {"ownSamples", r.own_samples}};
  put_finite(j, "loss", r.loss);
  put_finite(j, "learningRate", r.learning_rate);
  put_finite(j, "gradientNorm", r.gradient_norm);
  put_finite(j, "samplesPerSecond", r.samples_per_second);
  put_finite(j, "validationLoss", r.validation_loss);
  put_finite(j, "validationAccuracy", r.validation_accuracy);
  if (r.total_steps > 0) j["totalSteps"] = r.total_steps;
  return j;
}

Result<Assignment> assignment_from_json(const json& j) {
  try {
    Assignment a;
    a.generation = {j.at("epoch").get<std::uint64_t>(), j.at("n").get<std::uint64_t>()};
    a.rank = j.at("rank").get<int>();
    a.world_size = j.at("worldSize").get<int>();
    a.key = j.at("key").get<std::string>();
    for (const auto& p : j.at("peers")) a.peers.push_back(address_from(p));
    a.shares = j.at("shares").get<std::vector<std::int64_t>>();
    a.step = j.at("step").get<std::int64_t>();
    a.state_from = j.at("stateFrom").get<int>();
    a.newcomers = j.at("newcomers").get<std::vector<int>>();
    a.checkpoint = j.at("checkpoint").get<std::string>();
    const auto n = static_cast<std::size_t>(a.world_size);
    if (a.world_size > 0 && a.rank >= 0 && a.rank < a.world_size && a.peers.size() == n &&
        a.shares.size() == n && a.state_from < a.world_size) {
      return a;
    }
    return Error{Code::protocol, "the coordinator sent an assignment that contradicts itself"};
  } catch (const json::exception& e) {
    return Error{Code::protocol, std::string("the coordinator's assignment: ") + e.what()};
  }
}

Result<Boundary> boundary_from_json(const json& j) {
  try {
    Boundary b;
    b.checkpoint = j.value("checkpoint", false);
    b.leave = j.value("leave", false);
    b.stop = j.value("stop", false);
    if (!j.contains("regroup")) return b;
    MUSTER_TRY(assignment, assignment_from_json(j["regroup"]));
    b.regroup = std::move(assignment);
    return b;
  } catch (const json::exception& e) {
    return Error{Code::protocol, std::string("the coordinator's boundary: ") + e.what()};
  }
}

}  // namespace muster::coordinator
