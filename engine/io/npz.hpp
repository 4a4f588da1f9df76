// .npz, NumPy's archive of named arrays: a zip file whose members are NAME.npy (engine/io/npy.hpp says which dtypes).
#pragma once
#include <string>

#include "engine/io/named_arrays.hpp"

namespace backbeat {

// Stored or deflated members (np.savez, np.savez_compressed), in the order of the archive's directory. A member's size is
// checked against its own header, and all of them together against the file, before anything is allocated. Archives over
// 4 GiB (zip64) and encrypted ones are refused.
NamedArrays read_npz(const std::string& path);

// Stored, atomic, the same bytes for the same arrays. Names are not empty, come once and are UTF-8.
void write_npz(const std::string& path, const NamedArrays& arrays);

}  // namespace backbeat
