# shellcheck shell=bash
# Parts shared by the scripts in this folder that run servers as local processes. They source it
# after docker/lib.sh, and set RUN, the folder of the servers' data.

GRACE=${GRACE:-5} # seconds for an orderly shutdown

die() {
    say "tests/${0##*/}: $*"
    exit 1
}

# ---- programs ----

# programs STORE: prints its programs, the server first.
programs() {
    case $1 in
    etcd) echo etcd etcdctl ;;
    zookeeper) echo zkServer.sh java ;;
    postgres) echo postgres initdb psql ;;
    mysql) echo mariadbd mariadb-install-db my_print_defaults resolveip mariadb ;;
    redis) echo redis-server ;;
    valkey | redlock) echo valkey-server ;;
    esac
}

# packages RELEASE FOLDER: prints the Debian packages of its programs.
packages() {
    case $2:$1 in
    etcd:*) echo etcd-server,etcd-client ;;
    zookeeper:bookworm) echo libzookeeper-java,openjdk-17-jre-headless ;;
    zookeeper:*) echo libzookeeper-java,openjdk-21-jre-headless ;;
    postgres:bookworm) echo postgresql-15 ;;
    postgres:*) echo postgresql-17 ;;
    mysql:*) echo mariadb-server ;;
    redis:bookworm) echo redis-server ;;
    redis:*) echo redis-server,valkey-server ;;
    esac
}

# unpack RELEASE FOLDER: unpacks its packages, and sets `root` to the folder.
unpack() {
    local link
    # shellcheck disable=SC2153 # docker/lib.sh sets it
    root=$ROOT/target/$1/$2
    [ ! -d "$root" ] || return 0
    borrow mmdebstrap mmdebstrap
    say "unpacking $(packages "$@") of Debian $1 below target/$1"
    rm -rf "$root.part"
    mkdir -p "$ROOT/target/$1"
    mmdebstrap --quiet --mode=chrootless --variant=extract --include="$(packages "$@")" \
        "$1" "$root.part" >&2
    # Absolute links point to files of the same packages.
    find "$root.part" -lname '/*' | while read -r link; do
        ln -sfn "$root$(readlink "$link")" "$link"
    done
    if [ "$2" = zookeeper ]; then
        # The server names its libraries by absolute paths of an installed system.
        mkdir "$root.part/jars"
        ln -s ../usr/share/java/{metrics-core,snappy-java,slf4j-{api,simple},zookeeper-jute}.jar \
            ../usr/share/java/netty-{buffer,codec,common,handler,resolver,transport{,-native-epoll,-native-unix-common}}.jar \
            "../usr/share/java/$(basename "$root.part"/usr/share/java/zookeeper-[0-9]*.jar)" "$root.part/jars"
    fi
    mv "$root.part" "$root"
}

# wrap PROGRAM: makes it run from the unpacked folder `root`, with its own loader and libraries, and
# puts it in `programs`, which contains nothing else.
wrap() {
    local path='' kind loader libraries
    # Prefer a file to a link: psql is also a link to a Perl script. But redis-server is only a
    # link.
    for kind in f l; do
        path=${path:-$(find "$root/usr" -type $kind -perm -u=x -name "$1" -print -quit)}
    done
    [ -n "$path" ] || die "$1 is not in the packages of $root"
    mkdir -p "$root/programs"
    if [ "$(head -c 4 "$path" | tail -c 3)" = ELF ]; then
        # Releases before trixie have some libraries in /lib.
        libraries=$root/usr/lib/$(uname -m)-linux-gnu:$root/lib/$(uname -m)-linux-gnu
        loader=$(find "$root" -maxdepth 4 -name 'ld-linux*' -print -quit)
        mv "$path" "$path.elf"
        # Keep the program's name: PostgreSQL's programs look for each other in their own folder.
        printf '#!/bin/sh\nexec %q --library-path %q --argv0 %q %q "$@"\n' \
            "$loader" "$libraries" "$path" "$path.elf" >"$path"
        chmod +x "$path"
    fi
    ln -sf "$path" "$root/programs/$1"
}

# use RELEASE FOLDER PROGRAM...: puts these programs of the release first in PATH.
use() {
    local program
    unpack "$1" "$2"
    for program in "${@:3}"; do [ -e "$root/programs/$program" ] || wrap "$program"; done
    PATH=$root/programs:$PATH
    case $2 in
    zookeeper) JARS=$root/jars ;;
    mysql) BASEDIR=$root/usr ;;
    esac
}

# ---- servers ----

# port SERVER NUMBER: prints the local port in place of this port of the server.
port() {
    local file=$RUN/$1/port.$2 number
    if [ ! -e "$file" ]; then
        mkdir -p "$RUN/$1"
        until number=$(free_port) && ! grep -qxs "$number" "$RUN"/*/port.*; do :; done
        echo "$number" >"$file"
    fi
    cat "$file"
}
published() { echo "127.0.0.1:$(port "$@")"; }

# client SERVER PROGRAM ARGUMENT...: runs the program on this machine.
client() {
    env "ETCDCTL_ENDPOINTS=$(address "$1")" PGHOST=127.0.0.1 PGPASSWORD=postgres \
        MYSQL_HOST=127.0.0.1 {PGPORT,MYSQL_TCP_PORT}="$(address "$1" | cut -d : -f 2)" "${@:2}"
}

# is_up SERVER: succeeds if the process that this script started runs.
is_up() {
    local pid start
    read -r pid start 2>/dev/null <"$RUN/$1/process" && [ "$(began "$pid")" = "$start" ]
}

# began PID: prints the start time of a process; nothing if it does not exist or is a zombie.
began() {
    local stat fields
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # The fields after the name, which may contain blanks.
    read -r -a fields <<<"${stat##*) }"
    [ "${fields[0]}" = Z ] || echo "${fields[19]}"
}

# start SERVER: runs its command in a new session.
start() {
    ! is_up "$1" || return 0
    (cd "$RUN/$1" && exec setsid bash ./command </dev/null >>log 2>&1) &
    echo "$! $(began $!)" >"$RUN/$1/process"
}

# signal SERVER NAME: sends a signal, if the server runs.
signal() {
    local pid
    ! is_up "$1" || { read -r pid _ <"$RUN/$1/process" && kill "-$2" "$pid" 2>/dev/null; } || true
}

# await_end SERVER SECONDS: fails if the server still runs.
await_end() {
    local end=$((SECONDS + $2))
    while is_up "$1"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

# stop SERVER...: shuts servers down, or kills them after $GRACE seconds.
stop() {
    local server
    for server; do
        # With TERM, PostgreSQL would wait for its clients.
        case $server in postgres) signal "$server" INT ;; *) signal "$server" TERM ;; esac
        signal "$server" CONT
    done
    for server; do
        await_end "$server" "$GRACE" || { signal "$server" KILL && await_end "$server" "$GRACE"; } ||
            die "$server does not end"
    done
}

# launch SERVER COMMAND...: starts it with a command that is stored for restarts.
launch() {
    local folder=$RUN/$1 as=()
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid=nobody "--regid=$(id -g nobody)" --clear-groups)
        "${as[@]}" test -r "$HERE/lib.sh" ||
            die "the user nobody, who runs the servers of root, may not read $ROOT: clone to another folder"
    fi
    if [ ! -e "$folder/command" ]; then
        mkdir -p "$folder"/{data,log.d,conf}
        printf '%q ' exec ${as[@]+"${as[@]}"} env "PATH=$PATH" "CERTS=$DISTLOCK_CERTS" "${@:2}" >"$folder/command"
        [ "$(id -u)" != 0 ] || chown -R nobody "$folder"
    fi
    start "$1"
}

# launch_etcd SERVER SETTING...
launch_etcd() {
    local url peer
    url=http://$(published "$1" 2379) peer=http://$(published "$1" 2380)
    launch "$1" "ETCD_NAME=$1" "ETCD_DATA_DIR=$RUN/$1/data/etcd" ETCD_UNSAFE_NO_FSYNC=true \
        ETCD_METRICS=extensive "ETCD_LISTEN_CLIENT_URLS=$url" "ETCD_ADVERTISE_CLIENT_URLS=$url" \
        "ETCD_LISTEN_PEER_URLS=$peer" "ETCD_INITIAL_ADVERTISE_PEER_URLS=$peer" \
        "ETCD_INITIAL_CLUSTER=$1=$peer" "${@:2}" etcd
}

# launch_zookeeper SERVER SETTING...
launch_zookeeper() {
    local folder=$RUN/$1
    launch "$1" "JARS=$JARS" "ZOO_CONF_DIR=$folder/conf" "ZOO_DATA_DIR=$folder/data" \
        "ZOO_DATA_LOG_DIR=$folder/log.d" ZOO_TICK_TIME=1000 ZOO_INIT_LIMIT=10 ZOO_SYNC_LIMIT=10 \
        ZOO_MAX_CLIENT_CNXNS=0 ZOO_ADMINSERVER_ENABLED=false "ZOO_4LW_COMMANDS_WHITELIST=*" \
        "JVMFLAGS=-Xmx256m -XX:+UseSerialGC -Dzookeeper.forceSync=no -Dznode.container.checkIntervalMs=1000 -Dzookeeper.fastleader.maxNotificationInterval=1000" \
        "${@:2}" "$HERE/zookeeper/entrypoint"
}

# run_server SERVER: starts it with the settings of docker/compose.yml.
run_server() {
    local folder=$RUN/$1 all='' i
    case $1 in
    etcd?)
        for i in etcd{1..3}; do all+="${all:+,}$i=http://$(published "$i" 2380)"; done
        launch_etcd "$1" "ETCD_INITIAL_CLUSTER=$all" ETCD_INITIAL_CLUSTER_TOKEN=distlock
        ;;
    etcd-auth) launch_etcd "$1" ETCD_AUTH_TOKEN_TTL=5 ;;
    etcd-tls)
        launch_etcd "$1" {ETCD_LISTEN_CLIENT_URLS,ETCD_ADVERTISE_CLIENT_URLS}="https://$(published "$1" 2379)" \
            "ETCD_CERT_FILE=$DISTLOCK_CERTS/server.pem" "ETCD_KEY_FILE=$DISTLOCK_CERTS/server-key.pem" \
            "ETCD_TRUSTED_CA_FILE=$DISTLOCK_CERTS/ca.pem" ETCD_CLIENT_CERT_AUTH=true
        ;;
    zk?)
        for i in 1 2 3; do
            all+="server.$i=127.0.0.1:$(port "zk$i" 2888):$(port "zk$i" 3888);$(published "zk$i" 2181) "
        done
        launch_zookeeper "$1" "ZOO_MY_ID=${1#zk}" ZOO_STANDALONE_ENABLED=false "ZOO_SERVERS=$all" \
            ZOO_CFG_EXTRA="minSessionTimeout=-1 maxSessionTimeout=-1"
        ;;
    zk-tls)
        all="server.1=127.0.0.1:$(port "$1" 2888):$(port "$1" 3888);$(published "$1" 2181)"
        launch_zookeeper "$1" ZOO_STANDALONE_ENABLED=true "ZOO_SERVERS=$all" "ZOO_CFG_EXTRA=
            minSessionTimeout=-1 maxSessionTimeout=-1
            secureClientPortAddress=127.0.0.1 secureClientPort=$(port "$1" 2281)
            serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
            ssl.clientAuth=need
            ssl.keyStore.type=PEM ssl.keyStore.location=$DISTLOCK_CERTS/server-both.pem
            ssl.trustStore.type=PEM ssl.trustStore.location=$DISTLOCK_CERTS/ca.pem"
        ;;
    postgres)
        launch "$1" "PGDATA=$folder/data/pg" "$HERE/postgres/entrypoint" -clisten_addresses=127.0.0.1 \
            -cunix_socket_directories= "-cport=$(port "$1" 5432)" -cmax_connections=500 \
            -cscram_iterations=64 -cshared_preload_libraries=pg_stat_statements \
            -cpg_stat_statements.track=all
        ;;
    mysql)
        launch "$1" ${BASEDIR:+"BASEDIR=$BASEDIR"} "DATADIR=$folder/data/mysql" "$HERE/mysql/entrypoint" \
            --bind-address=127.0.0.1 "--port=$(port "$1" 3306)" "--socket=$folder/data/socket" \
            --innodb-flush-log-at-trx-commit=0 --max-connections=500 --max-connect-errors=1000000 \
            --performance-schema=ON --performance-schema-digests-size=2000
        ;;
    redis | valkey | redlock?)
        launch "$1" "SERVER=$([ "$1" = redis ] && echo redis || echo valkey)" "DATADIR=$folder/data" \
            "TLS_PORT=$(port "$1" 6380)" "$HERE/redis/entrypoint" --bind 127.0.0.1 --port "$(port "$1" 6379)"
        ;;
    esac
}

# is_ready SERVER: succeeds if it serves clients.
is_ready() {
    local question answer
    case $1 in
    postgres) psql "$1" --command='SELECT 1' >/dev/null 2>&1 && return ;;
    # These listen only when they serve.
    etcd-tls | mysql) question='' answer='' ;;
    etcd*) question='GET /health HTTP/1.0\r\n\r\n' answer='"health":"true"' ;;
    # A node outside the quorum replies without a mode.
    zk*) question=srvr answer='^Mode: ' ;;
    *) question='AUTH default root\r\nPING\r\nQUIT\r\n' answer='^+PONG' ;;
    esac
    # shellcheck disable=SC2059 # the question is the format
    (exec 3<>"/dev/tcp/$(address "$1" | tr : /)" && printf "$question" >&3 &&
        { [ -z "$answer" ] || grep -q "$answer" <&3; }) 2>/dev/null
}
