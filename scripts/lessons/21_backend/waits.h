// Counters that one process raises, and three ways in which another one can wait for them.

#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using Clock = std::chrono::steady_clock;

// How to wait: look so many times, then offer the core to others so many times, then sleep.
struct Patience {
  int looks;
  int yields;
};

constexpr const char* BEST = "spin, yield, sleep";

inline Patience patience_of(const std::string& way) {
  if (way == "spin") {
    return {INT_MAX, 0};
  }
  if (way == "spin, sleep") {
    return {300, 0};
  }
  if (way == BEST) {
    return {300, 20'000};
  }
  throw std::invalid_argument("no way to wait is called " + way);
}

// Tell the core that this loop is waiting.
inline void breathe() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes cannot share a lock in it");

// A number in shared memory that only rises. It has two cache lines to itself (alignas): if two
// counters shared one, raising one of them would slow down who is looking at the other.
struct alignas(128) Counter {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  // Whoever sees the new value sees all that this process wrote before: that is what an atomic
  // number promises unless told otherwise, and an ordinary one does not.
  void raise() {
    value.fetch_add(1);
    if (sleepers.load() > 0) {
      syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  // region wait
  // Return when the counter has reached `target`, or throw when the deadline is over.
  void reach(uint32_t target, Patience patience, Clock::time_point deadline) {
    const int64_t awake = int64_t(patience.looks) + patience.yields;
    for (int64_t turn = 0;; turn++) {
      uint32_t now = value.load(std::memory_order_acquire);
      if (int32_t(now - target) >= 0) {  // a difference, so that it holds after 2³² raises, too
        return;
      }
      bool look_at_clock = turn >= patience.looks || turn % 1024 == 1023;  // a yield may be long
      if (look_at_clock && Clock::now() > deadline) {
        throw std::runtime_error("a rank did not come in time");
      }
      if (turn < patience.looks) {
        breathe();
      } else if (turn < awake) {
        sched_yield();  // the other rank may need this very core
      } else {
        sleep(now);
      }
    }
  }
  // endregion

  // Until the counter is no longer `now`, at most 50 ms: the kernel wakes this process up. It looks
  // once more before it lets us sleep, so a counter that has just risen is not missed.
  void sleep(uint32_t now) {
    timespec limit{0, 50'000'000};
    sleepers.fetch_add(1);
    syscall(SYS_futex, &value, FUTEX_WAIT, now, &limit, nullptr, 0);
    sleepers.fetch_sub(1);
  }
};
