// For CPUs. Compiled to a refusal where Gloo's headers were not found (CMakeLists.txt).
#include "geores/train/communication/run_group.h"

#ifdef GEORES_GLOO

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO  // the header is empty without it
#endif

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "geores/train/communication/group_communicator.h"

namespace geores {
namespace {

using c10d::ProcessGroupGloo;

// The address by which another machine reaches this one; empty if it cannot be determined. No
// packet is sent.
std::string address_towards(const std::string& host, uint16_t port) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return "";
  std::string own;
  for (const auto* at = found; at != nullptr && own.empty(); at = at->ai_next) {
    const auto socket = ::socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (socket < 0) continue;
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    char text[NI_MAXHOST];
    auto* socket_address = reinterpret_cast<sockaddr*>(&address);
    if (connect(socket, at->ai_addr, at->ai_addrlen) == 0 &&
        getsockname(socket, socket_address, &length) == 0 &&
        getnameinfo(socket_address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      own = text;
    close(socket);
  }
  freeaddrinfo(found);
  return own;
}

// Debian resolves a machine's own name to 127.0.1.1, which no other machine can reach, so the name
// is not resolved.
std::shared_ptr<gloo::transport::Device> network_device(const GroupMember& member) {
  if (const auto* name = std::getenv("GLOO_SOCKET_IFNAME"); name != nullptr && *name != '\0')
    return ProcessGroupGloo::createDeviceForInterface(name);
  const auto own = member.folder.empty() ? address_towards(member.address, member.port)
                                         : std::string("127.0.0.1");
  return own.empty() ? ProcessGroupGloo::createDefaultDevice()
                     : ProcessGroupGloo::createDeviceForHostname(own);
}

class Gloo final : public GroupCommunicator<ProcessGroupGloo> {
  using GroupCommunicator::GroupCommunicator;
};

}  // namespace

std::unique_ptr<Communicator> gloo_communicator(RunGroup::Store& store, const GroupMember& member) {
  try {
    auto options = ProcessGroupGloo::Options::create(store.timeout);
    options->devices.push_back(network_device(member));
    options->threads = 1;  // collectives come one after another
    return std::make_unique<Gloo>(
        store, c10::make_intrusive<ProcessGroupGloo>(store.store, static_cast<int>(member.rank),
                                                     static_cast<int>(member.size), options));
  } catch (const std::exception& error) {
    throw LostProcess(fmt::format("[train] rank {} of {} cannot connect to the others: {}",
                                  member.rank, member.size, reason_in(error)));
  }
}

}  // namespace geores

#else

#include "geores/base/error.h"

namespace geores {

std::unique_ptr<Communicator> gloo_communicator(RunGroup::Store&, const GroupMember&) {
  fail(
      "train",
      "this program was built without Gloo (package libgloo-dev): it trains on CPUs in one process "
      "only");
}

}  // namespace geores

#endif
