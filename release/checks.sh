# What release/dry-run.sh looks at, one function each; it is read by that script. Each prints what is wrong, and fails.
# $dist, $version, $folder, $image, $pushed, $built and the programs $crane, $helm and $cosign are that script's.
# shellcheck shell=bash disable=SC2154

refuses() { ! "$@"; }

same() { [ "$1" = "$2" ] || { printf 'not the same:\n%s\n%s\n' "$1" "$2"; return 1; }; }

target_of() { case $1 in amd64) echo x86_64-unknown-linux-gnu ;; arm64) echo aarch64-unknown-linux-gnu ;; esac; }

tools() { for tool in crane actionlint helm cosign; do release/tools.sh $tool || return 1; done; }

build() { TARGET=$(target_of "$1") release/build.sh; }

packed_again() {
  TARGET=$(target_of "$1") DIST=$folder/again release/build.sh || return 1
  local file
  for file in "$folder/again"/*linux_"$1"*; do cmp "$file" "$dist/$(basename "$file")" || return 1; done
}

unpack() {
  mkdir -p "$folder/$1" && tar -xzf "$dist/copyrator_${version}_linux_$1.tar.gz" -C "$folder/$1" || return 1
  same "$(find "$folder/$1" -mindepth 1 -printf '%P\n' | LC_ALL=C sort | tr '\n' ' ')" \
    'LICENSE copyrator copyrator-certs kubectl-copyrator kubectl_complete-copyrator '
}

# programs_run ARCH [EMULATOR]
programs_run() (
  cd "$folder/$1" || exit 1
  shift
  same "$("$@" ./copyrator --version)" "copyrator $version" && same "$("$@" ./copyrator-certs --version)" "copyrator-certs $version" &&
    "$@" ./copyrator crds >crds.yaml && grep -c '^kind: CustomResourceDefinition' crds.yaml
)

programs_are_static() {
  local program headers
  for program in copyrator copyrator-certs; do
    headers=$(readelf --program-headers --wide "$folder/$1/$program") || return 1
    case $headers in *INTERP*) echo "$program asks for a loader" && return 1 ;; *LOAD*) ;; *) return 1 ;; esac
  done
}

parts_from_elsewhere() {
  rm -rf "$folder/elsewhere" && git clone --quiet . "$folder/elsewhere" || return 1
  TARGET=$(target_of "$1") OUTPUT=$folder/parts.json "$folder/elsewhere/image/sbom.sh" &&
    cmp "$folder/parts.json" "$dist/copyrator_${version}_linux_$1.cdx.json"
}

# Every part that it names is locked in that version, and there are as many as one would think.
parts_are_locked() {
  local parts=$dist/copyrator_${version}_linux_$1.cdx.json
  same "$(jq -r .metadata.component.version "$parts")" "$version" || return 1
  jq -r '.components[] | "\(.name) \(.version)"' "$parts" | LC_ALL=C sort -u >"$folder/parts"
  awk -F '"' '/^name = /{name = $2} /^version = /{print name, $2}' Cargo.lock | LC_ALL=C sort -u >"$folder/locked"
  [ "$(wc -l <"$folder/parts")" -gt 150 ] || { echo "only $(wc -l <"$folder/parts") parts"; return 1; }
  same "$(LC_ALL=C comm -23 "$folder/parts" "$folder/locked")" ''
}

# From copies, which are newer than what they are of.
chart_again() {
  local elsewhere=$folder/chart-again
  mkdir -p "$elsewhere/tests/devcluster/tools" && cp -R release charts Cargo.toml CHANGELOG.md "$elsewhere" || return 1
  cp -R tests/devcluster/tools/programs "$elsewhere/tests/devcluster/tools" || return 1
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) DIST=$elsewhere/dist "$elsewhere/release/chart.sh" &&
    cmp "$dist/copyrator-chart-$version.tgz" "$elsewhere/dist/copyrator-chart-$version.tgz"
}

chart_renders_the_same() {
  "$helm" template copyrator "$dist/copyrator-chart-$version.tgz" --kube-version 1.36.0 >"$folder/packaged.yaml" &&
    "$helm" template copyrator charts/copyrator --kube-version 1.36.0 | cmp - "$folder/packaged.yaml"
}

# Who forks it publishes under another name, and its chart installs that.
chart_names_the_image() {
  local images fork=registry.example.com/Somebody/Fork
  IMAGE=$fork DIST=$folder/fork release/chart.sh || return 1
  images=$("$helm" template copyrator "$folder/fork/copyrator-chart-$version.tgz" --kube-version 1.36.0 | sed -n 's/^ *image: "\{0,1\}\([^"]*\).*/\1/p' | sort -u)
  same "$images" "${fork,,}:$version"
}

# As krew goes about it: the checksum, then files and folders only, then the program by its name.
plugin_installs() {
  local archive=$dist/kubectl-copyrator_${version}_linux_$1.tar.gz
  grep -F "sha256: $(sha256sum <"$archive" | cut -d ' ' -f 1)" "$dist/copyrator.yaml" || return 1
  refuses grep -v '^-' <<<"$(tar -tvzf "$archive")" || return 1
  mkdir -p "$folder/plugin-$1" && tar -xzf "$archive" -C "$folder/plugin-$1" || return 1
  cmp "$folder/plugin-$1/kubectl-copyrator" "$folder/$1/copyrator"
}

plugin_answers() { "$folder/plugin-$1/kubectl-copyrator" plan --help | grep -F 'Usage: kubectl copyrator plan'; }

sums_hold() (cd "$dist" && sha256sum --check --strict sha256sums.txt)

# Both programs remember it, in files of this run alone, and nobody sees the token.
log_in() {
  export DOCKER_CONFIG=$folder/docker HELM_REGISTRY_CONFIG=$folder/helm.json
  local said remembered
  said=$(IMAGE=$image GITHUB_ACTOR=somebody TOKEN=not-a-real-token PLAIN_HTTP=1 release/login.sh crane helm 2>&1) || { echo "$said"; return 1; }
  case $said in *not-a-real-token*) echo 'the token is in what it prints' && return 1 ;; esac
  remembered=$(printf 'somebody:not-a-real-token' | base64)
  grep -q "$remembered" "$DOCKER_CONFIG/config.json" && grep -q "$remembered" "$HELM_REGISTRY_CONFIG"
}

# Into $folder/published.
publish() { IMAGE=$image ARCHES="$built" PLAIN_HTTP=1 release/publish.sh >"$folder/published" && cat "$folder/published"; }

published() { sed -n "s/^$1=//p" "$folder/published"; }

pushed_again() {
  local before charts
  before=$(published image_digest)
  charts=$(published chart_digest)
  publish && same "$(published image_digest)" "$before" && same "$(published chart_digest)" "$charts"
}

registry_has_all() {
  same "$("$crane" digest "$pushed:$version")" "$(published image_digest)" && "$crane" validate --remote "$pushed:$version"
}

image_comes_back() {
  local archive=$dist/copyrator_${version}_linux_$1.oci.tar
  same "$("$crane" digest --platform "linux/$1" "$pushed:$version")" "$(cat "$archive.digest")" || return 1
  "$crane" export --platform "linux/$1" "$pushed:$version" - | tar -xO copyrator | cmp - "$folder/$1/copyrator"
}

chart_comes_back() {
  "$helm" pull --plain-http "oci://$pushed/charts/copyrator" --version "$version" --destination "$folder" &&
    cmp "$folder/copyrator-$version.tgz" "$dist/copyrator-chart-$version.tgz"
}

# By a key instead of the identity that only a forge gives. With no authority and no log there is nothing to ask anybody.
sign_all() {
  export COSIGN_PASSWORD=for-this-run-alone
  "$cosign" trusted-root create --out "$folder/trusted.json" || return 1
  local key
  for key in ours other; do "$cosign" generate-key-pair --output-key-prefix "$folder/$key" || return 1; done
  KEY=$folder/ours.key PLAIN_HTTP=1 release/sign.sh "$pushed@$(published image_digest)" \
    "$pushed/charts/copyrator@$(published chart_digest)"
}

# verifies KEY IMAGE, verifies_text KEY FILE
verifies() { "$cosign" verify --key "$folder/$1.pub" --insecure-ignore-tlog --trusted-root "$folder/trusted.json" "$2"; }
verifies_text() {
  "$cosign" verify-blob --key "$folder/$1.pub" --insecure-ignore-tlog --trusted-root "$folder/trusted.json" \
    --bundle "$dist/sha256sums.txt.sigstore.json" "$2"
}

signatures_hold() {
  local arch unsigned=$pushed:unsigned
  verifies ours "$pushed:$version" && verifies ours "$pushed/charts/copyrator:$version" || return 1
  for arch in $built; do verifies ours "$pushed@$(published "${arch}_digest")" || return 1; done
  verifies_text ours "$dist/sha256sums.txt" && refuses verifies_text other "$dist/sha256sums.txt" || return 1
  sed '1s/^./x/' "$dist/sha256sums.txt" >"$folder/other-sums.txt"
  "$crane" append --oci-empty-base --new_layer "$dist/copyrator-chart-$version.tgz" --new_tag "$unsigned" || return 1
  refuses verifies_text ours "$folder/other-sums.txt" && refuses verifies other "$pushed:$version" && refuses verifies ours "$unsigned"
}

# The chart that the fork above has, in the place of ours. Afterwards it is as before.
other_chart_is_left_alone() {
  local ours=$pushed/charts/copyrator before other
  before=$("$crane" digest "$ours:$version") || return 1
  "$helm" push --plain-http "$folder/fork/copyrator-chart-$version.tgz" "oci://$pushed/charts" || return 1
  other=$("$crane" digest "$ours:$version")
  refuses same "$other" "$before" && refuses publish && same "$("$crane" digest "$ours:$version")" "$other" &&
    "$crane" tag "$ours@$before" "$version"
}

other_content_is_left_alone() {
  "$crane" append --oci-empty-base --new_layer "$dist/copyrator-chart-$version.tgz" --new_tag "$pushed:other" || return 1
  local other
  other=$("$crane" digest "$pushed:other")
  "$crane" tag "$pushed:other" "$version" && refuses publish && same "$("$crane" digest "$pushed:$version")" "$other"
}
