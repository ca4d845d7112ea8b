// Prints the largest of three ranks' numbers, and of pairs of other types: no torch, no ranks.

#include <cstdio>
#include <vector>

#include "fold.h"
#include "largest.h"

int main() {
  const int COUNT = 5000;  // more than the block of fold.h
  std::vector<std::vector<int>> ranks(3, std::vector<int>(COUNT));
  const int* parts[3];
  for (int rank = 0; rank < 3; rank++) {
    parts[rank] = ranks[rank].data();
    for (int i = 0; i < COUNT; i++) {
      ranks[rank][i] = (i + rank) % 3 * 10 - 25 + i / 4000;  // below zero at first
    }
  }
  std::vector<int> out(COUNT);
  fold(out.data(), parts, 3, COUNT, Largest());
  std::printf("%d %d %d %d ", out[0], out[1], out[2], out[COUNT - 1]);
  std::printf("%g ", Largest()(0.25, 0.75));  // any type, not whole numbers alone
  std::printf("%u %u\n", Largest()(5u, 7u), Largest()(7u, 5u));  // unsigned: 5 - 7 is above zero
}
