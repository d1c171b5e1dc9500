# Steps of the scripts beside this one, which they source: building and running quietly. They build
# under $BUILD with $JOBS jobs.
# shellcheck shell=bash

LOG="$BUILD/log-$$"
mkdir -p "$BUILD"

say() { printf 'core: %s\n' "$*"; }

# Runs a command quietly; shows what it said if it fails.
quietly() {
  if ! "$@" >"$LOG" 2>&1; then
    cat "$LOG" >&2
    say "failed: $*"
    exit 1
  fi
}

build() { # folder, targets, CMake options
  local folder="$1" targets generator=()
  read -ra targets <<<"$2"
  shift 2
  if command -v ninja >/dev/null && [ ! -f "$folder/CMakeCache.txt" ]; then
    generator=(-G Ninja)
  fi
  quietly cmake -S . -B "$folder" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DKB_BUILD_TESTS=ON -DKB_BUILD_PYTHON=OFF -DKB_BUILD_HOST=OFF "$@"
  quietly cmake --build "$folder" --target "${targets[@]}" --parallel "$JOBS"
  if grep -q 'warning:' "$LOG"; then
    cat "$LOG" >&2
    say "failed: the compiler warns"
    exit 1
  fi
}

check() { # name, command before ctest and its arguments
  local name="$1"
  shift
  quietly "$@"
  say "$name: $(grep -E 'tests passed|tests failed' "$LOG")"
  sed -n '/did not run:/,$p' "$LOG"
}
