#!/usr/bin/env bash
# Does what a release does, as far as this machine can, and says of each step whether it was done, has failed, or was left
# out and why. Nothing leaves the machine: the registry is one of its own, on loopback. Fails if a step has failed.
#   PROFILE=dev     quick, big programs instead of those that are shipped
#   DIST=DIR        where what would be released stays; default: target/dist
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# It is emptied first: nothing goes that is not ours.
for file in "${DIST:-target/dist}"/* "${DIST:-target/dist}"/.[!.]*; do
  case ${file##*/} in
    '*' | '.[!.]*' | copyrator_* | copyrator-certs_* | copyrator-chart-* | kubectl-copyrator_* | copyrator.yaml | sha256sums.txt | sha256sums.txt.sigstore.json) ;;
    *) echo "release/dry-run.sh: $file is none of ours, and its folder would be emptied: choose another DIST" >&2 && exit 2 ;;
  esac
done

export PROFILE=${PROFILE:-release} DIST=${DIST:-$PWD/target/dist}
dist=$DIST
logs=$PWD/target/release-logs
folder=$(mktemp -d)
registry=
trap '[ -z "$registry" ] || kill "$registry"; rm -rf "$folder"' EXIT
rm -rf "$dist" "$logs"
mkdir -p "$dist" "$logs"
# buildah's, so that the user's images stay alone.
export STORAGE=$folder/storage
# shellcheck source=release/checks.sh
. release/checks.sh

failed=0 left=0 number=0
# step WORDS COMMAND...: what it prints is kept, and shown where it fails.
step() {
  local words=$1 log
  shift
  number=$((number + 1))
  log=$logs/$(printf '%02d' "$number").log
  if "$@" >"$log" 2>&1; then
    printf 'done      %s\n' "$words"
  else
    failed=$((failed + 1))
    printf 'FAILED    %s\n' "$words"
    tail -n 15 "$log" | sed 's/^/          | /'
    printf '          all of it: %s\n' "$log"
    return 1
  fi
}
left_out() {
  left=$((left + 1))
  printf 'left out  %s: %s\n' "$1" "$2"
}

# --- What is released
step 'Cargo.toml, the chart and the changelog agree on the version' release/version.sh || exit 1
version=$(release/version.sh)
step 'a tag of another version is refused' refuses release/version.sh v999.0.0
if release/version.sh "v$version" >/dev/null 2>&1; then
  step "notes of $version, from the changelog" release/notes.sh "$version"
else
  step 'notes, from the changelog as it is now' release/notes.sh Unreleased
  left_out "the tag v$version" "$(release/version.sh "v$version" 2>&1 >/dev/null)"
fi
step 'programs for it, built from pinned modules (minutes the first time)' tools || exit 1
crane=$(release/tools.sh crane) actionlint=$(release/tools.sh actionlint) helm=$(release/tools.sh helm) cosign=$(release/tools.sh cosign)

# --- The workflows
step 'workflows: actionlint finds nothing' "$actionlint"
command -v shellcheck >/dev/null || left_out 'workflows: what shellcheck says of their commands' 'it is not installed (apt-get install shellcheck)'
if command -v zizmor >/dev/null; then
  step 'workflows: zizmor finds nothing' zizmor --offline --no-progress .github/workflows
else
  left_out 'workflows: zizmor' 'it is not installed (pip install zizmor)'
fi

# --- What is built, for each architecture
host=$(rustc -vV | sed -n 's/^host: //p')
sysroot=$(rustc --print sysroot)
built=
for arch in amd64 arm64; do
  target=$(target_of $arch)
  machine=${target%%-*}
  emulator=
  if [ "$target" != "$host" ]; then
    lacks=
    command -v "$machine-linux-gnu-gcc" >/dev/null || lacks="a C compiler for it (apt-get install gcc-${machine//_/-}-linux-gnu)"
    [ -d "$sysroot/lib/rustlib/$target" ] || lacks="${lacks:+$lacks, and }its standard library (rustup target add $target)"
    if [ -n "$lacks" ]; then
      left_out "$arch: image, parts, archives" "this machine is another one, and lacks $lacks"
      continue
    fi
    emulator=$(command -v "qemu-$machine-static")
  fi
  step "$arch: image, parts and archives ($PROFILE)" build $arch || continue
  built="$built $arch"
  step "$arch: packed again: the same bytes" packed_again $arch
  step "$arch: the archive holds what it should" unpack $arch
  step "$arch: its programs are static" programs_are_static $arch
  if [ "$target" = "$host" ] || [ -n "$emulator" ]; then
    step "$arch: its programs run${emulator:+, emulated}" programs_run $arch ${emulator:+"$emulator"}
  else
    left_out "$arch: running its programs" "this machine is another one, without an emulator (apt-get install qemu-user-static)"
  fi
  if ! command -v jq >/dev/null; then
    left_out "$arch: looking at the list of parts" 'jq is not installed (apt-get install jq)'
  else
    step "$arch: the list of parts names what Cargo.lock has" parts_are_locked $arch
  fi
  if git diff --quiet HEAD; then
    step "$arch: the list of parts from another folder: the same bytes" parts_from_elsewhere $arch
  else
    left_out "$arch: the list of parts from another folder" 'this checkout is not as committed'
  fi
done
built=${built# }
if [ -z "$built" ]; then
  printf '\nnothing was built, and so there is nothing to publish\n'
  exit 1
fi

# --- Chart, plugin, checksums
step 'the chart, packaged' release/chart.sh
step 'the chart, packaged from other files with the same content: the same bytes' chart_again
step 'the chart renders as the checkout does' chart_renders_the_same
step 'the chart of a fork installs the image of the fork' chart_names_the_image
step "krew's manifest" release/krew.sh
for arch in $built; do
  step "$arch: the plugin is what the manifest says, without links" plugin_installs "$arch"
  [ "$(target_of "$arch")" != "$host" ] || step "$arch: the plugin answers as kubectl's" plugin_answers "$arch"
done
left_out "krew's own check of the manifest" 'Go cannot fetch it; cargo test --test manifests has the same rules'
step 'checksums' release/checksums.sh
step 'checksums, verified' sums_hold

# --- Publishing, to a registry of our own
"$crane" registry serve --address 127.0.0.1:0 --disk "$(mktemp -d -p "$folder")" >"$logs/registry.log" 2>&1 &
registry=$!
for _ in $(seq 100); do
  port=$(sed -n 's/.*serving on port \([0-9]*\).*/\1/p' "$logs/registry.log")
  [ -z "$port" ] || break
  sleep 0.1
done
image=127.0.0.1:$port/Somebody/Copyrator
pushed=127.0.0.1:$port/somebody/copyrator
step 'logging in' log_in
if step "image (${built/ / and }) and chart, pushed to a registry on this machine" publish; then
  step 'pushed again: the same digest' pushed_again
  step 'the registry has the index, and all that it names' registry_has_all
  for arch in $built; do
    step "$arch: pulled by the tag: the image that was built, with the program of the archive" image_comes_back "$arch"
  done
  step 'the chart, pulled: the same bytes' chart_comes_back
  step 'image, chart and checksums, signed with a key for this run alone' sign_all
  step 'signatures, verified by that key; no other key, image or text is taken' signatures_hold
  step "a chart's version that is there with other content is left alone" other_chart_is_left_alone
  step 'a version that is there with other content is left alone' other_content_is_left_alone
fi

# --- What cannot be done here
left_out 'signatures without a key, and provenance' 'they are made with the identity that a forge gives to a run of the workflow'
left_out 'a public registry, and the page of the release' 'they need a forge, and rights there'
base=$(sed -n 's/^FROM \([^ ]*\) AS build$/\1/p' Dockerfile)
if buildah inspect --type image "$base" >/dev/null 2>&1; then
  step "the Dockerfile, on this machine's $base" buildah bud --build-arg PROFILE="$PROFILE" --tag "copyrator-dockerfile:$version" .
else
  left_out 'the Dockerfile' "$base is not among this machine's images (buildah pull $base)"
fi

printf '\n%s steps done, %s failed, %s left out. What would be released: %s\n' $((number - failed)) "$failed" "$left" "$dist"
[ "$failed" = 0 ]
