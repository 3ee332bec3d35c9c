# shellcheck shell=bash
# Servers to measure on, for scripts that source lib.sh and this file: one of each store, with its
# data in memory. A script that starts servers has to call take_down_single at its end.

PATIENCE=60 # seconds until a server must be ready
# The default TTL plus one, in seconds: a Redis server that started less than a TTL ago grants
# nothing to distlock, because it may have lost its data.
QUIET=11

singles=()
files=

# run_single NAME OPTION...: starts a server with its data in memory on the network of this machine,
# because a published port would add a proxy.
run_single() {
    local name=$PROJECT-${0##*/}-$$-$1
    shift
    singles+=("$name")
    docker run --detach --name "$name" --network host --user 0 --tmpfs /data --tmpfs /datalog "$@" >/dev/null
}

# serves BACKEND PORT: succeeds if a server of that kind serves on the port.
serves() {
    case $1 in
    postgres)
        docker exec "${singles[-1]}" pg_isready --quiet --host=127.0.0.1 --port="$2"
        return
        ;;
    mysql)
        docker exec "${singles[-1]}" mariadb --skip-ssl --host=127.0.0.1 --port="$2" \
            --user=root --password=root --execute="USE distlock" 2>/dev/null
        return
        ;;
    redis)
        docker exec "${singles[-1]}" redis-cli -e -p "$2" --user default --pass root \
            --no-auth-warning ping >/dev/null 2>&1
        return
        ;;
    esac
    local question="GET /health HTTP/1.0\r\n\r\n" answer='"health":"true"'
    [ "$1" = etcd ] || question=srvr answer='^Mode: '
    # shellcheck disable=SC2059 # the question is the format
    (exec 3<>"/dev/tcp/127.0.0.1/$2" && printf "$question" >&3 && grep -q "$answer" <&3) 2>/dev/null
}

# await BACKEND PORT: waits until the last started server is ready.
await() {
    SECONDS=0
    until serves "$1" "$2"; do
        [ $SECONDS -lt "$PATIENCE" ] || die "$1 is not ready after $PATIENCE s"
        sleep 0.2
    done
}

# start_single BACKEND: starts a server, or the five of Redlock, sets `single` to its address, and
# waits until it is ready.
start_single() {
    local backend=$1 port peer_port number nodes=()
    port=$(free_port)
    case $backend in
    etcd)
        peer_port=$(free_port)
        # The quota is for a run's history, most of which is compacted.
        run_single etcd --entrypoint etcd \
            -e ETCD_NAME=bench -e ETCD_DATA_DIR=/data/etcd -e ETCD_UNSAFE_NO_FSYNC=true \
            -e ETCD_QUOTA_BACKEND_BYTES=6000000000 -e ETCD_LOG_LEVEL=warn \
            -e "ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:$port" \
            -e "ETCD_ADVERTISE_CLIENT_URLS=http://127.0.0.1:$port" \
            -e "ETCD_LISTEN_PEER_URLS=http://127.0.0.1:$peer_port" \
            -e "ETCD_INITIAL_ADVERTISE_PEER_URLS=http://127.0.0.1:$peer_port" \
            -e "ETCD_INITIAL_CLUSTER=bench=http://127.0.0.1:$peer_port" \
            "${ETCD_IMAGE:-$PROJECT-etcd}"
        ;;
    zookeeper)
        run_single zookeeper \
            -e ZOO_STANDALONE_ENABLED=true -e "ZOO_SERVERS=server.1=127.0.0.1:2888:3888;127.0.0.1:$port" \
            -e ZOO_ADMINSERVER_ENABLED=false -e "ZOO_4LW_COMMANDS_WHITELIST=*" -e ZOO_MAX_CLIENT_CNXNS=0 \
            -e "JVMFLAGS=-Xms1g -Xmx1g -XX:+UseSerialGC -Dzookeeper.forceSync=no -Dorg.slf4j.simpleLogger.defaultLogLevel=error" \
            "${ZOOKEEPER_IMAGE:-$PROJECT-zookeeper}"
        ;;
    # The user postgres may not write to /data, which belongs to root; /dev/shm is in memory, too.
    postgres)
        run_single postgres --user postgres --shm-size 4g -e PGDATA=/dev/shm/pg -e POSTGRES_PASSWORD=postgres \
            "${POSTGRES_IMAGE:-$PROJECT-postgres}" -c "port=$port" -c max_connections=500 \
            -c shared_preload_libraries=pg_stat_statements
        ;;
    mysql)
        run_single mysql --user mysql --shm-size 4g -e DATADIR=/dev/shm/mysql -e MYSQL_ROOT_PASSWORD=root -e MYSQL_DATABASE=distlock \
            "${MYSQL_IMAGE:-$PROJECT-mysql}" --port="$port" --max-connections=500 --max-connect-errors=1000000 \
            --performance-schema=ON --performance-schema-digests-size=10000
        ;;
    redis) run_single redis "${REDIS_IMAGE:-$PROJECT-redis}" --port "$port" --bind 127.0.0.1 ;;
    redlock)
        for number in 1 2 3 4 5; do
            port=$(free_port)
            run_single "redlock$number" "${REDIS_IMAGE:-$PROJECT-redis}" --port "$port" \
                --bind 127.0.0.1
            await redis "$port"
            nodes+=("127.0.0.1:$port")
        done
        sleep "$QUIET"
        # shellcheck disable=SC2034 # for the scripts that source this
        single=$(IFS=, && echo "${nodes[*]}")
        return
        ;;
    sqlite)
        files=$(mktemp --directory --tmpdir=/dev/shm)
        # shellcheck disable=SC2034 # for the scripts that source this
        single=$files/bench.db
        return
        ;;
    *) die "unknown backend $backend; use etcd, zookeeper, postgres, mysql, redis, redlock or sqlite" ;;
    esac
    # shellcheck disable=SC2034 # for the scripts that source this
    single=127.0.0.1:$port
    await "$backend" "$port"
    [ "$backend" != redis ] || sleep "$QUIET"
}

# have_images BACKEND...: succeeds if docker/up has built those images.
have_images() {
    local backend
    for backend in "$@"; do
        [ "$backend" = sqlite ] || docker image inspect "$PROJECT-$(image_of "$backend")" >/dev/null 2>&1 || return
    done
}

# shellcheck disable=SC2317 # called by traps
take_down_single() {
    [ ${#singles[@]} -eq 0 ] || docker rm --force "${singles[@]}" >/dev/null
    [ -z "$files" ] || rm -rf "$files"
}
