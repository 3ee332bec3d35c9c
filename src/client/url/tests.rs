use std::time::Duration;

use super::{redacted::LONGEST, *};

#[test]
fn endpoints_get_their_ports() {
    let url = Url::parse("etcd://a, b:1,[::1],[::1]:5").unwrap();
    assert_eq!(url.scheme, Scheme::Etcd);
    assert_eq!(url.endpoints, ["a:2379", "b:1", "[::1]:2379", "[::1]:5"]);
    assert_eq!(Url::parse("zk://h/").unwrap().endpoints, ["h:2181"]);
    assert_eq!(Url::parse("zks://h").unwrap().endpoints, ["h:2281"]);
    let url = Url::parse("redlocks://a,b:1,c?ca_file=/c").unwrap();
    assert_eq!((url.scheme, url.tls.is_some()), (Scheme::Redlock, true));
    assert_eq!(url.endpoints, ["a:6379", "b:1", "c:6379"]);
    let url = Url::parse("redlock://a,b,c?longest_ttl=90s").unwrap();
    assert_eq!(url.options.longest_ttl, Some(Duration::from_secs(90)));
    assert_eq!(Url::parse("memory://").unwrap().endpoints, [""]);
}

#[test]
fn all_url_options_are_parsed() {
    let url = "etcds://app:p%40ss%2F%3A@h1,h2:2/prod/locks?session_ttl=15s&owner=a%20b";
    let url = Url::parse(url).unwrap();
    assert!(url.tls.is_some());
    let Some(Origin::Fixed(credentials)) = url.credentials else { panic!("no credentials") };
    assert_eq!((&*credentials.user, &**credentials.password.expose()), ("app", "p@ss/:"));
    assert_eq!(url.endpoints, ["h1:2379", "h2:2"]);
    assert_eq!(url.namespace.as_deref(), Some("/prod/locks"));
    assert_eq!(url.options.ttl, Some(Duration::from_secs(15)));
    assert_eq!(url.options.owner.as_deref(), Some("a b"));
    let url = Url::parse("memory://a/b?session_ttl=1s").unwrap();
    assert_eq!((url.endpoints, url.namespace), (vec!["a/b".to_owned()], None));
}

#[test]
fn database_precedes_namespace_in_url() {
    let read = |url: &str| {
        let url = Url::parse(url).unwrap();
        assert_eq!(url.scheme, Scheme::Postgres);
        (url.database, url.namespace, url.tls.is_some())
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(read("postgres://h"), (None, None, false));
    assert_eq!(read("postgresql://u:p@h1,h2:1/"), (None, None, false));
    assert_eq!(read("postgres://h/a%20b?sslmode=disable"), (text("a b"), None, false));
    let secure = "postgres://h/db/app/locks?sslmode=verify-full&ca_file=/c";
    assert_eq!(read(secure), (text("db"), text("/app/locks"), true));
    assert_eq!(read("postgres://h//locks"), (None, text("/locks"), false));
    assert_eq!(Url::parse("postgres://a,b:1").unwrap().endpoints, ["a:5432", "b:1"]);
    let mysql = Url::parse("mysql://a,b:1/db/locks?sslmode=verify-full").unwrap();
    assert_eq!((mysql.scheme, mysql.tls.is_some()), (Scheme::Mysql, true));
    assert_eq!(mysql.endpoints, ["a:3306", "b:1"]);
    assert_eq!((mysql.database, mysql.namespace), (text("db"), text("/locks")));
}

#[test]
fn database_url_is_accepted_unchanged() {
    let read = |url: &str| Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    let managed = read(
        "postgresql://app:pw@db.example.org:5432/app?sslmode=require&sslrootcert=system\
         &connect_timeout=10",
    );
    assert!(managed.tls.is_some() && managed.credentials.is_some());
    assert_eq!(managed.options.connect_timeout, Some(Duration::from_secs(10)));
    // As with libpq, this implies TLS.
    assert!(read("postgres://app@h/app?sslrootcert=system").tls.is_some());
    for url in [
        "postgres://app@%2Fvar%2Frun%2Fpostgresql:6432/app",
        "postgres://app@/app?host=/var/run/postgresql:6432",
        "postgres://app@/app?host=%2Fvar%2Frun%2Fpostgresql:6432",
    ] {
        let url = read(url);
        assert_eq!(url.endpoints, ["/var/run/postgresql:6432"]);
        assert_eq!(url.database.as_deref(), Some("app"));
        assert!(url.credentials.is_some() && url.tls.is_none());
    }
    assert_eq!(read("postgres:///app?host=h1,h2:1").endpoints, ["h1:5432", "h2:1"]);
    assert!(read("postgres://app@h:6432/app?pgbouncer=true").options.pooled);
    assert!(!read("postgres://app@h:6432/app?pooler=session").options.pooled);
    // An unknown option is named.
    let error = Url::parse("postgres://h/app?channel_binding=require").unwrap_err().to_string();
    assert!(error.contains("channel_binding"), "{error}");
    for name in ["sslrootcert", "sslcert", "sslkey", "pgbouncer"] {
        assert!(error.contains(name), "{name} is not listed: {error}");
    }
}

#[test]
fn a_database_of_redis_has_a_number() {
    let read = |url: &str| {
        let url = Url::parse(url).unwrap();
        assert_eq!(url.scheme, Scheme::Redis);
        let user = url.credentials.map(|origin| match origin {
            Origin::Fixed(credentials) => credentials.user,
            Origin::Changing(_) => panic!("fixed"),
        });
        (url.endpoints.join(","), url.database, url.namespace, url.tls.is_some(), user)
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(read("redis://h"), ("h:6379".to_owned(), None, None, false, None));
    assert_eq!(
        read("rediss://u:p@a,b:1/15/app/locks?ca_file=/c"),
        ("a:6379,b:1".to_owned(), text("15"), text("/app/locks"), true, text("u"))
    );
    assert_eq!(
        read("redis://:p@h//locks?allow_eviction=true"),
        ("h:6379".to_owned(), None, text("/locks"), false, text("default"))
    );
}

#[test]
fn sentinel_url_names_its_primary() {
    let read = |url: &str| {
        let url = Url::parse(url).unwrap();
        assert_eq!(url.scheme, Scheme::Redis);
        let Url { endpoints, service, database, namespace, tls, options, .. } = url;
        (endpoints.join(","), service, database, namespace, tls.is_some(), options.replicas)
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        read("redis+sentinel://a,b:1/mymaster"),
        ("a:26379,b:1".to_owned(), text("mymaster"), None, None, false, None)
    );
    assert_eq!(
        read("rediss+sentinel://u:p@a/m-1.x/app/locks?db=3&replicas=2&ca_file=/c"),
        ("a:26379".to_owned(), text("m-1.x"), text("3"), text("/app/locks"), true, Some(2))
    );
    assert_eq!(read("redis://a?replicas=32").5, Some(32));
}

#[test]
fn a_file_is_named_by_its_path() {
    let read = |url: &str| {
        let url = Url::parse(url).unwrap();
        assert_eq!(url.scheme, Scheme::Sqlite);
        (url.endpoints.concat(), url.namespace, url.options.ttl)
    };
    assert_eq!(read("sqlite:///run/a/locks.db"), ("/run/a/locks.db".to_owned(), None, None));
    assert_eq!(read("sqlite://a%20b/%40%3a%3F%23").0, "a b/@:?#");
    let (_, namespace, ttl) = read("sqlite://a?namespace=/app/locks&session_ttl=3s");
    assert_eq!(namespace.as_deref(), Some("/app/locks"));
    assert_eq!(ttl, Some(Duration::from_secs(3)));
}

#[test]
fn url_names_files_of_secrets() {
    let url = "zks://app@h?password_file=/a&ca_file=/b&cert_file=/c&key_file=/d&sasl=true\
               &allow_plaintext_credentials=true&acl=auth::cdrwa,world:anyone:r";
    let url = Url::parse(url).unwrap();
    assert!(matches!(url.credentials, Some(Origin::Changing(_))));
    assert!(url.tls.unwrap().has_files());
    assert!(url.options.sasl && url.options.allow_plaintext_credentials);
    assert_eq!(url.options.acl.as_deref(), Some("auth::cdrwa,world:anyone:r"));
}

#[test]
fn bad_urls_are_explained() {
    for bad in [
        "",
        "etcd",
        "etcd:",
        "nats://h",
        "etcd://",
        "etcd://a,,b",
        "etcd://:2379",
        "etcd://a:0",
        "etcd://a:x",
        "etcd://a:99999",
        "etcd://a b",
        "etcd://::1",
        "etcd://[::1",
        "etcd://[x]:1",
        "etcd://a:1:2",
        "etcd://user@a",
        "etcd://user:pass:word@a",
        "etcd://user:pass/word@a",
        "etcd://user:pass@word@a",
        "etcd://a#b",
        "etcd://a?tll=1s",
        "etcd://a?ttl",
        "etcd://a?session_ttl=1",
        "etcd://a?session_ttl=1s&session_ttl=2s",
        "etcd://user:pass@a?password_file=/b",
        "etcd://a?password_file=/b",
        "etcd://a?ca_file=/b",
        "etcds://a?cert_file=/b",
        "etcds://a?sasl=yes",
        "memory://a?ca_file=/b",
        "memory://a?b",
        "memory://a?sslmode=disable",
        "etcd://a?sslmode=disable",
        "postgres://a?sslmode=prefer",
        "mysql://a/b?sslmode=verify-ca",
        "postgres:///b",
        "postgres:///b?host=",
        "postgres://a/b?host=/tmp",
        "postgres://%2Ftmp:x/b",
        "mysql://%2Ftmp/b",
        "mysql:///b?host=/tmp",
        "postgres://a?ca_file=/b",
        "postgres://a?sslrootcert=/b",
        "postgres://a?sslrootcert=system&sslmode=disable",
        "postgres://a?sslrootcert=system&sslmode=prefer",
        "postgres://a?sslrootcert=system&ca_file=/b",
        "mysql://a/b?sslrootcert=system",
        "postgres://a/%ff",
        "postgres://a/b%00",
        "postgres://a?namespace=/b",
        "redis://h/locks",
        "redis://h/65536",
        "redis://h/-1/a",
        "redis://user@h",
        "redis://h?ca_file=/c",
        "redis://h?sslmode=verify-full",
        "redis://h?allow_eviction=yes",
        "etcd://h?allow_eviction=true",
        "memory://h?allow_eviction=true",
        "redis://h?bridge=redlock",
        "redis://h?bridge_prefix=a",
        "redlock://a,b,c?bridge=plain",
        "memory://h?bridge=plain",
        "redis://user:pass/word@h",
        "redis://h?replicas=0",
        "redis://h?replicas=33",
        "redis://h?replicas=two",
        "redis://h?replicas=-1",
        "redis://h?db=1",
        "redlock://h?replicas=1",
        "postgres://h/d?pooler=statement",
        "mysql://u:p@h/d?pooler=transaction",
        "redlock://a,b,c?longest_ttl=60",
        "redis://h?longest_ttl=60s",
        "memory://a?longest_ttl=60s",
        "sqlite:///a?replicas=1",
        "redis+sentinel://h",
        "redis+sentinel://h/",
        "redis+sentinel://h//locks",
        "redis+sentinel://h/a%20b",
        "redis+sentinel://h/a?db=x",
        "redis+sentinel://h/a?db=65536",
        "etcd+sentinel://h/a",
        "memory://a?namespace=/b",
        "sqlite://",
        "sqlite:///a/",
        "sqlite://:memory:",
        "sqlite://user:password@a",
        "sqlite://user@a",
        "sqlite://h:1/a",
        "sqlite://a#b",
        "sqlite://a%00",
        "sqlite://%ff",
        "sqlite://a?ca_file=/b",
        "sqlite://a?password_file=/b",
        "sqlite://a?sslmode=disable",
        "http://h",
    ] {
        assert!(matches!(Url::parse(bad), Err(Error::InvalidUrl { .. })), "{bad:?}");
    }
}

/// Tries all kinds of passwords in every place of a URL, well-formed or not.
#[test]
fn passwords_do_not_show() {
    let passwords = [
        "secret",
        "se/cret",
        "se@cret",
        "secret@",
        "se,cret",
        "cret,se",
        "se?cret",
        "se#cret",
        "se://cret",
        "se:cret",
        "se cret",
        "s%65cret",
        "[secret]",
        "etcd://secret",
        "secret/",
        "\u{e4}secret",
        "1234secret",
    ];
    for password in passwords {
        let long = "h".repeat(250);
        for url in [
            format!("root:{password}@h"),
            format!("root:{password}"),
            format!("root:{password}@h:2379,h2"),
            format!("h:2379,root:{password}@h2"),
            format!("root:{password}@"),
            format!("root:{password}@h@h"),
            format!(":{password}@h:1:2"),
            format!("{password}@h"),
            format!("{long},root:{password}@h"),
            format!("root:{password}{long}@h"),
            format!("h/?user=root&password={password}"),
            format!("h?password={password}"),
            format!("h:2379#password={password}"),
            format!("h:2379,[::1,root:{password}"),
        ] {
            for scheme in [
                "etcd://",
                "zk://",
                "zookeeper://",
                "memory://",
                "sqlite://",
                "redis://",
                "://",
                "",
                "etcd:/",
                "etcd:",
            ] {
                let (url, given) =
                    (format!("{scheme}{url}"), Given::new(&format!("{scheme}{url}")));
                // In all URLs, this is a host.
                if url.ends_with("@cret") {
                    continue;
                }
                let mut shown = format!("{given:?} {given:#?}");
                match given.parse() {
                    Err(error) => shown += &format!("{error} {error:?} {error:#?}"),
                    // A store without users: this is a name or a path.
                    Ok(parsed) if !parsed.scheme.is_remote() => {}
                    Ok(parsed) => shown += &format!("{parsed:?} {parsed:#?}"),
                }
                // No part of the password is shown, however the URL was parsed.
                assert!(!shown.contains("cret"), "{url}: {shown}");
            }
        }
    }
}

#[test]
fn non_password_parts_of_url_are_shown() {
    for (url, shown) in [
        ("etcd://h1:2379,h2", "etcd://h1:2379,h2"),
        ("redis://h", "redis://h"),
        ("redis+sentinel://h/mymaster", "redis+sentinel://h/***"),
        ("h:2379", "h:2379"),
        ("memory://tests/a", "memory://tests/a"),
        ("memory://root:pw@x", "memory://***"),
        ("sqlite:///a/b.db", "sqlite:///a/b.db"),
        ("sqlite://root:pw@x", "sqlite://***"),
        ("sqlite:///a/b.db?x=y", "sqlite://***"),
        ("zk://h:1/chroot", "zk://h:1/***"),
        ("etcd://h?x=y", "etcd://h?***"),
        ("etcd://a:1:2", "etcd://***"),
        ("etcd://root:pw@h:1", "etcd://***"),
        ("etcd://", "etcd://"),
        ("", ""),
    ] {
        assert_eq!(redacted(url), shown);
    }
    assert_eq!(redacted(&"h,".repeat(500)).len(), 3, "it ends with nothing");
    assert_eq!(redacted(&format!("etcd://{}", "h".repeat(500))).len(), LONGEST);
}

#[test]
fn mariadb_is_named_by_mysql_s_scheme() {
    let error = Given::new("mariadb://h/db").parse().unwrap_err().to_string();
    assert!(error.contains("mysql://"), "{error}");
}

#[test]
fn a_user_may_have_no_password() {
    for url in [
        "postgres://app@h/db",
        "postgres://app:@h/db",
        "mysql://app@h/db",
        "mysql://app:@h/db",
        "redis://app:@h",
        "redlock://app:@a,b,c",
    ] {
        let credentials = Url::parse(url).unwrap().credentials;
        let Some(Origin::Fixed(credentials)) = credentials else { panic!("{url}") };
        assert_eq!((&*credentials.user, &**credentials.password.expose()), ("app", ""), "{url}");
    }
    // It may be a password, which belongs behind a colon.
    let error = Url::parse("redis://app@h").unwrap_err().to_string();
    assert!(error.contains("user:@"), "{error}");
}
