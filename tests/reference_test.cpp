// docs/reference and the pages of connections equal the program's output. scripts/reference writes them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/program.h"

namespace geores {
namespace {

constexpr const char* kRemedy = "scripts/reference writes the page anew";

std::string source_file(const std::string& name) {
  std::ifstream in(std::string(GEORES_SOURCE_DIR "/") + name);
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string page(const std::string& name) { return source_file("docs/" + name); }

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const auto begin = text.find_first_not_of('\n');
  return begin == text.npos ? "" : text.substr(begin);
}

// The first block in fences behind each heading that begins with "geores": heading -> text.
std::map<std::string, std::string> blocks_by_command(const std::string& text) {
  std::map<std::string, std::string> blocks;
  std::istringstream lines(text);
  std::string line, command;
  while (std::getline(lines, line)) {
    const auto words = line.find("geores ");
    if (line.starts_with("##") && words != line.npos) command = line.substr(words + 7);
    if (line != "```" || command.empty()) continue;
    auto& block = blocks[command];
    while (std::getline(lines, line) && line != "```") block += line + '\n';
    command.clear();
  }
  return blocks;
}

// The names below "Subcommands:" in a help text.
std::vector<std::string> subcommands(const std::string& help) {
  std::vector<std::string> names;
  const auto begin = help.find("\nSubcommands:\n");
  if (begin == help.npos) return names;
  std::istringstream lines(help.substr(begin + 1));
  std::string line;
  while (std::getline(lines, line))
    if (line.size() > 2 && line.starts_with("  ") && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

TEST(Reference, CommandLineIsTheHelpOfEveryCommand) {
  auto blocks = blocks_by_command(page("reference/command_line.md"));
  auto commands = subcommands(run_program("--help").output);
  ASSERT_GE(commands.size(), 15u);
  for (size_t i = 0; i < commands.size(); ++i) {
    const auto help = run_program(commands[i] + " --help");
    ASSERT_EQ(help.exit_code, 0) << commands[i];
    EXPECT_EQ(trimmed(blocks[commands[i]]), trimmed(help.output)) << kRemedy;
    for (const auto& inner : subcommands(help.output))
      commands.push_back(commands[i] + ' ' + inner);
  }
  EXPECT_EQ(blocks.size(), commands.size()) << "a block of a command that is gone; " << kRemedy;
}

// A row of a table of options begins so; its text follows.
void expect_options(const nlohmann::json& options, const std::string& text, const std::string& of) {
  for (const auto& option : options) {
    const auto fallback = option["default"].get<std::string>();
    const auto row = fmt::format("| `{}` | {} | ", option["key"].get<std::string>(),
                                 fallback.empty() ? "" : '`' + fallback + '`');
    const auto at = text.find(row);
    ASSERT_NE(at, text.npos) << of << ": " << row << "; " << kRemedy;
    const auto line = text.substr(at, text.find('\n', at) - at);
    // The page begins the help with a capital.
    const auto help =
        std::regex_replace(option["help"].get<std::string>(), std::regex("<"), "&lt;");
    EXPECT_NE(line.find(help.substr(1)), line.npos) << of << ": " << line << "; " << kRemedy;
    for (const auto& choice : option["choices"])
      EXPECT_NE(line.find('`' + choice.get<std::string>() + '`'), line.npos) << of << ": " << line;
  }
}

// From a heading to the next one of its level.
std::string part(const std::string& text, const std::string& heading) {
  const auto begin = text.find(heading + '\n');
  EXPECT_NE(begin, text.npos) << heading;
  const auto level = heading.substr(0, heading.find(' ') + 1);
  return begin == text.npos ? "" : text.substr(begin, text.find('\n' + level, begin) - begin);
}

TEST(Reference, PagesOfConnectionsHaveTheirOptions) {
  const auto known = nlohmann::json::parse(run_program("list --json").output);
  ASSERT_FALSE(known["connections"].empty());
  for (const auto& connection : known["connections"]) {
    const auto name = connection["name"].get<std::string>();
    const auto options = part(page("understand/connections/" + name + ".md"), "## Options");
    expect_options(connection["options"], options, name);
    EXPECT_NE(options.find("layout " + connection["layout"].get<std::string>()), options.npos)
        << name;
    const auto rows = std::count(options.begin(), options.end(), '|');
    EXPECT_LE(connection["options"].size() * 4, static_cast<size_t>(rows)) << name;
  }
}

TEST(Reference, ConfigurationHasTheOptionsOfModelsAndTasks) {
  const auto text = page("reference/configuration.md");
  const auto known = nlohmann::json::parse(run_program("list --json").output);
  for (const auto* kinds : {"models", "tasks"})
    for (const auto& kind : known[kinds]) {
      const auto name = kind["name"].get<std::string>();
      expect_options(kind["options"], part(text, "### " + name), name);
    }
}

// Blocks of "$ geores ARGUMENTS", what it prints, and "(exit code N)".
TEST(Reference, ErrorsAreWhatTheProgramPrints) {
  const auto text = page("reference/errors.md");
  const std::regex shown(R"(\$ geores ([^\n]*)\n([^\n]*)\n\(exit code (\d+)\))");
  int count = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), shown);
       it != std::sregex_iterator(); ++it, ++count) {
    const auto result = run_program((*it)[1], {.folder = std::filesystem::temp_directory_path()});
    EXPECT_EQ(trimmed(result.output), (*it)[2].str()) << kRemedy;
    EXPECT_EQ(result.exit_code, std::stoi((*it)[3])) << (*it)[1];
  }
  EXPECT_GE(count, 5);
}

// The one source of the version is project(VERSION) of CMakeLists.txt, which the program prints.
TEST(Release, FilesNameTheVersionOfTheProgram) {
  const auto printed = trimmed(run_program("--version").output);
  ASSERT_TRUE(printed.starts_with("geores ")) << printed;
  const auto version = printed.substr(7);
  const auto first_in = [](const std::string& file, const std::string& pattern) {
    std::smatch found;
    const auto text = source_file(file);
    return std::regex_search(text, found, std::regex(pattern)) ? found[1].str() : "";
  };
  EXPECT_EQ(first_in("CHANGELOG.md", R"(\n## (\S+))"), version);
  EXPECT_EQ(first_in("CITATION.cff", R"(\nversion: (\S+))"), version);
}

}  // namespace
}  // namespace geores
