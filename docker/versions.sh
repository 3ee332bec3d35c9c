# shellcheck shell=bash
# Programs built against the library as it was at some commit, for scripts that
# source lib.sh and this.

VERSIONS=$ROOT/target/versions

# resolve COMMIT: prints its whole name.
resolve() {
    git -C "$ROOT" rev-parse --verify --quiet "$1^{commit}" ||
        die "there is no commit '$1' here; name one, or fetch it first"
}

# tree COMMIT: prints the folder that has its files; without one, this one.
tree() {
    local folder=$VERSIONS/$1 part
    [ -n "$1" ] || { echo "$ROOT" && return; }
    if [ ! -d "$folder" ]; then
        # Whole or not at all, as the next run would take it for whole.
        part=$(mktemp --directory "$VERSIONS/part-XXXXXX")
        git -C "$ROOT" archive "$1" | tar --extract --directory "$part"
        mv "$part" "$folder"
    fi
    echo "$folder"
}

# title COMMIT: prints what people call it.
title() {
    if [ -n "$1" ]; then git -C "$ROOT" log -1 --format='%h %s' "$1"; else
        echo "$(git -C "$ROOT" describe --always --dirty), as it is here"
    fi
}

# build_against COMMIT PACKAGE [--release [FEATURES]]: builds the program of this tree's
# package in the folder PACKAGE against the library of COMMIT (of this tree, if
# that is empty) and its Cargo.lock, and sets `built` to its file. What the
# programs have in common, tests/testkit, is this tree's for both.
build_against() {
    local tree folder target program profile=${3:-} features=${4:-}
    target=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
    mkdir -p "$VERSIONS"
    tree=$(tree "$1")
    folder=$VERSIONS/${2##*/}-${tree##*/}${features:+-${features//[^a-z]/-}}
    mkdir -p "$folder"
    # A workspace of its own, as it lies below this one but is none of its members.
    sed -e "s|path = \"[./]*\"|path = \"$tree\"|" -e "s|path = \"src/|path = \"$ROOT/$2/src/|" \
        -e "s|path = \"[./]*\(tests/\)\{0,1\}testkit\"|path = \"$ROOT/tests/testkit\"|" \
        -e '/^\[lints\]$/,$d' "$ROOT/$2/Cargo.toml" >"$folder/Cargo.toml"
    echo '[workspace]' >>"$folder/Cargo.toml"
    cp "$tree/Cargo.lock" "$folder/Cargo.lock"
    program=$(sed -n '/^\[\[bin\]\]$/,/^$/s/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml")
    (cd "$folder" && CARGO_TARGET_DIR=$target cargo build --quiet ${profile:+"$profile"} \
        ${features:+--features "$features"})
    built=$folder/$program
    # In one step, as an older one may be at work. No other build overwrites it.
    cp "$target/$([ -n "$profile" ] && echo release || echo debug)/$program" "$built.part"
    mv "$built.part" "$built"
}
