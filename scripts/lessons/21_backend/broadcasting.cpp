// The smallest backend, and one collective more.

#include "smallest.cpp"

struct Broadcasting : Smallest {
  using Smallest::Smallest;

  // The root puts its tensor into the store; all others take that out, into their own tensor.
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    for (at::Tensor& tensor : tensors) {
      turn++;
      // BEGIN SOLUTION
      if (rank_ == options.rootRank) {
        store->set(key(turn, rank_), bytes_of(tensor));
      } else {
        Bytes bytes = store->get(key(turn, options.rootRank));
        tensor.copy_(tensor_of(bytes, tensor));
      }
      // STUB return Backend::broadcast(tensors, options);  // torch's own: it refuses
      // END SOLUTION
    }
    return done(tensors, with_future);
  }
};

PYBIND11_MODULE(broadcasting, module) {
  module.def("create", creator<Broadcasting>(), without_lock());
}
