// The processes of one run. Each has a rank 0 … size − 1. Every one of them makes the same calls in
// the same order; rank 0 is the one that writes files. One process alone has a communicator too, and
// its calls do nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/refusal.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Another process has ended, hangs, or never came. The run cannot go on; its checkpoint is there.
struct LostProcess : Error {
  using Error::Error;
};

class Communicator {
 public:
  Communicator(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }

  // Where tensors that are summed or broadcast lie.
  virtual torch::Device device() const { return torch::kCPU; }

  // False for one process alone: a step then has nothing to sum. A group of one process does sum.
  virtual bool is_group() const = 0;

  // In place, over all processes; each gets the same bits.
  virtual void sum(Tensor& values) const = 0;

  // Rank 0's values, in place.
  virtual void broadcast(Tensor& values) const = 0;

  // Returns when all processes have called it.
  virtual void barrier() const = 0;

  // Waits for what the calls above left running on a GPU. A CPU's have ended already.
  virtual void settle() const {}

  // Refuses, in all processes, facts that are not those of rank 0, and names the first one. Tensors of
  // different sizes would end a process inside the library, so this comes before the first of them.
  virtual void same(const nlohmann::json& facts) const = 0;

 private:
  int64_t rank_, size_;
};

// One process alone.
const Communicator& one_process();

// The bytes of a contiguous tensor, as a view: exact for every type, −0 and NaN included.
Tensor bytes_of(const Tensor& tensor);

// Rank 0's values of all these tensors, whatever their types.
void broadcast_all(const Communicator& communicator, const std::vector<Tensor>& tensors);

// Rows of `whole` belong to the ranks in equal parts, in order. Afterwards every process has all rows.
void gather_rows(const Communicator& communicator, const Tensor& whole);

// Numbers of which each process has some, and zeros for the others.
std::vector<double> gather_numbers(const Communicator& communicator,
                                   const std::vector<double>& own);

// Refuses, in all processes, values that differ between them in any bit. `when` ends the sentence:
// "after step 100".
void require_same_values(const Communicator& communicator, const std::vector<Tensor>& tensors,
                         const std::string& when);

// What is exchanged for that: on the tensor's device, (1) int64.
Tensor checksum(const Tensor& tensor);

}  // namespace geores
