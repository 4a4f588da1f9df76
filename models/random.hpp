// Keys of the devices' random numbers (engine/ops.hpp: rng_bit_generator). What a sample draws is a function of the run's
// seed, of what it is drawn for, of the step and of the sample's index in the whole batch: the same in a run that was
// resumed, and however the batch is cut.
#pragma once
#include "engine/ops.hpp"
#include "engine/program.hpp"

namespace backbeat {

// u32[5] of seed u32[2] (low, high), stream, step u32[] and the index of the first sample, u32[]; 0 if undefined.
Tensor random_key(Operand seed, uint32_t stream, Tensor step, Tensor first = {});
// The seed as a state's initial value.
Array seed_words(uint64_t seed);
// A counter u32[] in the state: its value, which the Program moves on by 1.
Tensor counted(Recorder& r, const std::string& name);

}  // namespace backbeat
