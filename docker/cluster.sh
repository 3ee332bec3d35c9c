# shellcheck shell=bash
# Three servers of a store that reach each other through delaying proxies, as if each were in a
# different building, for scripts that source lib.sh, single.sh and this file. A script that starts
# a cluster has to call take_down_cluster at its end.

members=()
carriers=()
ports=()

# free_ports COUNT: sets `ports` to this number of free loopback ports.
free_ports() {
    local port
    ports=()
    while [ ${#ports[@]} -lt "$1" ]; do
        port=$(free_port)
        case " ${ports[*]-} " in *" $port "*) ;; *) ports+=("$port") ;; esac
    done
}

# carry TIME ADDRESS...: starts proxies for these addresses, and sets `carried` to the proxies'
# addresses.
carry() {
    local time=$1 output
    shift
    # shellcheck disable=SC2154 # the program is set by the sourcing script
    exec {output}< <(IFS=, && exec "$bench" --carry "$*" --between "$time")
    carriers+=($!)
    IFS=, read -r -a carried <&"$output"
    exec {output}<&-
}

# run_member NAME OPTION...: starts a server on the network of this machine, with its data in memory
# unless it waits for the disk.
run_member() {
    local name=$PROJECT-${0##*/}-$$-$1 data=(--tmpfs /data --tmpfs /datalog)
    [ "${ETCD_UNSAFE_NO_FSYNC:-true}" = true ] || data=(--volume /data --volume /datalog)
    shift
    members+=("$name")
    docker run --detach --name "$name" --network host --user 0 "${data[@]}" "$@" >/dev/null
}

# start_cluster STORE TIME: starts three servers of etcd or ZooKeeper with this round-trip time
# between them, sets `cluster` to their addresses, and waits until they are ready.
start_cluster() {
    local store=$1 time=$2 i other lines
    local -a client=() peer=() all=() carried=()
    case $store in
    etcd)
        free_ports 6
        client=("${ports[@]:0:3}") peer=("${ports[@]:3}")
        carry "$time" "${peer[@]/#/127.0.0.1:}"
        for i in 0 1 2; do all+=("bench$i=http://${carried[$i]}"); done
        for i in 0 1 2; do
            run_member "etcd$i" --entrypoint etcd \
                -e "ETCD_NAME=bench$i" -e ETCD_DATA_DIR=/data/etcd -e ETCD_LOG_LEVEL=warn \
                -e "ETCD_UNSAFE_NO_FSYNC=${ETCD_UNSAFE_NO_FSYNC:-true}" -e ETCD_METRICS=extensive \
                -e ETCD_QUOTA_BACKEND_BYTES=6000000000 \
                -e "ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:${client[$i]}" \
                -e "ETCD_ADVERTISE_CLIENT_URLS=http://127.0.0.1:${client[$i]}" \
                -e "ETCD_LISTEN_PEER_URLS=http://127.0.0.1:${peer[$i]}" \
                -e "ETCD_INITIAL_ADVERTISE_PEER_URLS=http://${carried[$i]}" \
                -e "ETCD_INITIAL_CLUSTER=$(IFS=, && echo "${all[*]}")" \
                "${ETCD_IMAGE:-$PROJECT-etcd}"
        done
        ;;
    zookeeper)
        # Each has a port for its followers and a port for elections.
        free_ports 9
        client=("${ports[@]:0:3}") peer=("${ports[@]:3}")
        carry "$time" "${peer[@]/#/127.0.0.1:}"
        local java=(-Xmx256m -XX:+UseSerialGC "-Dzookeeper.forceSync=${ZK_FORCE_SYNC:-no}"
            -Dzookeeper.fastleader.maxNotificationInterval=1000
            -Dorg.slf4j.simpleLogger.defaultLogLevel=error)
        for i in 0 1 2; do
            # Each knows its own ports, and the proxies of the others.
            all=("${carried[@]##*:}")
            all[i]=${peer[$i]} all[i + 3]=${peer[$i + 3]}
            lines=
            for other in 0 1 2; do
                lines+="server.$((other + 1))=127.0.0.1:${all[$other]}:${all[$other + 3]}"
                lines+=";127.0.0.1:${client[$other]} "
            done
            run_member "zk$i" \
                -e "ZOO_MY_ID=$((i + 1))" -e "ZOO_SERVERS=$lines" -e ZOO_STANDALONE_ENABLED=false \
                -e ZOO_TICK_TIME=1000 -e ZOO_INIT_LIMIT=10 -e ZOO_SYNC_LIMIT=10 \
                -e ZOO_MAX_CLIENT_CNXNS=0 -e ZOO_ADMINSERVER_ENABLED=false \
                -e "ZOO_4LW_COMMANDS_WHITELIST=*" \
                -e "JVMFLAGS=${java[*]}" \
                "${ZOOKEEPER_IMAGE:-$PROJECT-zookeeper}"
        done
        ;;
    *) die "$store has no cluster; use etcd or zookeeper" ;;
    esac
    # shellcheck disable=SC2034 # for the scripts that source this
    cluster=$(IFS=, && echo "${client[*]/#/127.0.0.1:}")
    for i in "${client[@]}"; do await "$store" "$i"; done
}

take_down_cluster() {
    [ ${#members[@]} -eq 0 ] || docker rm --force --volumes "${members[@]}" >/dev/null
    [ ${#carriers[@]} -eq 0 ] || kill "${carriers[@]}" 2>/dev/null || true
    members=() carriers=()
}
