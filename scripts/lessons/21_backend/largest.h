// The larger of two numbers, as fold.h wants it.

#pragma once

struct Largest {
  template <typename T>
  T operator()(T a, T b) const {
    // BEGIN SOLUTION
    return b > a ? b : a;
    // STUB return a;
    // END SOLUTION
  }
};
