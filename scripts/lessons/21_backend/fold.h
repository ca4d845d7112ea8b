// Combine the numbers of several ranks, in rank order: ((rank 0 + rank 1) + rank 2) + …

#pragma once

#include <algorithm>
#include <cstddef>

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

// `parts` holds the numbers of each rank. They go through a small block, which stays in the core's
// first cache: the memory sees each number once on its way in, and once on its way out.
template <typename T, typename Combine>
void fold(T* out, const T* const* parts, int ranks, size_t count, Combine combine) {
  constexpr size_t BLOCK = 2048;
  T block[BLOCK];
  for (size_t begin = 0; begin < count; begin += BLOCK) {
    size_t length = std::min(BLOCK, count - begin);
    std::copy_n(parts[0] + begin, length, block);
    for (int rank = 1; rank < ranks; rank++) {
      const T* part = parts[rank] + begin;
      for (size_t i = 0; i < length; i++) {
        block[i] = combine(block[i], part[i]);
      }
    }
    std::copy_n(block, length, out + begin);
  }
}
