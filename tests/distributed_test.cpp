// `geores train` in several processes: the same run for any number of them, and one line when one of
// them is lost.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "geores/base/file.h"
#include "geores/base/formats/safetensors.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

constexpr const char* kSmall =
    "--task copy --train-sequences 40 --validation-sequences 14 --model additive --layers 2 "
    "--width 16 --heads 2 --batch 12 --warmup 10 --lr 3e-3 --eval-interval 20 --eval-batches 3 "
    "--final-eval-batches 4 --log-interval 5 --checkpoint-interval 10";
constexpr const char* kEndless = "--steps 1000000";

// Half a socket: a port that is free, or taken as long as this lives.
class Port {
 public:
  Port() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    socklen_t length = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    char text[NI_MAXSERV];
    getnameinfo(reinterpret_cast<sockaddr*>(&address), length, nullptr, 0, text, sizeof text,
                NI_NUMERICSERV);
    number_ = text;
  }
  ~Port() { free(); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const std::string& number() const { return number_; }
  void listen() { ::listen(socket_, 1); }
  void free() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  std::string number_;
};

// A program with its output in a file.
class Started {
 public:
  Started(const std::string& command, const fs::path& output, const Variables& variables = {})
      : output_(output), child_(fork()) {
    if (child_ != 0) return;
    const auto file = open(output.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, 1);
    dup2(file, 2);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    _exit(127);
  }
  ~Started() {
    if (child_ > 0) send(SIGKILL), wait();
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  pid_t id() const { return child_; }
  void send(int signal) const { kill(child_, signal); }

  // The exit code, −signal if it was killed; fails after the limit.
  int wait(std::chrono::seconds limit = 120s) {
    int status = 0;
    const auto end = Clock::now() + limit;
    while (waitpid(child_, &status, WNOHANG) == 0) {
      if (Clock::now() > end) {
        ADD_FAILURE() << "still there after " << limit.count() << " s: " << output();
        kill(child_, SIGKILL);
        waitpid(child_, &status, 0);
        break;
      }
      std::this_thread::sleep_for(5ms);
    }
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string output() const { return read_text_file(output_); }

  // Its output without progress.
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream text(output());
    for (std::string line; std::getline(text, line);)
      if (line.find(" loss ") == line.npos && !line.empty()) all.push_back(line);
    return all;
  }

 private:
  fs::path output_;
  pid_t child_;
};

class Distributed : public testing::Test {
 protected:
  std::string folder(const std::string& name) const { return (root_ / name).string(); }

  std::string train(const std::string& flags, const std::string& out) const {
    return fmt::format("{} train {} {} --out {}", GEORES_PROGRAM, kSmall, flags, folder(out));
  }

  int run(const std::string& command) {
    Started started(command, root_ / "output");
    const auto code = started.wait();
    said_ = started.lines();
    return code;
  }

  // A rank of two, by torchrun's variables.
  Variables rank(int number, int size = 2) const {
    return {{"RANK", std::to_string(number)},
            {"WORLD_SIZE", std::to_string(size)},
            {"LOCAL_RANK", std::to_string(number)},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", port_.number()}};
  }

  void wait_for(const std::function<bool()>& condition, const char* what) const {
    const auto end = Clock::now() + 120s;
    while (!condition() && Clock::now() < end) std::this_thread::sleep_for(5ms);
    ASSERT_TRUE(condition()) << what;
  }

  void wait_for_checkpoint(const std::string& out) const {
    wait_for([&] { return fs::exists(root_ / out / "checkpoint.safetensors"); }, "a checkpoint");
  }

  std::vector<std::byte> checkpoint(const std::string& name) const {
    return read_file(root_ / name / "checkpoint.safetensors");
  }

  // Largest difference of all values of two checkpoints' models.
  double distance(const std::string& a, const std::string& b) const {
    const auto one = Safetensors::load(root_ / a / "checkpoint.safetensors"),
               two = Safetensors::load(root_ / b / "checkpoint.safetensors");
    double most = 0;
    for (const auto& name : one.names()) {
      if (!name.starts_with("model/")) continue;
      const auto x = one.at(name).bytes, y = two.at(name).bytes;
      EXPECT_EQ(x.size(), y.size());
      for (size_t i = 0; i + 4 <= x.size(); i += 4) {
        float p, q;
        std::memcpy(&p, x.data() + i, 4);
        std::memcpy(&q, y.data() + i, 4);
        most = std::max<double>(most, std::abs(p - q));
      }
    }
    return most;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
  Port port_;
  std::vector<std::string> said_;
};

TEST_F(Distributed, ARunIsTheSameForAnyNumberOfProcessesAndRepeatsBitForBit) {
  ASSERT_EQ(run(train("--steps 30", "one")), 0);
  for (const auto* name : {"two", "again"}) {
    ASSERT_EQ(run(train("--steps 30 --processes 2", name)), 0);
    EXPECT_EQ(said_.size(), 2u) << "only rank 0 speaks";
  }
  EXPECT_LT(distance("one", "two"), 1e-6);
  EXPECT_GT(distance("one", "two"), 0) << "their sums are rounded differently";
  EXPECT_EQ(checkpoint("two"), checkpoint("again"));
  const auto result = [&](const char* name) {
    return nlohmann::json::parse(read_text_file(root_ / name / "result.json"));
  };
  EXPECT_NEAR(result("one")["exact_validation"].get<double>(),
              result("two")["exact_validation"].get<double>(), 1e-6);
  EXPECT_EQ(run(train("--steps 30 --processes 5", "five")), 1);
  EXPECT_EQ(said_, std::vector<std::string>{
                       "geores: [train] batch 12 is not divisible by 5 processes × accumulate 1"});
}

TEST_F(Distributed, PuzzlesRefuseABatchThatTheyCannotShareBeforeTheyConnect) {
  ASSERT_EQ(run(fmt::format("{} data sudoku --size 4 --rounds 0 --train 8 --test 4 --out {}",
                            GEORES_PROGRAM, folder("sudoku"))),
            0);
  EXPECT_EQ(run(fmt::format("{} train --task puzzles --data {} --width 8 --heads 2 --batch 12 "
                            "--steps 2 --processes 5 --out {}",
                            GEORES_PROGRAM, folder("sudoku"), folder("run"))),
            1);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_[0],
            "geores: [train] batch 12 is not divisible by 5 processes × rows of micro_batch 1");
  EXPECT_FALSE(fs::exists(folder("run")));
}

// Stopped by a signal to one process, which notifies the others; continued by other numbers of processes.
TEST_F(Distributed, ResumesOnAnotherNumberOfProcesses) {
  const std::string flags = "--steps 60";
  ASSERT_EQ(run(train(flags, "whole")), 0);
  const auto stop_after_checkpoint = [&](const std::string& command) {
    Started started(command, root_ / "output");
    const auto before = fs::exists(root_ / "parts/checkpoint.safetensors")
                            ? fs::last_write_time(root_ / "parts/checkpoint.safetensors")
                            : fs::file_time_type();
    wait_for(
        [&] {
          return fs::exists(root_ / "parts/checkpoint.safetensors") &&
                 fs::last_write_time(root_ / "parts/checkpoint.safetensors") != before;
        },
        "a checkpoint");
    started.send(SIGTERM);
    return started.wait();
  };
  EXPECT_EQ(stop_after_checkpoint(train(flags + " --processes 2", "parts")), 143);
  const auto resume = fmt::format("{} train --resume {}", GEORES_PROGRAM, folder("parts"));
  const auto second = stop_after_checkpoint(resume);
  EXPECT_TRUE(second == 143 || second == 0) << second;
  ASSERT_EQ(run(resume + " --processes 3"), 0);
  EXPECT_LT(distance("whole", "parts"), 2e-6);
}

TEST_F(Distributed, AKilledRankEndsTheOtherWithOneLineAndCode4) {
  for (const int victim : {0, 1}) {
    const auto out = fmt::format("run{}", victim);
    port_.free();
    const auto command = train(kEndless, out);
    Started first(command, root_ / "first", rank(0)), second(command, root_ / "second", rank(1));
    wait_for_checkpoint(out);
    auto& killed = victim == 0 ? first : second;
    auto& other = victim == 0 ? second : first;
    const auto begin = Clock::now();
    killed.send(SIGKILL);
    EXPECT_EQ(killed.wait(), -SIGKILL);
    EXPECT_EQ(other.wait(10s), 4);
    EXPECT_LT(Clock::now() - begin, 10s);
    ASSERT_EQ(other.lines().size(), 1u) << other.output();
    EXPECT_TRUE(other.lines()[0].starts_with(
        fmt::format("geores: [train] rank {} of 2 has lost another process: ", 1 - victim)))
        << other.output();
  }
}

TEST_F(Distributed, ProcessesOfOneMachineEndTogether) {
  const auto children_of = [](pid_t parent) {
    std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", parent));
    std::vector<pid_t> all;
    for (pid_t child; file >> child;) all.push_back(child);
    return all;
  };
  const auto is_gone = [](pid_t process) {
    std::ifstream file(fmt::format("/proc/{}/stat", process));
    std::string number, name, state;
    file >> number >> name >> state;
    return !file || state == "Z";
  };
  {
    Started started(train(fmt::format("{} --processes 3", kEndless), "child"), root_ / "output");
    wait_for_checkpoint("child");
    const auto children = children_of(started.id());
    ASSERT_EQ(children.size(), 2u);
    kill(children[1], SIGKILL);
    EXPECT_EQ(started.wait(10s), 4);
    EXPECT_EQ(started.lines(),
              std::vector<std::string>{"geores: rank 2 was ended by signal 9 (Killed)"});
    EXPECT_TRUE(is_gone(children[0]));
  }
  {
    Started started(train(fmt::format("{} --processes 2", kEndless), "parent"), root_ / "output");
    wait_for_checkpoint("parent");
    const auto children = children_of(started.id());
    ASSERT_EQ(children.size(), 1u);
    started.send(SIGKILL);
    EXPECT_EQ(started.wait(), -SIGKILL);
    wait_for([&] { return is_gone(children[0]); }, "the end of the child");
    const auto lines = started.lines();
    ASSERT_EQ(lines.size(), 1u) << started.output();
    EXPECT_TRUE(lines[0].starts_with("geores: rank 0 has ended: ")) << lines[0];
  }
}

TEST_F(Distributed, ARankThatHangsOrNeverComesIsOneLine) {
  const auto flags = fmt::format("{} --distributed-timeout 1.5", kEndless);
  port_.free();
  {
    Started alone(train(flags, "alone"), root_ / "output", rank(0));
    EXPECT_EQ(alone.wait(), 4);
    EXPECT_EQ(alone.lines(), std::vector<std::string>{"geores: [train] of 2 processes, rank 1 did "
                                                      "not come within 1.5 s"});
  }
  {
    Started alone(train(flags, "alone"), root_ / "output", rank(1));
    EXPECT_EQ(alone.wait(), 4);
    ASSERT_EQ(alone.lines().size(), 1u) << alone.output();
    EXPECT_TRUE(alone.lines()[0].starts_with(fmt::format(
        "geores: [train] rank 1 cannot reach rank 0 at 127.0.0.1:{}: ", port_.number())))
        << alone.output();
  }
  // Longer than two programs need to load concurrently on a busy machine: this one has to begin.
  const auto command = train(fmt::format("{} --distributed-timeout 8", kEndless), "hung");
  Started first(command, root_ / "first", rank(0)), second(command, root_ / "second", rank(1));
  wait_for_checkpoint("hung");
  second.send(SIGSTOP);
  EXPECT_EQ(first.wait(30s), 4);
  ASSERT_EQ(first.lines().size(), 1u) << first.output();
  EXPECT_NE(first.lines()[0].find("rank 0 of 2 has lost another process: "), std::string::npos);
  EXPECT_NE(first.lines()[0].find("imed out"), std::string::npos) << first.output();
}

TEST_F(Distributed, RefusesInOneLine) {
  const auto alone = [&](const Variables& variables, const std::string& flags = "") {
    Started started(train(flags + " --steps 5 --distributed-timeout 2", "refused"),
                    root_ / "output", variables);
    EXPECT_EQ(started.wait(), 1);
    EXPECT_EQ(started.lines().size(), 1u) << started.output();
    return started.lines().empty() ? "" : started.lines()[0];
  };
  port_.listen();
  EXPECT_TRUE(alone(rank(0)).starts_with(
      fmt::format("geores: [train] rank 0 cannot listen on 127.0.0.1:{}: ", port_.number())));
  auto some = rank(0);
  some.erase("WORLD_SIZE");
  EXPECT_TRUE(alone(some).starts_with("geores: [train] WORLD_SIZE is not set"));
  EXPECT_EQ(
      alone(rank(1), "--processes 2"),
      "geores: [train] --processes 2 starts processes of its own, but this one is rank 1 of 2 "
      "already");
}

TEST_F(Distributed, RefusesProcessesThatWereNotStartedAlike) {
  port_.free();
  Started first(train("--steps 5", "a"), root_ / "first", rank(0)),
      second(train("--steps 5 --mlp swiglu", "b"), root_ / "second", rank(1));
  for (auto* started : {&first, &second}) {
    EXPECT_EQ(started->wait(), 1);
    EXPECT_EQ(started->lines(),
              std::vector<std::string>{"geores: [train] the processes were not started alike: rank "
                                       "0 has 'mlp' \"gelu\", rank 1 has \"swiglu\""});
  }
  EXPECT_FALSE(fs::exists(root_ / "a" / "config.json"));
}

TEST_F(Distributed, IsStartedByTorchrun) {
  // With Python 3.11 that of LibTorch 1.13 starts nothing.
  if (run("python3 -m torch.distributed.run --nproc_per_node 1 --no_python true") != 0)
    GTEST_SKIP() << "there is no torchrun that works";
  ASSERT_EQ(run(train("--steps 30", "one")), 0);
  port_.free();
  ASSERT_EQ(run(fmt::format("python3 -m torch.distributed.run --nproc_per_node 2 --master_port {} "
                            "--no_python {}",
                            port_.number(), train("--steps 30", "two"))),
            0)
      << Started("cat " + (root_ / "output").string(), root_ / "shown").wait();
  EXPECT_LT(distance("one", "two"), 1e-6);
}

}  // namespace
}  // namespace geores
