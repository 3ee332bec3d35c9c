# shellcheck shell=bash
# Programs built against the library of some commit, for scripts that source lib.sh and this file.

VERSIONS=$ROOT/target/versions

# resolve COMMIT: prints its full id.
resolve() {
    git -C "$ROOT" rev-parse --verify --quiet "$1^{commit}" ||
        die "the repository has no commit '$1'; name another one, or fetch it first"
}

# tree COMMIT: prints the folder with its files; without a commit, the current tree.
tree() {
    local folder=$VERSIONS/$1 part
    [ -n "$1" ] || { echo "$ROOT" && return; }
    if [ ! -d "$folder" ]; then
        # Complete or not at all: the next run would take a partial folder for a complete one.
        # Joined with &&, because bash does not end a command substitution at a failure.
        part=$(mktemp --directory "$VERSIONS/part-XXXXXX") &&
            git -C "$ROOT" archive "$1" | tar --extract --directory "$part" &&
            mv "$part" "$folder" || die "the files of $1 cannot be extracted below $VERSIONS"
    fi
    echo "$folder"
}

# title COMMIT: prints its description.
title() {
    if [ -n "$1" ]; then git -C "$ROOT" log -1 --format='%h %s' "$1"; else
        echo "$(git -C "$ROOT" describe --always --dirty), the current tree"
    fi
}

# build_against COMMIT PACKAGE [--release [FEATURES]]: builds the program of this tree's package in
# the folder PACKAGE against the library of COMMIT (if empty, of this tree) and its Cargo.lock, and
# sets `built` to its file. The programs' common part, tests/testkit, is this tree's for both.
build_against() {
    local tree folder target program profile=${3:-} features=${4:-}
    target=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
    mkdir -p "$VERSIONS"
    tree=$(tree "$1")
    folder=$VERSIONS/${2##*/}-${tree##*/}${features:+-${features//[^a-z]/-}}
    mkdir -p "$folder"
    # A separate workspace, because it is below this one but is none of its members.
    sed -e "s|path = \"[./]*\"|path = \"$tree\"|" -e "s|path = \"src/|path = \"$ROOT/$2/src/|" \
        -e "s|path = \"[./]*\(tests/\)\{0,1\}testkit\"|path = \"$ROOT/tests/testkit\"|" \
        -e '/^\[lints\]$/,$d' "$ROOT/$2/Cargo.toml" >"$folder/Cargo.toml"
    echo '[workspace]' >>"$folder/Cargo.toml"
    cp "$tree/Cargo.lock" "$folder/Cargo.lock"
    program=$(sed -n '/^\[\[bin\]\]$/,/^$/s/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml")
    (cd "$folder" && CARGO_TARGET_DIR=$target cargo build --quiet ${profile:+"$profile"} \
        ${features:+--features "$features"})
    built=$folder/$program
    # In one step, because an older build may run. No other build overwrites it.
    cp "$target/$([ -n "$profile" ] && echo release || echo debug)/$program" "$built.part"
    mv "$built.part" "$built"
}
