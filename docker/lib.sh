# shellcheck shell=bash
# Parts shared by the scripts in this folder, which source it. The variables
# that tune the servers are listed at the top of compose.yml.

umask 022 # servers run as other users, who read what the scripts write

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-distlock}
PROJECT=$COMPOSE_PROJECT_NAME

# The scripts' files on disk go here. A second project has its own folder, so that removing it
# leaves the first one's certificates alone.
STATE=$ROOT/target/docker
[ "$PROJECT" = distlock ] || STATE=$ROOT/target/docker-$PROJECT
export DISTLOCK_CERTS=${DISTLOCK_CERTS:-$STATE/certs}

# Programs downloaded by `borrow`.
TOOLS=$ROOT/target/tools
PATH=$PATH:$TOOLS/bin

CLUSTERED=(etcd1 etcd2 etcd3 zk1 zk2 zk3 postgres1 postgres2 galera1 galera2 galera3
    redis{1..3} sentinel{1..3} cluster{1..6})
# The stores that have servers.
STORES=(etcd zookeeper postgres mysql redis valkey redlock)
# Other setups of these stores, which are started only if they are named.
SHAPES=(postgres-standby pgbouncer galera redis-sentinel redis-cluster)

# The packages that are built together, with one set of features: with other features the
# dependencies would be built again.
# The drivers whose types the library accepts.
DRIVERS=bb8-postgres-0_9,deadpool-postgres-0_14,diesel-2,mysql_async-0_37,rusqlite-0_42,sqlx-0_9,tokio-postgres-0_7,tokio-util-0_7
ALL=etcd,zookeeper,postgres,mysql,redis,redlock,sqlite,blocking,serde,zookeeper-sasl,metrics,tracing
TOGETHER=(--package distlock --package distlock-tests --package distlock-testkit
    --package distlock-metrics-example --package distlock-torture
    --package distlock-interleavings --package distlock-interop --package distlock-model
    --package distlock-cli --package distlock-zookeeper-model
    --features "distlock/${ALL//,/,distlock/},distlock-tests/${ALL//,/,distlock-tests/},distlock-tests/traced")

# Adds PostgreSQL in the process of the tests, which takes minutes to build.
embed() { TOGETHER+=(--features distlock-tests/postgres-embedded); }

# services STORE: prints the names of its containers.
services() {
    case $1 in
    etcd) echo etcd1 etcd2 etcd3 etcd-tls etcd-auth ;;
    zookeeper) echo zk1 zk2 zk3 zk-tls ;;
    postgres | mysql | redis | valkey) echo "$1" ;;
    redlock) echo redlock1 redlock2 redlock3 redlock4 redlock5 ;;
    postgres-standby) echo postgres1 postgres2 ;;
    pgbouncer) echo postgres pgbouncer ;;
    galera) echo galera1 galera2 galera3 ;;
    redis-sentinel) echo redis{1..3} sentinel{1..3} ;;
    redis-cluster) echo cluster{1..6} ;;
    *) die "unknown store $1 (stores: ${STORES[*]} ${SHAPES[*]})" ;;
    esac
}

# image_of STORE: prints the folder of its image.
image_of() {
    case $1 in
    postgres-standby | pgbouncer) echo postgres ;;
    galera) echo mysql ;;
    valkey | redlock | redis-sentinel | redis-cluster) echo redis ;;
    *) echo "$1" ;;
    esac
}

say() { echo "$*" >&2; }
die() {
    say "docker/${0##*/}: $*"
    exit 1
}

# Prints the comment at the head of the running script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

have() { command -v "$1" >/dev/null 2>&1; }

need_docker() {
    # With these, tests control the servers of tests/up, and docker/down deletes their certificates.
    # shellcheck disable=SC2016 # a command for the user
    [ -z "${DISTLOCK_LOCAL-}" ] ||
        die 'this shell has the variables of tests/up; first run: eval "$(tests/up --stop)"'
    have docker || die "docker is missing; see https://docs.docker.com/engine/install/"
    docker version >/dev/null 2>&1 || die "the Docker engine does not reply; check that it runs, and that you may use it"
}

# borrow PROGRAM PACKAGE...: makes a missing program available from Debian or Ubuntu packages,
# unpacked below target/, so that the machine stays unchanged.
borrow() {
    local program=$1 wrapper=$TOOLS/bin/$1 libs deb
    shift
    have "$program" && return
    if have apt-get && have dpkg; then
        say "fetching $* into ${TOOLS#"$ROOT/"}"
        mkdir -p "$TOOLS"/{bin,lists/partial,cache/archives/partial}
        local apt=(apt-get -qq -o Debug::NoLocking=1
            -o "Dir::State::lists=$TOOLS/lists" -o "Dir::Cache=$TOOLS/cache")
        "${apt[@]}" update >&2 || true # a failing source may not matter
        if "${apt[@]}" install -y --reinstall --no-install-recommends --download-only "$@" >&2; then
            for deb in "$TOOLS"/cache/archives/*.deb; do dpkg -x "$deb" "$TOOLS"; done
            libs=$(uname -m)-linux-gnu
            cat >"$wrapper" <<EOF
#!/bin/sh
export LD_LIBRARY_PATH="$TOOLS/usr/lib/$libs:$TOOLS/lib/$libs"
export PERL5LIB="$TOOLS/usr/share/perl5"
exec "$TOOLS/usr/bin/$program" "\$@"
EOF
            chmod +x "$wrapper"
            { "$wrapper" --version || "$wrapper" version; } >/dev/null 2>&1 && return
            rm "$wrapper"
        fi
    fi
    die "$program is missing; install it first (Debian and Ubuntu: apt-get install $*)"
}

# etcd-client's build runs protoc.
need_protoc() {
    if [ -z "${PROTOC:-}" ] && ! have protoc; then
        borrow protoc protobuf-compiler libprotobuf-dev
        export PROTOC=$TOOLS/bin/protoc PROTOC_INCLUDE=$TOOLS/usr/include
    fi
}

# Without python3-venv, Debian's and Ubuntu's Python lacks only the module ensurepip.
need_venv() {
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        die "Python 3 with venv is missing; install it first" \
            "(Debian and Ubuntu: apt-get install python3-venv)"
}

# Every image that we build starts from an image with our own name, so that docker/down can remove
# that name and leave the user's debian:trixie-slim alone.
make_base() {
    local debian=debian:trixie-slim
    if docker image inspect "$PROJECT-base" >/dev/null 2>&1; then
        return
    elif docker image inspect $debian >/dev/null 2>&1; then
        docker tag $debian "$PROJECT-base"
    elif docker pull $debian >&2; then
        docker tag $debian "$PROJECT-base"
        docker rmi $debian >/dev/null
    else
        say "cannot pull $debian; bootstrapping it instead"
        borrow mmdebstrap mmdebstrap
        mkdir -p "$STATE"
        mmdebstrap --quiet --variant=minbase --include=ca-certificates trixie "$STATE/base.tar" >&2
        docker import "$STATE/base.tar" "$PROJECT-base" >/dev/null
        rm "$STATE/base.tar"
    fi
}

# make_image NAME: builds the image of the folder NAME.
make_image() {
    docker image inspect "$PROJECT-$1" >/dev/null 2>&1 && return
    make_base
    say "building $PROJECT-$1"
    # The classic builder leaves no cache that outlives the image.
    DOCKER_BUILDKIT=0 docker build --build-arg "BASE=$PROJECT-base" --tag "$PROJECT-$1" "$HERE/$1" >"$STATE/$1.log" 2>&1 ||
        {
            tail -n 30 "$STATE/$1.log" >&2
            die "building $PROJECT-$1 failed"
        }
}

# borrow_servers STORE...: starts their servers, and sets the variables for the tests. When the
# calling script ends, in any way, servers that ran before stay, and the others are removed unless
# $keep is set.
borrow_servers() {
    start_servers "$@"
    await_servers
}

# start_servers STORE...: starts their servers like borrow_servers, but returns at once; call
# await_servers later.
start_servers() {
    local store
    was_up=$(docker ps --quiet --filter "label=com.docker.compose.project=$PROJECT")
    had_images=$(docker images --quiet "$PROJECT-base")
    stores_in_use=("$@")
    stores_started=()
    for store in "$@"; do
        # shellcheck disable=SC2046 # a list
        set -- $(services "$store")
        running "$1" || stores_started+=("$store")
    done
    trap give_back EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    "$HERE/up" "${stores_in_use[@]}" >/dev/null &
    starting=$!
}

await_servers() {
    local store status=0
    wait "$starting" || status=$?
    starting=
    [ "$status" -eq 0 ] || return "$status"
    for store in "${stores_in_use[@]}"; do tell_where "$store"; done
}

# tell_where STORE: sets the variables in which tests find its servers.
tell_where() {
    case $1 in
    etcd)
        export DISTLOCK_ETCD_URL DISTLOCK_ETCD_TLS_URL DISTLOCK_ETCD_AUTH_URL
        DISTLOCK_ETCD_URL=$(url etcd)
        DISTLOCK_ETCD_TLS_URL=etcd://$(address etcd-tls)
        DISTLOCK_ETCD_AUTH_URL=etcd://$(address etcd-auth)
        ;;
    zookeeper)
        export DISTLOCK_ZK_URL DISTLOCK_ZK_AUTH_URL DISTLOCK_ZK_TLS_URL
        DISTLOCK_ZK_URL=$(url zookeeper)
        DISTLOCK_ZK_AUTH_URL=zk://$(address zk-tls)
        DISTLOCK_ZK_TLS_URL=zk://$(address zk-tls 2281)
        ;;
    postgres) export DISTLOCK_PG_URL && DISTLOCK_PG_URL=$(url postgres) ;;
    mysql) export DISTLOCK_MYSQL_URL && DISTLOCK_MYSQL_URL=$(url mysql) ;;
    redis)
        export DISTLOCK_REDIS_URL DISTLOCK_REDIS_TLS_URL
        DISTLOCK_REDIS_URL=$(url redis)
        DISTLOCK_REDIS_TLS_URL=rediss://app:apppw@$(address redis 6380)
        ;;
    valkey) export DISTLOCK_VALKEY_URL && DISTLOCK_VALKEY_URL=$(url valkey) ;;
    pgbouncer)
        tell_where postgres # for operators
        export DISTLOCK_PGBOUNCER_URL && DISTLOCK_PGBOUNCER_URL=$(url pgbouncer)
        ;;
    redis-sentinel) export DISTLOCK_REDIS_SENTINEL_URL && DISTLOCK_REDIS_SENTINEL_URL=$(url redis-sentinel) ;;
    redis-cluster) export DISTLOCK_REDIS_CLUSTER_URL && DISTLOCK_REDIS_CLUSTER_URL=$(url redis-cluster) ;;
    redlock) export DISTLOCK_REDLOCK_URL && DISTLOCK_REDLOCK_URL=$(url redlock) ;;
    esac
}

# shellcheck disable=SC2317 # called by the trap
give_back() {
    local status=${1:-$?} store service started=' '
    trap '' INT TERM
    [ -z "${starting-}" ] || wait "$starting" || true
    if [ "$status" -ne 0 ] && [ -n "$was_up${keep:-}" ]; then
        # Faults may be active: servers paused, stopped or cut off.
        "$HERE/up" "${stores_in_use[@]}" >/dev/null || true
    fi
    if [ -z "${keep:-}" ]; then
        for store in ${stores_started[@]+"${stores_started[@]}"}; do
            for service in $(services "$store"); do
                service=$(container "$service")
                # Stores may share a server, and docker/up may have failed before it created all.
                case $started in *" $service "*) continue ;; esac
                ! docker container inspect "$service" >/dev/null 2>&1 || started+="$service "
            done
        done
        # shellcheck disable=SC2086 # a list
        [ -z "${started// /}" ] || remove $started
        # Since the start, other servers may have been started. Those of the tests lack this label.
        [ -n "$was_up$(docker ps --quiet --filter "label=com.docker.compose.project=$PROJECT" \
            --filter "label=com.docker.compose.service")" ] ||
            "$HERE/down" ${had_images:+--keep-images} >&2
    fi
    [ "$status" -eq 0 ] || say "docker/${0##*/}: FAILED"
}

# Sets `compose` to the command for Docker Compose, version 2 or 1, with our file.
need_compose() {
    if docker compose version >/dev/null 2>&1; then
        compose=(docker compose)
    elif have docker-compose; then
        compose=(docker-compose)
    else
        die "Docker Compose is missing; install it first (Debian and Ubuntu: apt-get install docker-compose)"
    fi
    compose+=(--file "$HERE/compose.yml")
}

# container SERVICE: prints the name of its container.
container() { echo "$PROJECT-$1"; }

# remove ID...: removes containers with their volumes. `docker rm --volumes` leaves volumes that
# Compose passed on from an earlier container.
remove() {
    local volumes
    volumes=$(docker container inspect -f '{{range .Mounts}}{{if eq .Type "volume"}}{{println .Name}}{{end}}{{end}}' "$@")
    docker rm --force "$@" >/dev/null
    # shellcheck disable=SC2086 # a list
    [ -z "$volumes" ] || docker volume rm --force $volumes >/dev/null
}

# running SERVICE: succeeds if its container runs.
running() { [ "$(docker inspect -f '{{.State.Running}}' "$(container "$1")" 2>/dev/null)" = true ]; }

# on_peers SERVICE: succeeds if its container is on the network `peers`.
on_peers() {
    [ "$(docker inspect -f "{{if index .NetworkSettings.Networks \"${PROJECT}_peers\"}}yes{{end}}" "$(container "$1")")" = yes ]
}

# free_port: prints a free loopback port.
free_port() {
    local port
    while port=$((20000 + RANDOM % 10000)); (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}

# Provides the programs for docker/impair.
need_netns() {
    local program
    for program in iptables:iptables tc:iproute2 nsenter:util-linux; do
        have "${program%:*}" ||
            die "${program%:*} is missing; install it first (Debian and Ubuntu: apt-get install ${program#*:})"
    done
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null ||
        die "only root may change a container's network;" \
            "run this as root, or allow sudo without a password"
}

# in_netns SERVICE SCRIPT: runs the script with this machine's programs in the network of its
# container.
in_netns() {
    local as_root=() pid
    pid=$(docker inspect -f '{{.State.Pid}}' "$(container "$1")")
    [ "$pid" -gt 0 ] || return 0 # with 0, it would be this machine's own network
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    # All links except lo. /sys cannot be used, because it is this machine's.
    # shellcheck disable=SC2016 # expanded in there
    local links='links() { sed -n "s/^ *\(eth[0-9]*\):.*/\1/p" /proc/self/net/dev; }'
    ${as_root[@]+"${as_root[@]}"} nsenter --target "$pid" --net sh -euc "$links; $2"
}

# repair SERVICE: undoes docker/impair.
repair() {
    # Without these programs nothing can have been changed.
    { have iptables && have tc && have nsenter; } || return 0
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 0
    # shellcheck disable=SC2016 # expanded in there
    in_netns "$1" '
        iptables -F INPUT
        for link in $(links); do
            case $(tc qdisc show dev "$link") in
            *" tbf "*) tc qdisc del dev "$link" root ;;
            esac
        done'
}

# heal SERVICE: puts its container back on `peers` if necessary, and undoes docker/impair.
heal() {
    local address
    repair "$1"
    on_peers "$1" && return
    address=$(docker inspect -f '{{index .Config.Labels "distlock.peer"}}' "$(container "$1")")
    docker network connect --ip "$address" "${PROJECT}_peers" "$(container "$1")"
}

# clustered SERVICE: dies unless it is a running member of a cluster.
clustered() {
    case " ${CLUSTERED[*]} " in
    *" $1 "*) running "$1" || die "$1 is not running; start it with docker/up" ;;
    *) die "unknown server $1 (servers: ${CLUSTERED[*]})" ;;
    esac
}

# address SERVICE [PORT]: prints the address for a client on this machine.
address() {
    local port=${2:-}
    case $1 in
    etcd*) port=${port:-2379} ;;
    zk*) port=${port:-2181} ;;
    postgres*) port=${port:-5432} ;;
    mysql | galera*) port=${port:-3306} ;;
    pgbouncer) port=${port:-6432} ;;
    redis | redis? | valkey | redlock? | cluster?) port=${port:-6379} ;;
    sentinel?) port=${port:-26379} ;;
    esac
    published "$1" "$port"
}

# published SERVICE PORT: prints the address of the container's published port.
published() { docker port "$(container "$1")" "$2/tcp" | sed -n 1p; }

# url STORE: prints the URL for its clients.
url() {
    case $1 in
    etcd) echo "etcd://$(address etcd1),$(address etcd2),$(address etcd3)" ;;
    zookeeper) echo "zk://$(address zk1),$(address zk2),$(address zk3)" ;;
    postgres) echo "postgres://app:apppw@$(address postgres)/distlock" ;;
    mysql) echo "mysql://app:apppw@$(address mysql)/distlock" ;;
    postgres-standby) echo "postgres://app:apppw@$(address postgres1),$(address postgres2)/distlock" ;;
    pgbouncer) echo "postgres://app:apppw@$(address pgbouncer)/distlock?pooler=transaction" ;;
    galera) echo "mysql://app:apppw@$(address galera1),$(address galera2),$(address galera3)/distlock" ;;
    redis | valkey) echo "redis://app:apppw@$(address "$1")" ;;
    # These servers announce addresses that are not on loopback.
    redis-sentinel)
        echo "redis+sentinel://app:apppw@$(address sentinel1),$(address sentinel2),$(address sentinel3)/main?replicas=2&allow_plaintext_credentials=true"
        ;;
    redis-cluster)
        echo "redis://app:apppw@$(address cluster1),$(address cluster2),$(address cluster3)?allow_plaintext_credentials=true"
        ;;
    redlock)
        echo "redlock://app:apppw@$(address redlock1),$(address redlock2),$(address redlock3),$(address redlock4),$(address redlock5)"
        ;;
    esac
}
