#include "trainer/loop/trainer.h"

#include <chrono>
#include <cmath>

#include "common/log.h"
#include "trainer/strategy/schedule.h"

namespace muster::loop {
namespace {

using std::chrono::seconds;

// A backstop only: the coordinator knows of a dead or stopped peer in seconds.
constexpr seconds collective_timeout{60};
constexpr seconds join_timeout{30};
constexpr seconds publish_timeout{60};
constexpr std::int64_t validation_chunk = 16;  // samples, when microBatchSize is auto

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t total = 0;
  for (const auto v : values) total += v;
  return total;
}

}  // namespace

Trainer::Trainer(const Equipment& equipment)
    : with_(equipment),
      spec_(equipment.job.spec),
      sync_(equipment.state, equipment.job.spec.strategy.sync.bucket_bytes),
      loader_(*equipment.data.train, static_cast<std::uint64_t>(equipment.job.spec.training.seed)),
      writer_(equipment.job.spec.checkpoint.path) {}

Result<Outcome> Trainer::run() {
  with_.client.set_phase(coordinator::Phase::waiting);
  MUSTER_TRY(first, with_.client.wait_assignment(comm::in(seconds(3600)), with_.leave_requested));
  MUSTER_CHECK_OK(join(first));
  resumed_at_ = last_snapshot_ = step_;
  started_ = now();
  while (true) {
    MUSTER_TRY(outcome, at_boundary());
    if (outcome) return *outcome;
    if (over()) return finish();
    if (auto status = train_step(); !status.ok()) {
      return status.error().while_doing("step " + std::to_string(step_));
    }
    if (with_.data.validation && validation_due(run_, spec_.training, step_)) {
      MUSTER_CHECK_OK(validate());
    }
  }
}

Result<std::optional<Outcome>> Trainer::at_boundary() {
  if (with_.leave_requested) with_.client.request_leave();
  MUSTER_TRY(boundary, with_.client.boundary(step_));
  // At the end no change is worth its while: all finish.
  if (over()) return std::optional<Outcome>();
  if (boundary.checkpoint || checkpoint_wanted()) snapshot();
  if (boundary.leave || boundary.regroup) {
    // Nobody goes on before all have come here: rank 0 may leave, and what it has still to write of
    // the last step comes before what the next rank 0 writes.
    MUSTER_CHECK_OK(communicator_->barrier(step_deadline()));
  }
  if (boundary.leave) {
    writer_.wait_idle();
    MUSTER_CHECK_OK(with_.client.left());
    return std::optional(Outcome::left);
  }
  if (boundary.stop) {
    MUSTER_CHECK_OK(complete_checkpoint());
    MUSTER_CHECK_OK(with_.client.left());
    return std::optional(Outcome::stopped);
  }
  if (boundary.regroup) MUSTER_CHECK_OK(join(*boundary.regroup));
  return std::optional<Outcome>();
}

// Enters a generation: new communicator; state from a checkpoint, a peer, or the seed.
Status Trainer::join(const coordinator::Assignment& assignment) {
  with_.abort_switch.attach(nullptr);
  communicator_.reset();
  assignment_ = assignment;
  comm::Options options{assignment.rank, assignment.world_size, assignment.generation,
                        assignment.key,  assignment.peers,      with_.state.arena()};
  MUSTER_TRY(connected, comm::connect(options, with_.listener, comm::in(join_timeout)));
  communicator_ = std::move(connected);
  with_.abort_switch.attach(communicator_.get());
  sync_.set_communicator(communicator_.get());
  run_ = make_run(spec_.training, with_.data.train->size(), sum(assignment.shares));
  step_ = assignment.step;
  if (assignment.state_from >= 0) {
    MUSTER_CHECK_OK(share_state());
  } else if (!assignment.checkpoint.empty()) {
    MUSTER_CHECK_OK(restore(assignment.checkpoint));
  }
  with_.metrics.rank = assignment.rank;
  with_.metrics.world_size = assignment.world_size;
  with_.metrics.generation = static_cast<std::int64_t>(assignment.generation.n);
  with_.metrics.batch_share = assignment.shares[static_cast<std::size_t>(assignment.rank)];
  log_.reset();
  if (leader() && !with_.output.empty()) {
    MUSTER_TRY(log, MetricsLog::open(with_.output + "/metrics.jsonl", step_));
    log_ = std::move(log);
  }
  start_loading();
  log::info("joined", {{"generation", assignment.generation.n},
                       {"rank", assignment.rank},
                       {"world_size", assignment.world_size},
                       {"step", step_},
                       {"transport", communicator_->transport()}});
  return {};
}

Status Trainer::restore(const std::string& index_path) {
  MUSTER_TRY(index, checkpoint::read_index(index_path));
  auto buffers = with_.state.buffers();
  const auto folder = index_path.substr(0, index_path.find_last_of('/'));
  MUSTER_CHECK_OK(checkpoint::load(folder, index, with_.state.layout(), 0,
                                   with_.state.layout().total, buffers));
  MUSTER_TRY(tracker, tracker_from_json(index.trainer));
  tracker_ = tracker;
  step_ = index.step;
  log::info("resumed", {{"checkpoint", index_path}, {"step", step_}});
  return {};
}

// The rank that has state sends it to all: parameters, moments, and what validations have decided.
Status Trainer::share_state() {
  if (assignment_.newcomers.empty()) return {};
  const auto deadline = comm::in(collective_timeout);
  for (const auto& buffer : with_.state.buffers()) {
    MUSTER_CHECK_OK(communicator_->broadcast(
        buffer.data, static_cast<std::size_t>(buffer.count) * 4, assignment_.state_from, deadline));
  }
  char text[4096] = {};
  const auto mine = to_json(tracker_).dump();
  if (mine.size() >= sizeof(text)) return Error{Code::internal, "the trainer state is too long"};
  mine.copy(text, mine.size());
  MUSTER_CHECK_OK(communicator_->broadcast(text, sizeof(text), assignment_.state_from, deadline));
  text[sizeof(text) - 1] = 0;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{Code::protocol, "the peer sent a damaged trainer state"};
  MUSTER_TRY(tracker, tracker_from_json(json));
  tracker_ = tracker;
  return {};
}

void Trainer::start_loading() {
  loader_.start([run = run_, training = spec_.training, shares = assignment_.shares,
                 rank = assignment_.rank, step = step_,
                 pending = std::vector<Range>()]() mutable -> std::optional<data::MicroBatch> {
    while (pending.empty() && step < run.total_steps) {
      pending = micro_batches(training, rank_range(run, step++, shares, rank));
      std::reverse(pending.begin(), pending.end());
    }
    if (pending.empty()) return std::nullopt;
    const auto next = pending.back();
    pending.pop_back();
    return data::MicroBatch{step - 1, next.begin, next.end};
  });
}

comm::Deadline Trainer::step_deadline() const {
  const auto limit =
      spec_.recovery.hang_timeout_seconds.value_or(static_cast<double>(collective_timeout.count()));
  return comm::in(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(limit)));
}

// Forward and backward of this rank's micro-batches.
Result<strategy::StepSums> Trainer::accumulate(Split& split) {
  const auto mine = rank_range(run_, step_, assignment_.shares, assignment_.rank);
  const auto parts = micro_batches(spec_.training, mine);
  strategy::StepSums local;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto t0 = now();
    with_.client.set_phase(coordinator::Phase::data);
    MUSTER_TRY(batch, loader_.next({step_, parts[i].begin, parts[i].end}));
    const auto t1 = now();
    with_.client.set_phase(coordinator::Phase::forward);
    const auto losses = with_.model.loss(*batch, false);
    const auto t2 = now();
    with_.client.set_phase(coordinator::Phase::backward);
    sync_.backward(losses.sum, i + 1 == parts.size());
    split.data += t1 - t0;
    split.forward += t2 - t1;
    split.backward += now() - t2;
    local.loss += losses.sum.item<double>();
    local.units += losses.units;
    local.samples += parts[i].size();
  }
  return local;
}

Status Trainer::train_step() {
  Split split;
  sync_.begin_step(step_deadline());
  MUSTER_TRY(local, accumulate(split));
  const auto reducing = now();
  with_.client.set_phase(coordinator::Phase::communication);
  MUSTER_TRY(sums, sync_.reduce(local));
  const auto reduced = now();
  with_.client.set_phase(coordinator::Phase::optimizer);
  const auto units = static_cast<double>(std::max<std::int64_t>(1, sums.units));
  const double loss = sums.loss / units;
  const double norm = sync_.gradient_norm() / units;
  const double rate =
      strategy::learning_rate(spec_.training.schedule, spec_.training.optimizer.learning_rate,
                              step_, run_.total_steps, tracker_.reductions);
  bool skip = false;
  MUSTER_CHECK_OK(check_finite(loss, norm, skip));
  const double limit = spec_.training.gradient_clip_norm;
  const double clip = limit > 0 && norm > limit ? norm / limit : 1.0;
  if (!skip) sync_.commit(spec_.training.optimizer, rate, units * clip, step_ + 1);
  ++step_;
  split.communication = reduced - reducing;
  split.optimizer = now() - reduced;
  tracker_.loss = loss;
  trained_samples_ += sums.samples;
  own_samples_ += local.samples;
  return record({step_, samples(), loss, rate, norm, split,
                 static_cast<double>(sums.samples) / split.total()},
                local.samples);
}

Status Trainer::check_finite(double loss, double norm, bool& skip) const {
  if (std::isfinite(loss) && std::isfinite(norm)) return {};
  const std::string what = std::isfinite(loss) ? "the gradient norm" : "the loss";
  if (spec_.training.on_divergence != "Continue") {
    return Error{Code::diverged,
                 what +
                     " is not finite; lower spec.training.optimizer.learningRate, set "
                     "spec.training.gradientClipNorm, or look for extreme values in the data"};
  }
  log::warning("diverged: the step's update is left out", {{"step", step_}, {"what", what}});
  skip = true;
  return {};
}

Status Trainer::record(const StepRecord& record, std::int64_t own_samples) {
  with_.metrics.observe(record, own_samples, communicator_->traffic().bytes_sent);
  coordinator::Report report;
  report.step = step_;
  report.total_steps = run_.total_steps;
  report.phase = coordinator::Phase::optimizer;
  report.samples = record.samples;
  report.own_samples = own_samples_;
  report.loss = record.loss;
  report.learning_rate = record.learning_rate;
  report.gradient_norm = record.gradient_norm;
  report.samples_per_second = static_cast<double>(trained_samples_) / (now() - started_);
  report.validation_loss = tracker_.validation.loss;
  report.validation_accuracy = tracker_.validation.accuracy;
  with_.client.report(report);
  if (!log_) return {};
  if (auto status = log_->write(record); !status.ok()) {
    log::warning(status.error().message);
    log_.reset();
  }
  return {};
}

Status Trainer::validate() {
  with_.client.set_phase(coordinator::Phase::validation);
  // The same at every world size, so that the validation's bits are too.
  const auto micro = spec_.training.micro_batch_size.value_or(validation_chunk);
  MUSTER_TRY(validation, validate_over_ranks(with_.model, *with_.data.validation, *communicator_,
                                             micro, collective_timeout));
  tracker_ = observe(tracker_, spec_, step_, validation);
  with_.metrics.validation_loss = validation.loss;
  with_.metrics.validation_accuracy = validation.accuracy;
  if (log_) {
    if (auto status = log_->write(step_, validation); !status.ok()) {
      log::warning(status.error().message);
    }
  }
  return {};
}

// Arithmetic that every rank answers alike.
bool Trainer::checkpoint_wanted() const {
  if (spec_.checkpoint.path.empty() || step_ == resumed_at_) return false;
  if (checkpoint_due(spec_.checkpoint, step_)) return true;
  return !spec_.checkpoint.keep_best.empty() && tracker_.keep.step == step_;
}

nlohmann::json Trainer::checkpoint_head() const {
  checkpoint::Index index;
  index.step = step_;
  index.epoch = assignment_.generation.epoch;
  index.job_uid = with_.client.job_uid();
  index.spec_hash = job::spec_hash(with_.job);
  index.samples = samples();
  for (const auto& buffer : with_.state.buffers()) index.states.push_back(buffer.name);
  index.layout = with_.state.layout();
  index.trainer = to_json(tracker_);
  return checkpoint::to_json(index);
}

void Trainer::snapshot() {
  if (spec_.checkpoint.path.empty() || last_snapshot_ == step_) return;
  with_.client.set_phase(coordinator::Phase::checkpoint);
  if (leader()) {
    const auto pruned =
        checkpoint::prune(spec_.checkpoint.path, spec_.checkpoint.keep, tracker_.keep.step);
    if (!pruned.ok()) log::warning(pruned.error().message);
  }
  last_snapshot_ = step_;
  const auto mine = comm::segment(static_cast<std::size_t>(with_.state.layout().total),
                                  comm::DType::f32, assignment_.rank, assignment_.world_size);
  const auto head = leader() ? checkpoint_head() : nlohmann::json();
  writer_.snapshot(step_, assignment_.generation.epoch, assignment_.rank,
                   static_cast<std::int64_t>(mine.begin), static_cast<std::int64_t>(mine.end),
                   with_.state.buffers(),
                   [this, step = step_, n = assignment_.generation.n,
                    head](const Result<checkpoint::ShardRecord>& shard) {
                     if (shard.ok()) {
                       ++with_.metrics.checkpoints;
                       with_.client.checkpoint_written(step, n, *shard, head);
                     } else {
                       ++with_.metrics.checkpoint_failures;
                       log::error(shard.error().message, {{"checkpoint", step}});
                       with_.client.checkpoint_failed(step, n, shard.error());
                     }
                   });
}

Status Trainer::complete_checkpoint() {
  if (spec_.checkpoint.path.empty() || step_ == resumed_at_) return {};
  snapshot();
  writer_.wait_idle();
  auto published = with_.client.wait_published(step_, comm::in(publish_timeout));
  if (!published.ok()) {
    return published.error().while_doing("publishing checkpoint " + std::to_string(step_));
  }
  if (!leader()) return {};
  return checkpoint::prune(spec_.checkpoint.path, spec_.checkpoint.keep, tracker_.keep.step);
}

}  // namespace muster::loop
