// Memory that several processes share, and that has no name: nobody can guess it, nothing of it is
// in /dev/shm, and it is gone with the last process that holds it.

#pragma once

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

inline void demand(bool truth, const std::string& otherwise) {
  if (!truth) {
    throw std::runtime_error(otherwise);
  }
}

// A new one each time that a machine starts, and another one on every machine.
inline std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

// Where a process finds the memory: the machine, another process and its file, and a secret that
// the memory begins with.
struct Address {
  std::string boot;
  int process = 0;
  int file = -1;
  std::string secret;

  std::string text() const {
    std::ostringstream out;
    out << boot << " " << process << " " << file << " " << secret;
    return out.str();
  }

  static Address read(const std::string& text) {
    Address address;
    std::istringstream in(text);
    in >> address.boot >> address.process >> address.file >> address.secret;
    demand(!in.fail(), "this is no address of shared memory: " + text);
    return address;
  }
};

constexpr size_t SECRET = 32;  // characters
constexpr size_t FRONT = 128;  // bytes for the secret, ahead of what is shared

class Memory {
  int file = -1;
  char* start = nullptr;
  size_t bytes;

  // Holds nothing yet. The two below build on it, so whatever they hold when they fail is given back.
  struct Nothing {};
  Memory(size_t wanted, Nothing) : bytes(FRONT + wanted) {}

  void map() {
    int rights = PROT_READ | PROT_WRITE;
    void* place = mmap(nullptr, bytes, rights, MAP_SHARED | MAP_POPULATE, file, 0);
    demand(place != MAP_FAILED, "the shared memory cannot be mapped");
    start = static_cast<char*>(place);
  }

 public:
  Address address;

  // New memory of so many bytes.
  explicit Memory(size_t wanted) : Memory(wanted, Nothing()) {
    file = memfd_create("nearby", MFD_CLOEXEC);
    demand(file >= 0, "this system makes no memory without a name");
    demand(posix_fallocate(file, 0, bytes) == 0, "there is no room for the shared memory");
    map();
    unsigned char dice[SECRET / 2];
    demand(getrandom(dice, sizeof dice, 0) == sizeof dice, "no random numbers");
    char secret[SECRET + 1];
    for (size_t i = 0; i < sizeof dice; i++) {
      snprintf(secret + 2 * i, 3, "%02x", dice[i]);
    }
    std::memcpy(start, secret, SECRET);
    address = {boot_id(), getpid(), file, secret};
  }

  // Memory that another process has made. What it says is checked before anything is believed.
  Memory(size_t wanted, const std::string& text) : Memory(wanted, Nothing()) {
    address = Address::read(text);
    demand(address.boot == boot_id(), "the ranks are on several machines, and share no memory");
    auto process = std::to_string(address.process);
    auto path = "/proc/" + process + "/fd/" + std::to_string(address.file);
    int never_wait = O_NONBLOCK | O_NOCTTY;  // whatever that file may be by now
    file = open(path.c_str(), O_RDWR | O_CLOEXEC | never_wait);
    demand(file >= 0, "this process may not open the shared memory of process " + process);
    struct stat found;
    demand(fstat(file, &found) == 0, "nothing can be learnt about the shared memory");
    demand(found.st_uid == geteuid(), "the shared memory belongs to another user");
    demand(size_t(found.st_size) == bytes, "the shared memory has another size than expected");
    map();
    bool same = address.secret == std::string(start, SECRET);
    demand(same, "this is not the memory that the other rank has made");
  }

  Memory(const Memory&) = delete;

  ~Memory() {
    if (start) {
      munmap(start, bytes);
    }
    close_file();
  }

  char* front() const {
    return start + FRONT;
  }

  // All have it: from now on nobody else can come in.
  void close_file() {
    if (file >= 0) {
      close(file);
    }
    file = -1;
  }
};
