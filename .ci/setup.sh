# shellcheck shell=bash
# shellcheck disable=SC2034
# What run, test and .ci/run share: the packages, and how a build directory is made. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

program_packages=(meson ninja-build g++ cmake pkg-config ccache
  libxtensor-dev libxsimd-dev xtl-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev
  zlib1g-dev libpng-dev libturbojpeg0-dev libssl-dev dataset-fashion-mnist)
test_packages=(doctest-dev libopenblas-dev)
fuzz_packages=(clang libclang-rt-14-dev)

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# Prints those of the named packages that are not installed.
missing_packages() {
  local installed name
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    [[ $'\n'$installed$'\n' == *$'\n'"$name installed"$'\n'* ]] || printf '%s ' "$name"
  done
}

# Installs those of the named Debian packages that are missing; with none missing it costs a few milliseconds.
install_packages() {
  local missing as_root=() log apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  command -v dpkg-query >/dev/null || fail "this is not Debian; install the equivalents of: $*"
  read -ra missing <<<"$(missing_packages "$@")"
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "needs root or sudo to install: ${missing[*]}"
    as_root=(sudo)
  fi
  log=$(mktemp)
  echo "Installing once, which may take a few minutes: ${missing[*]}" >&2
  # An update that fails is no reason to stop: another source than Debian's may be down, or the lists may be new enough.
  "${as_root[@]}" "${apt[@]}" update >"$log" 2>&1 || true
  "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 ||
    fail "could not install ${missing[*]}: $(grep '^E:' "$log" | head -n 1) (is the network there? the log is $log)"
  rm -f "$log"
}

# configure DIR [OPTION...]: makes a build directory, or adds the options to the one that is there.
configure() {
  local dir=$1 option
  shift
  if [[ ! -f $dir/build.ninja ]]; then
    meson setup "$dir" "$root" "$@"
    return
  fi
  for option in "$@"; do
    option=${option#-D}
    grep -qsFx "${option/=/ = }" "$dir/meson-private/cmd_line.txt" || meson configure "$dir" "-D$option"
  done
}
