#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <limits>

#include "comm/mpi/mpi_check.h"
#include "comm/mpi/mpi_request.h"
#include "core/error.h"

namespace fathom::comm {
namespace {

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
  }
  fail(ErrorKind::internal, "unknown ReduceOp ", static_cast<int>(op));
}

/// Calls f(offset, count) for consecutive pieces of at most `limit` that cover [0, n).
template <typename F>
void for_each_chunk(std::size_t n, std::size_t limit, F f) {
  for (std::size_t offset = 0; offset < n; offset += limit) {
    f(offset, static_cast<int>(std::min(limit, n - offset)));
  }
}

/// A message is at least one piece, so that an empty one is matched like any other.
template <typename F>
void for_each_message_chunk(std::size_t bytes, std::size_t limit, F f) {
  if (bytes == 0) f(std::size_t{0}, 0);
  for_each_chunk(bytes, limit, f);
}

/// `bytes` bytes that repeat every `stride` bytes: one block of a strided receive buffer.
class StridedBlock {
 public:
  StridedBlock(int bytes, std::size_t stride, MPI_Comm comm) {
    const CallSite site{"MPI_Type_create_resized", static_cast<std::size_t>(bytes)};
    MPI_Datatype contiguous;
    check_mpi(MPI_Type_contiguous(bytes, MPI_BYTE, &contiguous), comm, site);
    check_mpi(MPI_Type_create_resized(contiguous, 0, static_cast<MPI_Aint>(stride), &type_), comm,
              site);
    check_mpi(MPI_Type_free(&contiguous), comm, site);
    check_mpi(MPI_Type_commit(&type_), comm, site);
  }
  ~StridedBlock() { MPI_Type_free(&type_); }
  StridedBlock(const StridedBlock&) = delete;
  StridedBlock& operator=(const StridedBlock&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const MpiOptions& options)
    : comm_(comm), options_(options) {
  FATHOM_CHECK(
      options.chunk_bytes >= sizeof(double) && options.chunk_bytes <= (std::size_t{1} << 30),
      "chunk_bytes is ", options.chunk_bytes, "; it must hold one element and fit an int");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), comm, {"MPI_Comm_set_errhandler"});
  check_mpi(MPI_Comm_rank(comm, &rank_), comm, {"MPI_Comm_rank"});
  check_mpi(MPI_Comm_size(comm, &size_), comm, {"MPI_Comm_size"});
  // Made now rather than at its first use, where start_all_reduce must not block.
  const bool wanted = options.shared_min_bytes != std::numeric_limits<std::size_t>::max();
  if (size_ > 1 && wanted) shared_ = SharedReducer::make(comm, options.shared_group_bytes);
}

MpiCommunicator::~MpiCommunicator() {
  shared_.reset();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && comm_ != MPI_COMM_WORLD) MPI_Comm_free(&comm_);
}

void MpiCommunicator::barrier() {
  check_mpi(MPI_Barrier(comm_), comm_, {"MPI_Barrier"});
}

template <typename T>
void MpiCommunicator::all_reduce_chunks(T* data, std::size_t n, MPI_Datatype type, ReduceOp op) {
  for_each_chunk(n, options_.chunk_bytes / sizeof(T), [&](std::size_t offset, int count) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, data + offset, count, type, mpi_op(op), comm_), comm_,
              {"MPI_Allreduce", n * sizeof(T)});
  });
}

std::unique_ptr<Request::State> MpiCommunicator::start_shared(float* data, std::size_t n,
                                                              ReduceOp op) {
  if (!shared_ || n == 0 || n * sizeof(float) < options_.shared_min_bytes) return nullptr;
  return std::make_unique<SharedReduceRequest>(shared_, shared_->start(data, n, op));
}

void MpiCommunicator::all_reduce(float* data, std::size_t n, ReduceOp op) {
  if (const auto shared = start_shared(data, n, op)) return shared->wait();
  all_reduce_chunks(data, n, MPI_FLOAT, op);
}

void MpiCommunicator::all_reduce(double* data, std::size_t n, ReduceOp op) {
  all_reduce_chunks(data, n, MPI_DOUBLE, op);
}

void MpiCommunicator::all_reduce(std::int64_t* data, std::size_t n, ReduceOp op) {
  all_reduce_chunks(data, n, MPI_INT64_T, op);
}

Request MpiCommunicator::start_all_reduce(float* data, std::size_t n, ReduceOp op) {
  if (auto shared = start_shared(data, n, op)) return Request(std::move(shared));
  const CallSite site{"MPI_Iallreduce", n * sizeof(float)};
  auto request = std::make_unique<MpiRequest>(comm_, site, false);
  for_each_chunk(n, options_.chunk_bytes / sizeof(float), [&](std::size_t offset, int count) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data + offset, count, MPI_FLOAT, mpi_op(op), comm_,
                             request->add(static_cast<std::size_t>(count) * sizeof(float))),
              comm_, site);
  });
  return Request(std::move(request));
}

void MpiCommunicator::broadcast(void* data, std::size_t bytes, int root) {
  for_each_chunk(bytes, options_.chunk_bytes, [&](std::size_t offset, int count) {
    check_mpi(MPI_Bcast(static_cast<char*>(data) + offset, count, MPI_BYTE, root, comm_), comm_,
              {"MPI_Bcast", bytes, root});
  });
}

void MpiCommunicator::all_gather(const void* send, std::size_t bytes, void* recv) {
  const CallSite site{"MPI_Allgather", bytes};
  // The limit holds for what a rank receives in total, since algorithms join blocks of many ranks.
  const std::size_t limit =
      std::max<std::size_t>(1, options_.chunk_bytes / static_cast<std::size_t>(size_));
  for_each_chunk(bytes, limit, [&](std::size_t offset, int count) {
    const StridedBlock block(count, bytes, comm_);
    check_mpi(MPI_Allgather(static_cast<const char*>(send) + offset, count, MPI_BYTE,
                            static_cast<char*>(recv) + offset, 1, block.type(), comm_),
              comm_, site);
  });
}

void MpiCommunicator::reduce_scatter(const float* send, float* recv, std::size_t n) {
  const std::size_t ranks = static_cast<std::size_t>(size_);
  const std::size_t total_bytes = n * ranks * sizeof(float);
  if (total_bytes <= options_.chunk_bytes) {
    check_mpi(MPI_Reduce_scatter_block(send, recv, static_cast<int>(n), MPI_FLOAT, MPI_SUM, comm_),
              comm_, {"MPI_Reduce_scatter_block", total_bytes});
    return;
  }
  // Reductions take no strided types, so large blocks are reduced owner by owner.
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    const int root = static_cast<int>(owner);
    for_each_chunk(n, options_.chunk_bytes / sizeof(float), [&](std::size_t offset, int count) {
      check_mpi(MPI_Reduce(send + owner * n + offset, recv + offset, count, MPI_FLOAT, MPI_SUM,
                           root, comm_),
                comm_, {"MPI_Reduce", n * sizeof(float), root});
    });
  }
}

Request MpiCommunicator::start_send(const void* data, std::size_t bytes, int peer, int tag) {
  const CallSite site{"MPI_Isend", bytes, peer, tag};
  auto request = std::make_unique<MpiRequest>(comm_, site, false);
  for_each_message_chunk(bytes, options_.chunk_bytes, [&](std::size_t offset, int count) {
    check_mpi(MPI_Isend(static_cast<const char*>(data) + offset, count, MPI_BYTE, peer, tag, comm_,
                        request->add(static_cast<std::size_t>(count))),
              comm_, site);
  });
  return Request(std::move(request));
}

Request MpiCommunicator::start_recv(void* data, std::size_t bytes, int peer, int tag) {
  const CallSite site{"MPI_Irecv", bytes, peer, tag};
  auto request = std::make_unique<MpiRequest>(comm_, site, true);
  for_each_message_chunk(bytes, options_.chunk_bytes, [&](std::size_t offset, int count) {
    check_mpi(MPI_Irecv(static_cast<char*>(data) + offset, count, MPI_BYTE, peer, tag, comm_,
                        request->add(static_cast<std::size_t>(count))),
              comm_, site);
  });
  return Request(std::move(request));
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  MPI_Comm group = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &group), comm_,
            {"MPI_Comm_split"});
  return adopt(group);
}

std::unique_ptr<Communicator> MpiCommunicator::split_by_node() {
  MPI_Comm group = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &group), comm_,
            {"MPI_Comm_split_type"});
  return adopt(group);
}

/// A group of one needs no library: its collectives then cost nothing.
std::unique_ptr<Communicator> MpiCommunicator::adopt(MPI_Comm comm) const {
  if (comm == MPI_COMM_NULL) return nullptr;
  auto group = std::make_unique<MpiCommunicator>(comm, options_);
  if (group->size() == 1) return self_communicator();
  return group;
}

}  // namespace fathom::comm
