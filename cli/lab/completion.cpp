// geores completion bash|zsh: a script for the shell, made from the commands and options there are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/lab/lab.h"

namespace geores::cli {
namespace {

// "geores data text" -> its commands and options.
using Words = std::map<std::string, std::vector<std::string>>;

void collect(const CLI::App& command, const std::string& name, Words& all) {
  auto& words = all[name];
  for (const auto* option : command.get_options())
    for (const auto& word : option->get_lnames()) words.push_back("--" + word);
  for (const auto* child : command.get_subcommands({})) {
    words.push_back(child->get_name());
    collect(*child, name + " " + child->get_name(), all);
  }
}

// Both shells know associative arrays. A word that is no command of its own is an option or its value.
constexpr const char* kBash = R"(declare -A _geores_words=(
{})
_geores() {{
  local command=geores word current=${{COMP_WORDS[COMP_CWORD]}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ -z ${{_geores_words["$command $word"]+there}} ]] || command+=" $word"
  done
  COMPREPLY=()
  # Values are files as often as not: those are offered where no option is begun.
  if [[ $current == -* || $command == geores || $command == "geores data" ]]; then
    COMPREPLY=($(compgen -W "${{_geores_words[$command]}}" -- "$current"))
  fi
}}
complete -o default -F _geores geores
)";

constexpr const char* kZsh = R"(#compdef geores
local -A known=(
{})
local command=geores word
for word in "${{(@)words[2,CURRENT-1]}}"; do
  (( ! ${{+known[$command $word]}} )) || command+=" $word"
done
if [[ $PREFIX == -* || $command == geores || $command == "geores data" ]]; then
  compadd -- ${{(s: :)known[$command]}}
else
  _files
fi
)";

std::string script_for(const std::string& shell, const CLI::App& app) {
  Words all;
  collect(app, "geores", all);
  std::string table;
  for (const auto& [command, words] : all)
    table += shell == "bash" ? fmt::format("  [\"{}\"]=\"{}\"\n", command, fmt::join(words, " "))
                             : fmt::format("  \"{}\" \"{}\"\n", command, fmt::join(words, " "));
  return fmt::format(fmt::runtime(shell == "bash" ? kBash : kZsh), table);
}

}  // namespace

void add_completion(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      kCompletion.name, std::string(kCompletion.about) +
                            "\nPackages bring it along.\n"
                            "Examples:\n"
                            "  source <(geores completion bash)\n"
                            "  geores completion zsh > ~/.zsh/_geores     (a folder of fpath)");
  command->add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([shell, &app, &exit_code] {
    fmt::print("{}", script_for(*shell, app));
    exit_code = 0;
  });
}

}  // namespace geores::cli
