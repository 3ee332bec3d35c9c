//! The credentials and the TLS of a client.

#[cfg(test)]
mod tests;

use std::{io, path::Path};

use crate::{
    backend::{
        credentials::{self, Credentials},
        secret::Secret,
        source::{Origin, Source},
        tls::{Material, Tls},
    },
    client::{builder::Builder, url::Scheme},
    error::{Error, Result},
};

impl Builder {
    /// Sets the user and the password.
    ///
    /// The client uses these credentials to log in to etcd, ZooKeeper, PostgreSQL, MySQL, Redis and
    /// Redlock servers. On ZooKeeper, the client uses the `digest` scheme or, after
    /// [`sasl`](Self::sasl), SASL.
    ///
    /// Without TLS, the client sends the credentials only within this machine: to loopback
    /// addresses and Unix sockets. With any other host in the URL, [`connect`](Self::connect) fails
    /// with [`Error::InvalidArgument`] before any request is sent. With any other host that a
    /// sentinel or a server of a Redis cluster names, it fails with [`Error::Denied`]. See
    /// [`allow_plaintext_credentials`](Self::allow_plaintext_credentials). The check of the URL
    /// does not apply to an empty password, which is for users that need no password.
    ///
    /// On ZooKeeper, other users have no access to the nodes that the client creates, unless they
    /// use the same client certificate or [`acl`](Self::acl) sets another ACL. The `digest` scheme
    /// accepts any user with any password, and the password is part of the identity. A client with
    /// another password is therefore [denied](Error::Denied) access to these nodes.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Origin::Fixed(Credentials::new(user, password)));
        self
    }

    /// Sets the user, and reads the password from a file.
    ///
    /// A line break at the end of the file is not part of the password. An open client
    /// rereads the file: see [`credentials_from`](Self::credentials_from).
    pub fn password_file(mut self, user: impl Into<String>, path: impl AsRef<Path>) -> Self {
        let (user, path) = (user.into(), path.as_ref().to_owned());
        self.credentials = Some(Origin::changing(move || Credentials::read(&user, &path)));
        self
    }

    /// Sets a function that returns the current user and password.
    ///
    /// With this function, a password can be replaced while the client is running. The function is
    /// called when the client is created. Later, it is called before requests on etcd, before new
    /// sessions on ZooKeeper, and before new connections on the other stores, but at most once a
    /// second. Except on ZooKeeper, and on etcd while an older connection works, this limit does
    /// not apply to the first call after a server has rejected the credentials. The function runs
    /// on threads that also keep sessions alive, so it must return at once, with credentials that
    /// the program already has. If a later call fails or panics, the client keeps the previous
    /// credentials.
    ///
    /// # What a new password does
    ///
    /// **etcd**: The first request that is sent a second or more after the change opens a new
    /// connection with the new password. If the server rejects the password, requests continue on
    /// the old connection as long as it works, and the client tries the newest password at most
    /// once a second. The store and the program may therefore receive the new password in either
    /// order. When a password changes, etcd revokes the user's tokens; the client repeats the
    /// affected requests with the newest password. Until the program has the new password, calls
    /// fail with [`Error::Denied`]. A held lock stays held if the client receives the new password
    /// before the lock's deadline.
    ///
    /// **ZooKeeper**: An open session keeps its identity, and the next session uses the new
    /// password. With SASL, a session that has to reconnect after its password was revoked is lost.
    /// With `digest`, a new password makes a new identity, so name both identities in
    /// [`acl`](Self::acl).
    ///
    /// **PostgreSQL, MySQL, Redis, Redlock**: An open connection keeps its identity, and the next
    /// connection uses the new password.
    ///
    /// ```
    /// # use std::sync::{Arc, RwLock};
    /// let password = Arc::new(RwLock::new(String::from("first"))); // what Vault said last
    /// let newest = Arc::clone(&password);
    /// let builder = distlock::Client::builder("etcds://h1:2379").credentials_from(move || {
    ///     let password = newest.read().map_err(|_| std::io::Error::other("no password"))?;
    ///     Ok(distlock::Credentials::new("app", password.as_str()))
    /// });
    /// ```
    pub fn credentials_from(
        mut self,
        newest: impl Fn() -> io::Result<Credentials> + Send + Sync + 'static,
    ) -> Self {
        self.credentials = Some(Origin::changing(newest));
        self
    }

    /// Allows the client to send the user and password to other hosts without TLS.
    ///
    /// Every device on the network path may then read the password, or a value derived from it.
    /// etcd, Redis, Redlock and ZooKeeper's `digest` scheme receive the password itself. In a URL:
    /// `?allow_plaintext_credentials=true`.
    pub fn allow_plaintext_credentials(mut self) -> Self {
        self.options.allow_plaintext_credentials = true;
        self
    }

    /// Uses SASL on ZooKeeper instead of its `digest` scheme.
    ///
    /// The mechanism is DIGEST-MD5. The JAAS configuration of the servers must contain a
    /// `DigestLoginModule`. The server checks the password, and ACLs name the user as `sasl:user`.
    /// In a URL: `?sasl=true`.
    ///
    /// [`connect`](Self::connect) fails with [`Error::InvalidArgument`] on another store, without
    /// [`credentials`](Self::credentials), or without the cargo feature `zookeeper-sasl`.
    pub fn sasl(mut self) -> Self {
        self.options.sasl = true;
        self
    }

    /// Sets the ACL of the nodes that this client creates on ZooKeeper.
    ///
    /// The syntax is the same as in ZooKeeper's shell: `scheme:id:rights`, separated by commas,
    /// with rights from `cdrwa`. With [`credentials`](Self::credentials), the default is
    /// `auth::cdrwa`, which grants all rights to every identity of this client: its user and its
    /// certificate. Without credentials, it is `world:anyone:cdrwa`. In a URL: `?acl=…`.
    ///
    /// `cdrw` is sufficient: [Least rights][least-rights] lists the purpose of each right. A node
    /// receives its ACL when it is created, so existing directories keep their ACLs.
    /// [`connect`](Self::connect) fails with [`Error::InvalidArgument`] on another store, and if
    /// the syntax of the ACL is invalid.
    ///
    /// ```
    /// // This user has all rights, and everyone else can read.
    /// let builder = distlock::Client::builder("zks://h1")
    ///     .credentials("app", "s3cret")
    ///     .acl("auth::cdrwa,world:anyone:r");
    /// ```
    ///
    /// [least-rights]: https://github.com/distlock/distlock/blob/main/docs/ops/security.md#least-rights
    pub fn acl(mut self, acl: impl Into<String>) -> Self {
        self.acl = Some(Secret::new(acl.into()));
        self
    }

    /// Connects over TLS.
    ///
    /// [`connect`](Self::connect) fails with [`Error::InvalidArgument`] if the program is built
    /// without the cargo feature for TLS: `zookeeper-tls` for ZooKeeper, and `tls` or `tls-ring`
    /// for the other stores. `connect` also fails if no CA is given and the system has no root
    /// certificates.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Origin::Fixed(tls));
        self
    }

    /// Connects over TLS, and sets a function that returns the current certificates.
    ///
    /// With this function, certificates can be replaced while the client is running. The function
    /// is called when the client is created, and whenever the client would reread files: see
    /// [`Tls`]. The function must return at once, as described in
    /// [`credentials_from`](Self::credentials_from). If a later call fails or panics, the client
    /// keeps the previous certificates.
    pub fn tls_from(
        mut self,
        newest: impl Fn() -> io::Result<Tls> + Send + Sync + 'static,
    ) -> Self {
        self.tls = Some(Origin::changing(newest));
        self
    }
}

/// Checks that the cargo features for TLS on this store are on.
pub(super) fn is_compiled_in(scheme: Scheme) -> Result<()> {
    let needed = match scheme {
        Scheme::Memory | Scheme::Sqlite => return Ok(()),
        Scheme::ZooKeeper if cfg!(feature = "zookeeper-tls") => return Ok(()),
        Scheme::ZooKeeper => "needs the feature `zookeeper-tls`: add it to distlock in Cargo.toml",
        _ if cfg!(any(feature = "tls", feature = "tls-ring")) => return Ok(()),
        _ => "needs the feature `tls` or `tls-ring`: add one of them to distlock in Cargo.toml",
    };
    Err(Error::invalid("tls", needed))
}

/// Returns `true` unless it is certain that there is no password to protect.
pub(super) fn has_password(credentials: &Origin<Credentials>) -> bool {
    match credentials {
        Origin::Fixed(credentials) => !credentials.password.expose().is_empty(),
        Origin::Changing(_) => true,
    }
}

pub(super) fn open_credentials(origin: Origin<Credentials>) -> Result<Source<Credentials>> {
    let checked = |credentials: Credentials| match credentials.check() {
        Ok(()) => Ok(credentials),
        Err(reason) => Err(io::Error::new(io::ErrorKind::InvalidInput, reason)),
    };
    let opened = match origin {
        Origin::Fixed(credentials) => checked(credentials).map(Origin::Fixed),
        Origin::Changing(read) => Ok(Origin::changing(move || checked(read()?))),
    };
    opened.and_then(Source::open).map_err(|error| Error::invalid("credentials", error.to_string()))
}

pub(super) fn open_tls(origin: Origin<Tls>) -> Result<Source<Material>> {
    let opened = match origin {
        Origin::Fixed(tls) if tls.has_files() => Ok(Origin::changing(move || tls.read())),
        Origin::Fixed(tls) => tls.read().map(Origin::Fixed),
        Origin::Changing(newest) => Ok(Origin::changing(move || newest()?.read())),
    };
    opened.and_then(Source::open).map_err(|error| Error::invalid("tls", error.to_string()))
}

/// Checks that what is sent to these endpoints without TLS stays on this machine.
pub(super) fn stays_here(endpoints: &[String]) -> Result<()> {
    let Some(host) = endpoints.iter().find(|endpoint| !credentials::stays_here(endpoint)) else {
        return Ok(());
    };
    let reason = format!(
        "the password, or a value derived from it, would be sent to {host} without TLS. Use TLS \
         (etcds://, zks://, rediss://, rediss+sentinel://, redlocks://, sslmode=verify-full or \
         Builder::tls). To allow plaintext instead, set ?allow_plaintext_credentials=true in the \
         URL, or call Builder::allow_plaintext_credentials"
    );
    Err(Error::invalid("credentials", reason))
}
