# Writes a C++ file that holds the chip pages, so that a program finds its presets without an install path.
import pathlib
import sys

output, *pages = sys.argv[1:]
with open(output, "w") as out:
    out.write('#include "sim/presets.hpp"\n\nnamespace backbeat::sim {\n\nconst std::vector<Preset> presets = {\n')
    for page in pages:
        path = pathlib.Path(page)
        out.write(f'    {{"{path.stem}", R"chip({path.read_text()})chip"}},\n')
    out.write("};\n\n}  // namespace backbeat::sim\n")
