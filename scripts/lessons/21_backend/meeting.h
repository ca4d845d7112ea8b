// What a collective of nearby.cpp returns, and how its ranks find their memory.

#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lanes.h"

using Tensors = std::vector<at::Tensor>;
using StorePointer = c10::intrusive_ptr<c10d::Store>;
using Limit = std::chrono::milliseconds;

// As in parts.h: over when it is made, with a future for DDP.
struct Finished : c10d::Work {
  c10::intrusive_ptr<c10::ivalue::Future> future;

  Finished(int rank, c10d::OpType kind, const Tensors& tensors) : Work(rank, kind) {
    auto type = c10::ListType::create(c10::TensorType::get());
    future = c10::make_intrusive<c10::ivalue::Future>(type);
    future->markCompleted(tensors);
    finish();
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future;
  }
};

// Rank 0 makes the memory and says in the store where it is; the others open it. The limit is ours:
// that of the store itself may be another one.
inline std::unique_ptr<Memory> meet(StorePointer store, int rank, int size, Limit limit) {
  std::unique_ptr<Memory> memory;
  size_t bytes = Lanes::bytes(size);
  if (rank == 0) {
    memory = std::make_unique<Memory>(bytes);
    store->set("address", memory->address.text());
  } else {
    store->wait({"address"}, limit);
    memory = std::make_unique<Memory>(bytes, store->get_to_str("address"));
  }
  store->set("rank " + std::to_string(rank), "here");
  std::vector<std::string> all;
  for (int other = 0; other < size; other++) {
    all.push_back("rank " + std::to_string(other));
  }
  store->wait(all, limit);
  memory->close_file();
  return memory;
}
