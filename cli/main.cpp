// The program: the command line of cli.hpp, with threads that wait politely.
#include <cstdlib>
#include <unistd.h>

#include "cli/cli.hpp"

// Threads that spin at their barriers stop each other for whole time slices when another program wants the same cores, and
// a step takes a hundred times as long. The OpenMP runtime reads how long to spin when it is loaded, before main: so the
// program starts itself once more with the setting, unless the user has made one.
static void spin_briefly(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv("/proc/self/exe", argv);  // returns only if it fails, and then the run goes on as it is
}

int main(int argc, char** argv) {
  spin_briefly(argv);
  return backbeat::cli::run(argc, argv);
}
