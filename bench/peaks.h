// What the cores can do at most, measured: the bounds of the ops.
#pragma once

namespace quern {

// Bytes a second that all threads of the pool together read from memory.
double read_bandwidth();

// Operations a second of all threads, a multiplication and an addition each
// counted: f32, and int8 into int32, on the instructions of the kernels in
// use. 0 where there is no test for them.
double f32_peak();
double int8_peak();

}  // namespace quern
