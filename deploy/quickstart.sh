# shellcheck shell=bash
# The processes of a quickstart or a tour: builds the binaries, starts daemons and the private database, stops them
# all, and speaks HTTP to sa-api. Sourced; the caller has set `here` and `say`, and runs with set -euo pipefail.
#
# Everything lives in two git-ignored folders, one for the quickstart (which owns the database) and one for the tour:
#   log/NAME.log   what a process printed        run/NAME   its pid, its mark and the stamp of what it was started with

root=${here:?}; root=${root%/*}
home=$root/.asterion/quickstart   # the database's, whoever runs
state=${state:-$home}             # this caller's own
# shellcheck source=deploy/machine.sh
. "$here/machine.sh"

die() { say "$@"; exit 1; }

# What to look at when a process failed.
die_with_log() {
    local name=$1; shift
    say "$@"
    sed 's/^/    /' <(tail -n 12 "$state/log/$name.log") >&2
    die "the whole log is $(short "$state/log/$name.log"); \`deploy/quickstart stop\` stops what is running"
}

# Tokens, passwords, prompts and answers are in there.
private_folder() { mkdir -p "$1" && chmod 700 "$1"; }

# A path as it can be typed from where the caller stands.
short() { if [ "$PWD" = "$root" ]; then printf '%s' "${1#"$root"/}"; else printf '%s' "$1"; fi; }

# ---- processes

# mark PID: what tells this process from a later one with the same number: the boot and the start time. Fails for one
# that has ended, also while it waits as a zombie.
mark() {
    local stat
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    read -ra stat <<<"${stat##*) }"
    [ "${stat[0]}" != Z ] || return 1
    printf '%s.%s' "$(</proc/sys/kernel/random/boot_id)" "${stat[19]}"
}

# What a process gets as its environment, and nothing else: no key and no setting of the user's shell may change what
# it does. Not given by `env`, which would show a key in the list of processes for a moment.
environment=("PATH=$PATH" "HOME=${HOME:-/}" "LANG=${LANG:-C.UTF-8}")
for name in TZ SSL_CERT_FILE SSL_CERT_DIR; do [ -z "${!name:-}" ] || environment+=("$name=${!name}"); done

# pid_of NAME: its pid, if it still runs.
pid_of() {
    local pid marked _
    [ -e "$state/run/$1" ] || return 1
    read -r pid marked _ <"$state/run/$1" || return 1
    [ "$(mark "$pid")" = "$marked" ] && printf '%s' "$pid"
}

# start NAME STAMP COMMAND…: in a session of its own, so that it outlives this terminal and its children can be
# stopped with it. Runs already what the stamp describes: nothing to do. Runs with another stamp: replaced.
start() {
    local name=$1 stamp=$2 pid _; shift 2
    stamp=$(sha256sum <<<"$stamp ${environment[*]} $*" | cut -c1-16)
    if pid_of "$name" >/dev/null; then
        read -r _ _ pid <"$state/run/$name"
        [ "$pid" != "$stamp" ] || return 0
        stop_process "$name"
    fi
    mkdir -p "$state/log" "$state/run"
    (
        # shellcheck disable=SC2046  # names have no spaces
        unset -v $(compgen -e) 2>/dev/null || true
        export "${environment[@]}"
        exec setsid "$@" </dev/null >>"$state/log/$name.log" 2>&1 8>&- 9>&-
    ) &
    pid=$!
    disown "$pid"   # else bash reports its end
    printf '%s %s %s\n' "$pid" "$(mark "$pid")" "$stamp" >"$state/run/$name"
}

# stop_process NAME: asks, asks again (a worker then hands its runs back at once), and ends it.
stop_process() {
    local pid signal limit=20
    [ "$1" != database ] || limit=200   # a database may have to write much; killed, it would have to recover
    for signal in TERM TERM KILL; do
        pid=$(pid_of "$1") || break
        kill "-$signal" -- "-$pid" 2>/dev/null || kill "-$signal" "$pid" 2>/dev/null || break
        kill -CONT -- "-$pid" 2>/dev/null || true   # the tour stops a worker's clock; a stopped process hears nothing
        wait_for "$limit" not pid_of "$1" || limit=100
    done
    rm -f "$state/run/$1"
}

not() { ! "$@" >/dev/null; }

# wait_for TENTHS COMMAND…: until the command succeeds, or the tenths of a second are over.
wait_for() {
    local left=$1; shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 0.1
    done
}

# Workers first, the database last: whoever stops still writes.
stop_all() {
    local name
    for name in "$state"/run/worker* "$state"/run/{reaper,api,model,provider,database}; do
        [ -e "$name" ] && stop_process "${name##*/}"
    done
    remove_socket
}

remove_socket() { [ ! -e "$state/socket" ] || { rm -rf "$(<"$state/socket")"; rm -f "$state/socket"; }; }

# ---- ports and HTTP

connects() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# port_for NAME [WISH]: the port it had last time if that is free, else the wish, else any free one below the range
# from which the kernel serves outgoing connections.
port_for() {
    local file=$state/port/$1 port _
    mkdir -p "$state/port"
    port=$(cat "$file" 2>/dev/null || printf '%s' "${2:-}")
    for _ in {1..50}; do
        [ -n "$port" ] && ! connects "$port" && break
        port=$((20000 + RANDOM % 12000))
    done
    printf '%s' "$port" | tee "$file"
}

# http PORT METHOD PATH [BODY]: prints the body, with the status as its first line. In bash, because curl may be
# missing on a fresh machine; HTTP/1.0, so that the body is plain and ends with the connection.
http() {
    local port=$1 method=$2 path=$3 body=${4:-} answer
    local LC_ALL=C   # lengths in bytes
    answer=$(
        exec 2>/dev/null
        exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
        printf '%s %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\n' "$method" "$path" "$port" >&3
        [ -z "${token:-}" ] || printf 'Authorization: Bearer %s\r\n' "$token" >&3
        [ -z "$body" ] || printf 'Content-Type: application/json\r\nContent-Length: %d\r\n' "${#body}" >&3
        printf '\r\n%s' "$body" >&3
        timeout 20 cat <&3 || true   # whether it is whole, its status line says
    ) || return 1
    [[ $answer =~ ^HTTP/1\.[01]\ ([0-9]{3}) ]] || return 1
    printf '%s\n%s' "${BASH_REMATCH[1]}" "${answer#*$'\r\n\r\n'}"
}

answers_200() { [[ $(http "$1" GET "$2") == 200$'\n'* ]]; }

# json_string TEXT: as a JSON string.
json_string() {
    local LC_ALL=C text=$1 code char
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    for code in {1..31}; do
        printf -v char '%b' "\\x$(printf %x "$code")"
        [[ $text != *"$char"* ]] || text=${text//"$char"/$(printf '\\u%04x' "$code")}
    done
    printf '"%s"' "$text"
}

# json_field NAME: the last string of that name in the JSON on stdin, unescaped; nothing if there is none. The pattern
# cannot match inside a string, where each quote has a backslash before it.
json_field() {
    local text
    text=$(LC_ALL=C sed -n 's/.*"'"$1"'":[[:space:]]*"\(\(\\.\|[^"\\]\)*\)".*/\1/p')
    # No control characters but line feed and tab: an answer must not be able to steer a terminal.
    printf '%b' "${text//\\\"/\"}" | LC_ALL=C tr -d '\000-\010\013-\037\177'
}

# ---- the private database

# The engine a private server is made with: SA_ENGINE, else what the machine has, MariaDB first and where it has none.
engine_here() {
    local PATH=$PATH:/usr/sbin
    [ -z "${SA_ENGINE:-}" ] || { printf '%s' "$SA_ENGINE"; return; }
    if ! command -v mariadbd >/dev/null && command -v mysqld >/dev/null && ! mysqld --version 2>/dev/null | grep -q MariaDB
    then printf mysql; else printf mariadb; fi
}

# start_database: a server of our own on 127.0.0.1, with a random password, in the quickstart's folder. Runs it
# already, it stays. Sets database_url, without the database's name, and client, a command that reaches it.
start_database() {
    local facts engine port password server init data as=() state=$home
    private_folder "$state"
    facts=$("$here/engine" "$(engine_here)") || die 'there is no database server to use: see above.' \
        'Or set DATABASE_URL to an empty database of yours.'
    engine=$(sed -n 's/^ENGINE=//p' <<<"$facts")
    data=$state/data-$engine   # an engine cannot read the other's
    eval "server=($(sed -n 's/^SERVER_CMD=//p' <<<"$facts"))"
    eval "init=($(sed -n 's/^INIT_CMD=//p' <<<"$facts"))"
    [ "$(id -u)" != 0 ] || as=(--user=root)
    [ -s "$state/password" ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$state/password"
    password=$(<"$state/password")
    [ "$(cat "$state/engine" 2>/dev/null)" = "$engine" ] || stop_process database
    if ! pid_of database >/dev/null; then
        printf '%s\n' "$engine" >"$state/engine"
        if [ ! -e "$data/made" ]; then
            say "making a private $engine ($(sed -n 's/^VERSION=//p' <<<"$facts")) in $(short "$data")"
            mkdir -p "$state/log" "$state/tmp"
            rm -rf "$data"
            TMPDIR=$state/tmp "${init[@]}" --datadir="$data" "${as[@]}" >"$state/log/database.log" 2>&1 ||
                die_with_log database "the data folder could not be initialised"
            : >"$data/made"
        fi
        accounts "$password" >"$state/accounts.sql"
        # The socket's path must be shorter than 108 bytes, which a clone's own path may not be.
        remove_socket
        mktemp -d >"$state/socket"
        port=$(port_for database)
        # A server that starts removes what looks like temporary tables in its TMPDIR, also those of another that shares it.
        mkdir -p "$state/tmp"
        start database "$data" env TMPDIR="$state/tmp" "${server[@]}" --datadir="$data" --bind-address=127.0.0.1 --port="$port" \
            --socket="$(<"$state/socket")/socket" --pid-file="$data/pid" --init-file="$state/accounts.sql" \
            --skip-name-resolve --skip-log-bin "${as[@]}"
        wait_for 600 database_is_up "$port" || true
        pid_of database >/dev/null || die_with_log database 'the private database did not start'
    fi
    port=$(<"$state/port/database")
    # shellcheck disable=SC2034  # for the callers
    database_url=mysql://asterion:$password@127.0.0.1:$port
    eval "client=(env MYSQL_PWD=$password $(sed -n 's/^CLIENT_CMD=//p' <<<"$facts") -h127.0.0.1 -P$port -uasterion)"
}

database_runs() { local state=$home; pid_of database >/dev/null; }

# Up, or dead: both end the waiting.
database_is_up() { connects "$1" || not pid_of database; }

# Run by the server at each start, before it listens: no moment in which anybody on this machine could come in without
# the password. One statement a line, as the server wants it.
accounts() {
    local name
    printf "CREATE USER IF NOT EXISTS 'asterion'@'%%' IDENTIFIED BY '%s';\n" "$1"
    for name in asterion asterion_tour; do
        printf 'CREATE DATABASE IF NOT EXISTS %s;\n' "$name"
        printf "GRANT ALL PRIVILEGES ON %s.* TO 'asterion'@'%%';\n" "$name"
    done
    printf "ALTER USER 'root'@'localhost' IDENTIFIED BY '%s';\n" "$1"
    printf "DROP USER IF EXISTS 'root'@'127.0.0.1';\nDROP USER IF EXISTS 'root'@'::1';\n"
}
