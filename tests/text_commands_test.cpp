// What the commands for text owe to those who use them: pipes that close, signals, prompts, files that
// are in the way, folders that are not what a run was trained on.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/text_program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A process of the program, connected to this one by pipes.
class Conversation {
 public:
  Conversation(const std::string& arguments, const fs::path& folder) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
    child_ = start_program(arguments, {.folder = folder, .output = out[1], .before = [&] {
                                         dup2(in[0], STDIN_FILENO);
                                         for (const auto end : {in[1], out[0], out[1]}) close(end);
                                       }});
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Conversation() {
    hang_up();
    close(to_);
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void say(const std::string& text) const {
    EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string hear(size_t bytes) const {
    std::string text;
    char next;
    while (text.size() < bytes && read(from_, &next, 1) == 1) text += next;
    return text;
  }
  std::string hear_line() const {
    std::string text;
    for (char next; read(from_, &next, 1) == 1 && next != '\n';) text += next;
    return text;
  }
  void hang_up() {
    if (from_ >= 0) close(from_);
    from_ = -1;
  }
  void send(int number) const { kill(child_, number); }

  // The exit code; a process that does not end by itself is killed.
  int end() const {
    int status = 0;
    bool ended = false;
    wait_until([&] { return (ended = waitpid(child_, &status, WNOHANG) == child_); });
    if (!ended) {
      kill(child_, SIGKILL);
      waitpid(child_, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

class TextCommands : public TextProgram {
 protected:
  static std::string lines() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("line {} of it\n", i * i % 97);
    return text;
  }
};

TEST_F(TextCommands, DataReplacesNothingUnasked) {
  write("a.txt", lines());
  for (const auto* name :
       {"train.bin", "val.bin", "test.bin", "tokenizer.json", "tokenizer.model"}) {
    fs::create_directory(temporary_.path() / "nano");
    write(fmt::format("nano/{}", name), "ab");
    refuse("data text --input a.txt --out nano",
           fmt::format("[nano] holds {} already; --overwrite replaces prepared text", name));
    EXPECT_EQ(read_text_file(temporary_.path() / "nano" / name), "ab");
    remove_folder(temporary_.path() / "nano");
  }
  fs::create_directories(temporary_.path() / "nano/unfinished");
  write("nano/unfinished/mine", "ab");
  succeed("data text --input a.txt --out nano");
  EXPECT_TRUE(fs::exists(temporary_.path() / "nano/unfinished/mine"));
}

}  // namespace
}  // namespace geores
