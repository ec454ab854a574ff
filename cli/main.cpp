// The program `muster`.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/completion.h"
#include "cli/run.h"
#include "cli/validate.h"
#include "common/exit_code.h"

namespace {

using namespace muster;

// The same command in a form that a shell reads back as it was.
std::string quoted_command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    std::string word = argv[i];
    if (word.empty() || word.find_first_of(" \t\n'\"$`\\*?[]{}()<>|&;#~!") != std::string::npos) {
      std::string quoted = "'";
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      word = quoted + "'";
    }
    line += (i > 0 ? " " : "") + word;
  }
  return line;
}

void add_run(CLI::App& app, cli::RunOptions& options) {
  auto* command = app.add_subcommand("run", "train a TrainingJob on this machine");
  command
      ->add_option("job", options.file, "file with one or more TrainingJobs; - is standard input")
      ->required()
      ->type_name("JOB.yaml");
  command->add_option("--workers", options.workers, "worker processes (spec.workers.replicas)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      ->add_option("--set", options.settings,
                   "change a field of the job; may be repeated; null removes it")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
  command->add_option("--output", options.output, "folder for all results (default: runs/<name>)")
      ->type_name("DIR");
  command->add_option("--transport", options.transport, "how workers exchange gradients")
      ->check(CLI::IsMember({"auto", "tcp", "shared-memory"}))
      ->capture_default_str();
  command
      ->add_option("--metrics-port", options.metrics_port,
                   "serve Prometheus metrics: worker i at http://127.0.0.1:(N + i)/metrics")
      ->check(CLI::Range(1, 64511))
      ->type_name("N");
  command->add_flag("--json", options.json, "progress and summary as one JSON object a line");
  command->footer(
      "Examples:\n"
      "  muster run examples/penguins.yaml --workers 2\n"
      "  muster run job.yaml --set training.epochs=10 --set training.optimizer.learningRate=1e-3\n"
      "  muster run job.yaml --output results/first     # the same command again resumes it\n"
      "  cat job.yaml | muster run - --json\n"
      "Ctrl-C finishes the step and writes a checkpoint; a second Ctrl-C stops at once.");
}

void add_validate(CLI::App& app, cli::ValidateOptions& options) {
  auto* command = app.add_subcommand("validate", "check TrainingJobs without running them");
  command->add_option("file", options.files, "files with TrainingJobs; - is standard input")
      ->required()
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  muster validate examples/*.yaml\n"
      "  helm template chart | muster validate -");
}

void add_completion(CLI::App& app, std::string& shell) {
  auto* command = app.add_subcommand("completion", "print a completion script for a shell");
  command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  command->footer(
      "Examples:\n"
      "  source <(muster completion bash)\n"
      "  muster completion fish > ~/.config/fish/completions/muster.fish");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Muster: distributed training, by one file that says what to train.", "muster");
  app.set_version_flag("--version", std::string("muster ") + MUSTER_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  muster run examples/penguins.yaml --workers 2\n"
      "  muster validate job.yaml\n"
      "  muster run --help");
  cli::RunOptions run_options;
  cli::ValidateOptions validate_options;
  std::string shell;
  add_run(app, run_options);
  add_validate(app, validate_options);
  add_completion(app, shell);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? exit_finished : exit_invalid_job;
  }
  if (app.got_subcommand("run")) {
    run_options.command_line = quoted_command_line(argc, argv);
    return cli::run(run_options);
  }
  if (app.got_subcommand("validate")) return cli::validate(validate_options);
  std::printf("%s", cli::completion_script(app, shell).c_str());
  return exit_finished;
}
