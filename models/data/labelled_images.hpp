// Small labelled pictures in the files that they are handed round in: CIFAR-10's batches, the digits of UCI.
#pragma once
#include <string>

#include "engine/array.hpp"

namespace backbeat {

struct LabelledImages {
  Array pixels;  // u8 [n, channels, height, width], as the file has them
  Array labels;  // i32 [n], 0 to 9
};

// The binary version: data_batch_1.bin and its kin. Records of 3073 bytes without a header: a label, then 32 x 32 bytes of
// red, of green, of blue. u8 [n, 3, 32, 32].
LabelledImages read_cifar10(const std::string& path);

// optdigits of UCI, digits.csv.gz of scikit-learn, plain or gzipped: 64 values 0 to 16 and a label a line, separated by
// commas. u8 [n, 1, 8, 8], 0 to 16.
LabelledImages read_digits(const std::string& path);

}  // namespace backbeat
