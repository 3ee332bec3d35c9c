//! The only server of a store. Three proxies of it look like several servers to a client.

use std::net::SocketAddr;

use distlock_testkit::{framing::Framing, proxies::Proxies, servers::endpoints};

pub(crate) struct Single {
    /// The server, repeated as often as other stores have servers.
    servers: [SocketAddr; 3],
    /// The parts of the URL before and after the server.
    around: [String; 2],
}

impl Single {
    pub(crate) async fn new(server: &str, around: [&str; 2]) -> Self {
        let around = around.map(str::to_owned);
        Self { servers: [endpoints(server).await[0]; 3], around }
    }

    /// Parses a URL with a user.
    pub(crate) async fn of(url: &str) -> Self {
        let (before, server, after) = parts(url);
        Self::new(server, [before, after]).await
    }

    pub(crate) async fn proxies(&self, framing: Framing) -> Proxies {
        let around = self.around.each_ref().map(String::as_str);
        Proxies::between(around, framing, &self.servers).await
    }
}

/// Splits a URL into the parts before the server, the server, and the part after it.
fn parts(url: &str) -> (&str, &str, &str) {
    let (_, rest) = url.rsplit_once('@').expect("a user");
    let server = rest.split('/').next().expect("a server");
    let before = &url[..url.len() - rest.len()];
    (before, server, &rest[server.len()..])
}

/// The login data of a database connection.
pub(crate) struct Login<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) server: &'a str,
    pub(crate) database: &'a str,
}

impl<'a> Login<'a> {
    /// Parses a URL. `user` overrides its user and password.
    pub(crate) fn of(url: &'a str, user: Option<(&'a str, &'a str)>) -> Self {
        let (before, server, database) = parts(url);
        let (_, login) = before.split_once("://").expect("a scheme");
        let login = login.trim_end_matches('@').split_once(':').expect("user and password");
        let (user, password) = user.unwrap_or(login);
        // Several proxies lead to the same server.
        let server = server.split(',').next().expect("a server");
        let database = database.trim_start_matches('/');
        let database = database.split('?').next().expect("a database");
        Self { user, password, server, database }
    }
}
