#include "geores/train/communication/run_group.h"

#include <fcntl.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "geores/base/error.h"
#include "geores/train/communication/group_store.h"

namespace geores {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// LibTorch logs every failed attempt to bind or connect, and throws at the end; the exception is
// sufficient. This object silences stderr while it lives: the store is created before other threads
// start.
class QuietStderr {
 public:
  QuietStderr() : kept_(::dup(STDERR_FILENO)) {
    const auto nowhere = ::open("/dev/null", O_WRONLY);
    if (kept_ >= 0 && nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
    if (nowhere >= 0) ::close(nowhere);
  }
  ~QuietStderr() {
    if (kept_ < 0) return;
    ::dup2(kept_, STDERR_FILENO);
    ::close(kept_);
  }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  int kept_;
};

c10::intrusive_ptr<c10d::Store> tcp_store(const GroupMember& member,
                                          const std::chrono::milliseconds& timeout) {
  c10d::TCPStoreOptions options;
  options.port = member.port;
  options.isServer = member.rank == 0 && !member.agents_store;
  options.numWorkers = static_cast<std::size_t>(member.size);
  options.waitWorkers = false;
  options.timeout = timeout;
  const auto where = fmt::format("{}:{}", member.address, member.port);
  try {
    const QuietStderr quiet;
    auto store = c10::make_intrusive<c10d::TCPStore>(member.address, options);
    // torch.distributed's prefix: torchrun's store serves other purposes too.
    if (member.agents_store)
      return c10::make_intrusive<c10d::PrefixStore>("/worker/attempt_" + member.attempt, store);
    return store;
  } catch (const std::exception& error) {
    const auto reason = reason_in(error);
    if (options.isServer) fail("train", "rank 0 cannot listen on {}: {}", where, reason);
    throw LostProcess(
        fmt::format("[train] rank {} cannot reach rank 0 at {}: {}", member.rank, where, reason));
  }
}

// Announces this process and waits for the others.
void meet(RunGroup::Store& group) {
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < group.size; ++rank) keys.push_back("here/" + std::to_string(rank));
  group.set(keys[static_cast<size_t>(group.rank)], "1");
  try {
    group.store->wait(keys, group.timeout);
  } catch (const std::exception& error) {
    std::string missing;
    for (int64_t rank = 0; rank < group.size; ++rank) try {
        if (!group.store->check({keys[static_cast<size_t>(rank)]}))
          missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
      } catch (const std::exception&) {
        break;  // rank 0, which serves the store, has ended
      }
    throw LostProcess(missing.empty()
                          ? fmt::format("[train] the processes did not meet: {}", reason_in(error))
                          : fmt::format("[train] of {} processes, rank {} did not come within {} s",
                                        group.size, missing,
                                        static_cast<double>(group.timeout.count()) / 1000));
  }
}

}  // namespace

std::string reason_in(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  std::string text = known != nullptr ? known->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  // Gloo's messages begin with "[../gloo/transport/tcp/pair.cc:598] ".
  if (const auto end = text.find("] ");
      text.starts_with('[') && end != text.npos && text.find(".cc:") < end)
    text = text.substr(end + 2);
  return printable(text, 300);
}

void RunGroup::Store::set(const std::string& key, const std::string& text) {
  try {
    store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  } catch (const std::exception& error) {
    throw LostProcess(fmt::format("[train] rank {} of {} has lost the store of the group: {}", rank,
                                  size, reason_in(error)));
  }
}

std::string RunGroup::Store::get(const std::string& key) {
  try {
    const auto bytes = store->get(key);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& error) {
    throw LostProcess(fmt::format("[train] rank {} of {} waits in vain for the others: {}", rank,
                                  size, reason_in(error)));
  }
}

void require_same_facts(RunGroup::Store& store, const std::string& key,
                        const nlohmann::json& facts) {
  const auto verdict =
      store.judged(key, facts.dump(), [](const std::vector<std::string>& all) -> std::string {
        const auto first = nlohmann::json::parse(all.front());
        for (size_t rank = 1; rank < all.size(); ++rank) {
          if (all[rank] == all.front()) continue;
          const auto other = nlohmann::json::parse(all[rank]);
          for (const auto* object : {&first, &other})
            for (const auto& [name, unused] : object->items()) {
              const auto mine = first.value(name, nlohmann::json()),
                         theirs = other.value(name, nlohmann::json());
              if (mine != theirs)
                return fmt::format("rank 0 has '{}' {}, rank {} has {}", name, mine.dump(), rank,
                                   theirs.dump());
            }
        }
        return "";
      });
  require(verdict.empty(), "train", "the processes were not started alike: {}", verdict);
}

RunGroup::RunGroup(const GroupMember& member, double timeout)
    : member_(member), store_(std::make_unique<Store>()) {
  store_->timeout = milliseconds(timeout);
  store_->rank = member.rank;
  store_->size = member.size;
  if (member.folder.empty())
    store_->store = tcp_store(member, store_->timeout);
  else
    store_->store = c10::make_intrusive<c10d::FileStore>(member.folder + "/store",
                                                         static_cast<int>(member.size));
  store_->store->setTimeout(store_->timeout);
  meet(*store_);
}

RunGroup::~RunGroup() = default;

std::string RunGroup::text_of_first(const std::string& text) {
  const auto key = fmt::format("text/{}", texts_++);
  if (is_first()) store_->set(key, text);
  return store_->get(key);
}

std::unique_ptr<Communicator> RunGroup::communicator(const std::string& device) {
  return device == "cuda" ? nccl_communicator(*store_, member_)
                          : gloo_communicator(*store_, member_);
}

}  // namespace geores
