#!/bin/sh
# Links the programs of the images as image/program.sh does, static, but from the library that the tests were built with: seconds,
# where a static build compiles everything once more. Prints where they are.
set -eu
cd "$(dirname "$0")/../.."
folder=$PWD/target/real-node/programs
mkdir -p "$folder"

# All of it is built already where `make test` runs this; the smallest test says so soonest.
built=$(cargo test --locked --quiet --workspace --no-run --test architecture --message-format json)
library() { printf '%s\n' "$built" | sed -n "s#.*\"\([^\"]*/lib$1-[0-9a-f]*\.rlib\)\".*#\1#p" | tail -n 1; }
copyrator=$(library copyrator) rustls=$(library rustls)

static() {
  program=$folder/$1
  shift
  rustc --edition 2024 -C target-feature=+crt-static -C strip=debuginfo -o "$program" "$@"
  echo "$program"
}
static copyrator src/main.rs -L "dependency=$(dirname "$copyrator")" --extern "copyrator=$copyrator" --extern "rustls=$rustls"
static greeter tests/greeter/src/main.rs
