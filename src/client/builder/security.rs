//! Whom a client says that it is, and to whom.

use std::{io, path::Path};

use crate::{
    backend::{
        credentials::{self, Credentials},
        secret::Secret,
        source::{Origin, Source},
        tls::{Material, Tls},
    },
    client::builder::Builder,
    error::{Error, Result},
};

impl Builder {
    /// User and password: etcd's authentication, ZooKeeper's `digest` scheme or, after
    /// [`sasl`](Self::sasl), its SASL.
    ///
    /// Without TLS they are sent to loopback addresses only, as they could be read on the way:
    /// otherwise [`connect`](Self::connect) refuses them with [`Error::InvalidArgument`], before
    /// anything is sent. See [`allow_plaintext_credentials`](Self::allow_plaintext_credentials).
    ///
    /// On ZooKeeper every node is then created for this user alone, unless [`acl`](Self::acl) says
    /// otherwise. With `digest`, ZooKeeper takes any user with any password, and the password is a
    /// part of who one is: somebody with another one is [denied](Error::Denied) what this user has
    /// made.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Origin::Fixed(Credentials::new(user, password)));
        self
    }

    /// The same, with the password in a file, without the line break at its end. It is read anew
    /// when it changes: see [`credentials_from`](Self::credentials_from).
    pub fn password_file(mut self, user: impl Into<String>, path: impl AsRef<Path>) -> Self {
        let (user, path) = (user.into(), path.as_ref().to_owned());
        self.credentials = Some(Origin::changing(move || Credentials::read(&user, &path)));
        self
    }

    /// The same, asked of the program again and again, so that a password can be replaced while the
    /// client lives. The function is called on threads that also keep sessions alive: it has to
    /// return what the program knows already, at once. It is called when the client is made, and
    /// then at most once a second, when something is asked of the store. An error or a panic
    /// then leaves the last answer in place.
    ///
    /// # What a new password does
    ///
    /// **etcd**: the next request goes by a new connection that has the new password. If the server
    /// refuses it, requests go on by the old connection as long as that works, so that it does not
    /// matter whether the store or the program has it first. etcd ends the tokens of a user whose
    /// password changes; what is asked with such a one is asked again with the newest password. A
    /// lock that is held goes on, if the new password is there before its deadline.
    ///
    /// **ZooKeeper**: a session that is open stays who it is; the next session has the new
    /// password. With SASL, a session that has to reconnect after its password was taken away is
    /// lost. With `digest`, another password is another user: let [`acl`](Self::acl) name both.
    ///
    /// **PostgreSQL, MySQL**: an open connection stays who it is; the next one has the new
    /// password.
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

    /// Sends user and password without TLS to other hosts than this one, too. Everybody on the way
    /// can read them. In a URL: `?allow_plaintext_credentials=true`.
    pub fn allow_plaintext_credentials(mut self) -> Self {
        self.options.allow_plaintext_credentials = true;
        self
    }

    /// ZooKeeper's SASL instead of its `digest` scheme: user and password by the mechanism
    /// DIGEST-MD5, for servers whose JAAS configuration has a `DigestLoginModule`. The server
    /// checks the password, and the user is `sasl:user` in ACLs. In a URL: `?sasl=true`.
    ///
    /// [`connect`](Self::connect) fails with [`Error::InvalidArgument`] for another store, without
    /// [`credentials`](Self::credentials), or without the cargo feature `zookeeper-sasl`.
    pub fn sasl(mut self) -> Self {
        self.options.sasl = true;
        self
    }

    /// Who may do what with the nodes that this client makes on ZooKeeper, as ZooKeeper's own shell
    /// writes it: `scheme:id:rights` with commas in between; the rights are `cdrwa`. By default
    /// `auth::cdrwa` (all that this client is, by user or certificate) with
    /// [`credentials`](Self::credentials), and `world:anyone:cdrwa` without. In a URL: `?acl=…`.
    ///
    /// Locking needs `cdrw`; [operations] says what each right is for. ACLs are set when a node is
    /// made: those of directories that are there already stay.
    /// [`connect`](Self::connect) fails with [`Error::InvalidArgument`] for another store, and for
    /// what is not written so.
    ///
    /// ```
    /// // This user does all of it, and others may look.
    /// let builder = distlock::Client::builder("zks://h1")
    ///     .credentials("app", "s3cret")
    ///     .acl("auth::cdrwa,world:anyone:r");
    /// ```
    ///
    /// [operations]: https://github.com/distlock/distlock/blob/main/docs/operations.md#least-rights
    pub fn acl(mut self, acl: impl Into<String>) -> Self {
        self.acl = Some(Secret::new(acl.into()));
        self
    }

    /// Connects by TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Origin::Fixed(tls));
        self
    }

    /// The same, asked of the program again and again, so that certificates can be replaced while
    /// the client lives: [`Tls`] says what happens then. The function is called as that of
    /// [`credentials_from`](Self::credentials_from) is.
    pub fn tls_from(
        mut self,
        newest: impl Fn() -> io::Result<Tls> + Send + Sync + 'static,
    ) -> Self {
        self.tls = Some(Origin::changing(newest));
        self
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

/// Whether what is sent to these without TLS can be read by nobody else.
pub(super) fn stays_here(endpoints: &[String]) -> Result<()> {
    let Some(host) = endpoints.iter().find(|endpoint| !credentials::stays_here(endpoint)) else {
        return Ok(());
    };
    let reason = format!(
        "anybody on the way to {host} could read the password: use TLS (etcds://, zks://, \
         rediss://, sslmode=verify-full or Builder::tls), or allow it by \
         ?allow_plaintext_credentials=true in the URL or Builder::allow_plaintext_credentials"
    );
    Err(Error::invalid("credentials", reason))
}
