#include "cli/completion.h"

#include <vector>

namespace muster::cli {
namespace {

struct Command {
  std::string name;
  std::string description;
  std::vector<std::string> options;  // long ones, with the dashes
};

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    Command command{sub->get_name(), sub->get_description(), {}};
    for (const auto* option : sub->get_options()) {
      for (const auto& name : option->get_lnames()) command.options.push_back("--" + name);
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string bash_script(const std::vector<Command>& commands) {
  std::string names;
  std::string cases;
  for (const auto& command : commands) {
    names += command.name + " ";
    cases += "    " + command.name + ") words=\"" + joined(command.options) + "\" ;;\n";
  }
  return "_muster() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names +
         "--help --version\" -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"${COMP_WORDS[1]}\" in\n" +
         cases +
         "  esac\n"
         "  if [ \"${COMP_WORDS[1]}\" = completion ]; then\n"
         "    COMPREPLY=($(compgen -W \"bash zsh fish\" -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$current\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _muster muster\n";
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string script = "complete -c muster -n __fish_use_subcommand -f -l help -l version\n";
  for (const auto& command : commands) {
    script += "complete -c muster -n __fish_use_subcommand -f -a " + command.name + " -d '" +
              command.description + "'\n";
    for (const auto& option : command.options) {
      script += "complete -c muster -n '__fish_seen_subcommand_from " + command.name + "' -l " +
                option.substr(2) + "\n";
    }
  }
  return script +
         "complete -c muster -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const auto commands = commands_of(app);
  if (shell == "fish") return fish_script(commands);
  // zsh runs bash's function through its own emulation of bash completion.
  const auto bash = bash_script(commands);
  if (shell == "zsh") {
    return "#compdef muster\nautoload -Uz compinit bashcompinit && compinit -u && bashcompinit\n" +
           bash;
  }
  return bash;
}

}  // namespace muster::cli
