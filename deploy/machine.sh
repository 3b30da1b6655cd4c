# shellcheck shell=bash
# What the scripts here ask of the machine. Sourced by engine, model, quickstart and tour; runs nothing by itself.

# One shell word per argument, quoted only where needed, so that the usual line stays readable.
words() {
    local out='' word
    for word; do
        [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word=\'${word//\'/\'\\\'\'}\'
        out+="${out:+ }$word"
    done
    printf '%s' "$out"
}

# as_root COMMAND…: fails without asking for a password where we are neither root nor allowed `sudo -n`.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

# install_as_root PACKAGE…: fails where we may not. --no-remove, because what is installed here must never take away
# what the user has. The lists are only refreshed when they do not know the packages.
install_as_root() {
    local apt log
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends --no-remove
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
    command -v apt-get >/dev/null && as_root true || return 1
    say "installing $* (as root, by apt-get; no service is started)"
    log=$(mktemp)
    if as_root "${apt[@]}" install "$@" >"$log" 2>&1 ||
        { as_root "${apt[@]}" update && as_root "${apt[@]}" install "$@"; } >>"$log" 2>&1; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# The comment at the top of a script is its help.
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
