// A lane for each rank: it lays down chunks of bytes there, and all others read them.

#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "nameless.h"
#include "waits.h"

constexpr size_t CHUNK = 512 * 1024;  // bytes: small enough to be still in a cache when it is read
constexpr uint32_t SLOTS = 2;         // for chunks, used in turns

// What a rank is doing. All ranks must do the same, so each chunk carries this, and is compared.
struct Call {
  uint64_t number;
  uint64_t bytes;
  char kind[48];

  bool operator==(const Call&) const = default;

  std::string text() const {
    return "call " + std::to_string(number) + ", " + kind + ", " + std::to_string(bytes) + " bytes";
  }
};

struct alignas(128) Slot {
  Call call;
  alignas(128) char bytes[CHUNK];
};

class Lanes {
  int rank;
  int ranks;
  bool hasty;  // a mistake, on purpose: the counter rises before the bytes are there
  Patience patience;
  Counter* counters;  // for each lane: how many chunks were laid, and how many each rank has read
  Slot* slots;
  uint32_t laid = 0;           // by this rank, on its own lane
  std::vector<uint32_t> seen;  // how many chunks of each lane this rank is done with

  Counter& written(int lane) {
    return counters[lane * (1 + ranks)];
  }

  Counter& read(int lane, int reader) {
    return counters[lane * (1 + ranks) + 1 + reader];
  }

  Slot& slot(int lane, uint32_t chunk) {
    return slots[lane * SLOTS + chunk % SLOTS];
  }

 public:
  Lanes(char* memory, int rank, int ranks, Patience patience, bool hasty)
      : rank(rank), ranks(ranks), hasty(hasty), patience(patience), seen(ranks) {
    counters = reinterpret_cast<Counter*>(memory);
    slots = reinterpret_cast<Slot*>(counters + ranks * (1 + ranks));
  }

  static size_t bytes(int ranks) {
    return ranks * ((1 + ranks) * sizeof(Counter) + SLOTS * sizeof(Slot));
  }

  // Put a chunk on the own lane, when all others are done with what was in its slot.
  void lay(const Call& call, const char* bytes, size_t count, Clock::time_point deadline) {
    for (int reader = 0; reader < ranks; reader++) {
      if (reader != rank) {
        read(rank, reader).reach(laid + 1 - SLOTS, patience, deadline);
      }
    }
    Slot& free = slot(rank, laid);
    free.call = call;
    if (hasty) {
      written(rank).raise();
      usleep(rank == 0 ? 0 : 1000);  // as if another process had got this core now
    }
    std::memcpy(free.bytes, bytes, count);
    if (!hasty) {
      written(rank).raise();
    }
    laid++;
  }

  // The next chunk of a lane, when it is there.
  const char* look(const Call& call, int lane, Clock::time_point deadline) {
    written(lane).reach(seen[lane] + 1, patience, deadline);
    Slot& full = slot(lane, seen[lane]);
    if (full.call != call) {
      auto other = "rank " + std::to_string(lane) + " makes " + full.call.text();
      throw std::runtime_error(other + "; this rank makes " + call.text());
    }
    return full.bytes;
  }

  void done(int lane) {
    seen[lane]++;
    if (lane != rank) {
      read(lane, rank).raise();
    }
  }

  // region share
  // Every rank lays down its bytes; `take(chunks, at, count)` gets the chunks of all ranks, in rank
  // order, with their place in the whole. A rank is one chunk ahead, so nobody needs to keep step.
  template <typename Take>
  void share(const Call& call, const char* mine, Clock::time_point deadline, Take take) {
    auto length = [&](size_t at) { return std::min<size_t>(CHUNK, call.bytes - at); };
    std::vector<const char*> chunks(ranks);
    lay(call, mine, length(0), deadline);
    for (size_t at = 0; at == 0 || at < call.bytes; at += CHUNK) {
      if (at + CHUNK < call.bytes) {
        lay(call, mine + at + CHUNK, length(at + CHUNK), deadline);
      }
      for (int lane = 0; lane < ranks; lane++) {
        chunks[lane] = look(call, lane, deadline);
      }
      take(chunks.data(), at, length(at));
      for (int lane = 0; lane < ranks; lane++) {
        done(lane);
      }
    }
  }
  // endregion

  // The root's bytes, for everybody.
  void pass(const Call& call, int root, char* bytes, Clock::time_point deadline) {
    for (size_t at = 0; at == 0 || at < call.bytes; at += CHUNK) {
      size_t count = std::min<size_t>(CHUNK, call.bytes - at);
      if (rank == root) {
        lay(call, bytes + at, count, deadline);
      } else {
        std::memcpy(bytes + at, look(call, root, deadline), count);
      }
      done(root);
    }
  }
};
