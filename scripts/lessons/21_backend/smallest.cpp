// The smallest backend: all-reduce alone, and as slow as it is short.
//
// The ranks exchange their bytes through the store, the table in which they met.

#include "parts.h"

class Smallest : public c10d::Backend {
 protected:
  StorePointer store;
  bool with_future;
  int64_t turn = 0;

  // Under this name a rank's bytes of a turn are in the store.
  static std::string key(int64_t turn, int rank) {
    return std::to_string(turn) + "/" + std::to_string(rank);
  }

 public:
  Smallest(StorePointer store, int rank, int size, bool with_future)
      : Backend(rank, size), store(std::move(store)), with_future(with_future) {}

  const std::string getBackendName() const override {
    return "smallest";
  }

  // Everybody puts a tensor into the store, takes all of them out, and adds them in rank order.
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "smallest can add, and nothing else");
    for (at::Tensor& tensor : tensors) {
      turn++;
      store->set(key(turn, rank_), bytes_of(tensor));
      for (int rank = 0; rank < size_; rank++) {
        Bytes bytes = store->get(key(turn, rank));  // waits until it is there
        at::Tensor part = tensor_of(bytes, tensor);
        rank == 0 ? tensor.copy_(part) : tensor.add_(part);
      }
      store->deleteKey(key(turn - 1, rank_));  // all have come to this turn, so all have read it
    }
    return done(tensors, with_future);
  }
};

PYBIND11_MODULE(smallest, module) {
  module.def("create", creator<Smallest>(), without_lock());
  module.def("create_without_future", creator<Smallest>(false), without_lock());
}
