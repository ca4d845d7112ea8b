// lanes.h, fold.h, nameless.h and waits.h without torch: forked ranks add, pass on and disagree;
// false addresses are refused; whoever waits in vain gives up.
//
// Usage: lanes_alone RANKS. Prints what went wrong, and exits with 1 then.

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/wait.h>

#include "fold.h"
#include "lanes.h"

using Numbers = std::vector<float>;

Numbers numbers(int rank, size_t count, int round) {
  Numbers made(count);
  for (size_t i = 0; i < count; i++) {
    made[i] = float((i * 7919 + rank * 104729 + round * 31) % 1000003) / 1000 - 300;
  }
  return made;
}

Numbers sum(int ranks, size_t count, int round) {
  Numbers total = numbers(0, count, round);
  for (int rank = 1; rank < ranks; rank++) {
    Numbers part = numbers(rank, count, round);
    for (size_t i = 0; i < count; i++) {
      total[i] += part[i];
    }
  }
  return total;
}

Call call_of(uint64_t number, size_t bytes) {
  return {number, bytes, "test"};
}

bool wrong(const char* what, int rank, size_t count) {
  std::printf("assert: %s on rank %d, %zu numbers\n", what, rank, count);
  std::fflush(stdout);
  return false;
}

bool play(Lanes& lanes, int rank, int ranks) {
  uint64_t call = 0;
  auto soon = [] { return Clock::now() + std::chrono::seconds(20); };
  for (size_t count : {1, 1000, 131072, 131073, 400000, 7}) {
    for (int round = 0; round < 3; round++) {
      Numbers mine = numbers(rank, count, round);
      char* bytes = reinterpret_cast<char*>(mine.data());
      lanes.share(call_of(++call, 4 * count), bytes, soon(), [&](auto* chunks, size_t at, size_t n) {
        auto* parts = reinterpret_cast<const float* const*>(chunks);
        fold(reinterpret_cast<float*>(bytes + at), parts, ranks, n / 4, Sum());
      });
      if (mine != sum(ranks, count, round)) {
        return wrong("the sum is not that in rank order", rank, count);
      }
      int root = round % ranks;
      Numbers sent = numbers(rank, count, round + 100);
      lanes.pass(call_of(++call, 4 * count), root, reinterpret_cast<char*>(sent.data()), soon());
      if (sent != numbers(root, count, round + 100)) {
        return wrong("not the root's numbers", rank, count);
      }
    }
  }
  try {  // rank 0 has one byte less than the others
    char few[2] = {1, 2};
    auto nothing = [](auto*, size_t, size_t) {};
    lanes.share(call_of(++call, rank == 0 ? 1 : 2), few, soon(), nothing);
  } catch (const std::runtime_error& error) {
    bool named = std::string(error.what()).find(" makes call ") != std::string::npos;
    return named || wrong(error.what(), rank, 2);
  }
  return ranks == 1 || wrong("nobody noticed another size", rank, 2);
}

// Memory is opened under its true address alone, and with the size that was agreed on.
bool refuses_strangers() {
  const size_t bytes = 4096;
  Memory true_one(bytes);
  Memory another(bytes);
  Address moved = true_one.address;
  moved.file = another.address.file;
  Address abroad = true_one.address;
  abroad.boot[0] = abroad.boot[0] == '0' ? '1' : '0';
  Memory(bytes, true_one.address.text());
  auto refused = [](size_t wanted, const std::string& address, const char* because) {
    try {
      Memory(wanted, address);
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).find(because) != std::string::npos;
    }
    return false;
  };
  return refused(bytes, moved.text(), "not the memory") &&
         refused(bytes, abroad.text(), "several machines") &&
         refused(bytes + 1, true_one.address.text(), "another size");
}

// In each of the three ways to wait.
bool gives_up() {
  for (const char* way : {"spin", "spin, sleep", BEST}) {
    Counter counter;
    auto began = Clock::now();
    try {
      counter.reach(1, patience_of(way), began + std::chrono::milliseconds(200));
      return false;
    } catch (const std::runtime_error&) {
      if (Clock::now() - began < std::chrono::milliseconds(200)) {
        return false;
      }
    }
  }
  return true;
}

int main(int count, char** words) {
  int ranks = count > 1 ? std::atoi(words[1]) : 2;
  alarm(10);  // ends a wait without end
  if (!refuses_strangers() || !gives_up()) {
    wrong("strangers come in, or a wait ends too early", 0, 0);
    return 1;
  }
  alarm(0);
  Memory first(Lanes::bytes(ranks));
  for (int rank = 0; rank < ranks; rank++) {
    if (fork() == 0) {
      Memory own(Lanes::bytes(ranks), first.address.text());
      Lanes lanes(own.front(), rank, ranks, patience_of(BEST), false);
      bool good = false;
      try {
        good = play(lanes, rank, ranks);
      } catch (const std::exception& error) {
        wrong(error.what(), rank, 0);
      }
      _exit(good ? 0 : 1);
    }
  }
  int failed = 0;
  int status = 0;
  while (wait(&status) > 0) {
    failed += status != 0;
  }
  return failed > 0;
}
