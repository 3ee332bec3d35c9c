# shellcheck shell=bash
# Certificates and users of the test servers, for scripts that source lib.sh and this file. These
# scripts have to define `client SERVICE PROGRAM ARGUMENT...`, which runs a store's own client on
# one of its servers.

# sign NAME: creates NAME.pem and NAME-key.pem in the current folder.
sign() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1-key.pem"
    openssl req -config openssl.cnf -new -key "$1-key.pem" -subj "/CN=distlock $1" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial \
        -days 3650 -extfile openssl.cnf -extensions "$1" -out "$1.pem"
}

# have_certs: succeeds if they exist and are valid for at least a day.
have_certs() {
    borrow openssl openssl
    openssl x509 -checkend 86400 -noout -in "$DISTLOCK_CERTS/server-both.pem" >/dev/null 2>&1
}

# Creates a CA and two certificates for ten years, and deletes the CA's key. All users may read the
# other keys, because the servers run as different users; they protect only test data on loopback.
make_certs() {
    say "making certificates in $DISTLOCK_CERTS"
    mkdir -p "$DISTLOCK_CERTS"
    (
        cd "$DISTLOCK_CERTS"
        # etcd's gateway uses the server's certificate as a client, too.
        printf '%s\n' >openssl.cnf \
            '[req]' distinguished_name=name x509_extensions=ca \
            '[name]' \
            '[ca]' basicConstraints=critical,CA:TRUE keyUsage=keyCertSign \
            '[server]' basicConstraints=CA:FALSE extendedKeyUsage=serverAuth,clientAuth \
            subjectAltName=DNS:localhost,IP:127.0.0.1 \
            '[client]' basicConstraints=CA:FALSE extendedKeyUsage=clientAuth
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ca-key.pem
        openssl req -config openssl.cnf -x509 -new -key ca-key.pem -days 3650 -subj "/CN=distlock CA" -out ca.pem
        sign server
        sign client
        chmod 644 {client,server}-key.pem
        rm -f openssl.cnf ca-key.pem ca.srl {client,server}.csr
        # Last, so that it exists only after success: key and certificate in one file, as ZooKeeper
        # requires.
        openssl verify -CAfile ca.pem server.pem client.pem && cat server-key.pem server.pem >server-both.pem
    ) >"$STATE/certs.log" 2>&1 || {
        cat "$STATE/certs.log" >&2
        die "openssl failed"
    }
}

# Creates etcd-auth's users and turns authentication on.
make_users() {
    local etcdctl=(client etcd-auth etcdctl)
    case $("${etcdctl[@]}" --user=root:rootpw auth status 2>&1) in *'Status: true'*) return ;; esac
    # An interrupted run may have created some of these; without one, the next call fails.
    "${etcdctl[@]}" role add distlock || true
    "${etcdctl[@]}" role grant-permission distlock --prefix=true readwrite /distlock
    "${etcdctl[@]}" user add root:rootpw || true
    "${etcdctl[@]}" user grant-role root root
    "${etcdctl[@]}" user add app:apppw || true
    "${etcdctl[@]}" user grant-role app distlock
    "${etcdctl[@]}" auth enable
}

# psql SERVICE OPTION...: runs psql as the superuser.
psql() {
    client "$1" psql --no-psqlrc --quiet --tuples-only --no-align \
        --set=ON_ERROR_STOP=1 --username=postgres "${@:2}"
}

# has SERVICE DATABASE ROWS: succeeds if the query of these rows finds one.
has() { [ -n "$(psql "$1" --dbname="$2" --command="SELECT 1 FROM $3")" ]; }

# make_database SERVICE: creates what is missing of PostgreSQL's user and its database, because an
# interrupted run may have created only a part.
make_database() {
    has "$1" postgres "pg_roles WHERE rolname = 'app'" ||
        psql "$1" --command="CREATE ROLE app LOGIN PASSWORD 'apppw'"
    has "$1" postgres "pg_database WHERE datname = 'distlock'" ||
        psql "$1" --command="CREATE DATABASE distlock OWNER app"
    has "$1" distlock "pg_extension WHERE extname = 'pg_stat_statements'" ||
        psql "$1" --dbname=distlock --command="CREATE EXTENSION pg_stat_statements"
}

# ask_mysql SERVICE SQL: runs SQL as the superuser.
ask_mysql() {
    local program
    read -r -a program <<<"${MYSQL_CLIENT:-mariadb --skip-ssl}"
    client "$1" "${program[@]}" --user=root --password=root --execute="$2"
}

# make_schema SERVICE: creates MariaDB's user and its database.
make_schema() {
    ask_mysql "$1" "
        CREATE DATABASE IF NOT EXISTS distlock;
        CREATE USER IF NOT EXISTS app@'%' IDENTIFIED BY 'apppw';
        GRANT ALL ON distlock.* TO app@'%'"
}
