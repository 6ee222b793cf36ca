#pragma once

#include <string>

// What a run asks of its device, in the order in which it asks: a line of text for each kernel and
// each matrix product, in the file that FATHOM_SIM_RECORD names.
//
//   kernel BLOCKS THREADS SHARED_BYTES NAME     blocks and threads in all; the name is the line's
//   rest product M N K FACTORS                       C [m, n] by rows; f32, tf32 or bf16

namespace fathom::gpu::sim {

bool recording();

/// Throws Error(io) when the file cannot be written.
void record(const std::string& line);

}  // namespace fathom::gpu::sim
