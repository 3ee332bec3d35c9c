//! Access rights (`DigestAuthenticationProvider`, `ZooKeeperServer.checkACL`, `fixupACL`).

use crate::{
    jute::{Malformed, Reader, Writer},
    requests::code,
};

pub(crate) const READ: i32 = 1;
pub(crate) const WRITE: i32 = 2;
pub(crate) const CREATE: i32 = 4;
pub(crate) const DELETE: i32 = 8;
pub(crate) const ADMIN: i32 = 16;
const ALL: i32 = 31;

/// A user, identified by a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) scheme: String,
    pub(crate) id: String,
}

impl Id {
    fn new(scheme: &str, id: &str) -> Self {
        Self { scheme: scheme.to_owned(), id: id.to_owned() }
    }

    fn is_anyone(&self) -> bool {
        self.scheme == "world" && self.id == "anyone"
    }

    /// Returns the user of these credentials; `None` if the server does not know the scheme.
    pub(crate) fn of(scheme: &str, credentials: &[u8]) -> Option<Self> {
        let credentials = String::from_utf8_lossy(credentials);
        let user = credentials.split(':').next().unwrap_or_default();
        let digest = sha1_smol::Sha1::from(credentials.as_bytes()).digest().bytes();
        (scheme == "digest").then(|| Self::new("digest", &format!("{user}:{}", base64(&digest))))
    }
}

/// The rights of a user on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl {
    pub(crate) rights: i32,
    pub(crate) id: Id,
}

impl Acl {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let rights = from.int()?;
        Ok(Self { rights, id: Id { scheme: from.text()?, id: from.text()? } })
    }

    pub(crate) fn write(&self, into: &mut Writer) {
        into.int(self.rights).text(&self.id.scheme).text(&self.id.id);
    }
}

/// Returns rights that allow everything to every user.
pub(crate) fn open() -> Vec<Acl> {
    vec![Acl { rights: ALL, id: Id::new("world", "anyone") }]
}

/// Returns rights that allow every user to read.
pub(crate) fn read_only() -> Vec<Acl> {
    vec![Acl { rights: READ, id: Id::new("world", "anyone") }]
}

/// Returns `true` if one of these users has one of the rights.
pub(crate) fn permits(acls: &[Acl], rights: i32, users: &[Id]) -> bool {
    let admits =
        |acl: &Acl| acl.rights & rights != 0 && (acl.id.is_anyone() || users.contains(&acl.id));
    acls.is_empty() || acls.iter().any(admits)
}

/// Refuses users without any of the rights.
pub(crate) fn check(acls: &[Acl], rights: i32, users: &[Id]) -> Result<(), i32> {
    permits(acls, rights, users).then_some(()).ok_or(code::NO_AUTH)
}

/// Returns the rights of a new node: `auth` is replaced by the users of the connection.
pub(crate) fn granted(acls: &[Acl], users: &[Id]) -> Result<Vec<Acl>, i32> {
    let mut granted = Vec::new();
    let mut seen: Vec<&Acl> = Vec::new();
    for acl in acls {
        if seen.contains(&acl) {
            continue;
        }
        seen.push(acl);
        match acl.id.scheme.as_str() {
            "world" if acl.id.is_anyone() => granted.push(acl.clone()),
            "auth" if users.is_empty() => return Err(code::INVALID_ACL),
            "auth" => {
                let each = users.iter().map(|user| Acl { rights: acl.rights, id: user.clone() });
                granted.extend(each);
            }
            "digest" if acl.id.id.matches(':').count() == 1 => granted.push(acl.clone()),
            _ => return Err(code::INVALID_ACL),
        }
    }
    if granted.is_empty() { Err(code::INVALID_ACL) } else { Ok(granted) }
}

/// Hides digests from users who may read a node's rights but not change them.
pub(crate) fn veiled(acls: &[Acl]) -> Vec<Acl> {
    let veil = |acl: &Acl| {
        let mut acl = acl.clone();
        if acl.id.scheme == "digest" {
            let user = acl.id.id.split(':').next().unwrap_or_default();
            acl.id.id = format!("{user}:x");
        }
        acl
    };
    acls.iter().map(veil).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example from ZooKeeper's documentation.
    #[test]
    fn digest_is_that_of_the_server() {
        let user = Id::of("digest", b"super:test").unwrap();
        assert_eq!(user.id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        assert_eq!(Id::of("riddle", b"super:test"), None);
    }

    #[test]
    fn rights_are_expanded_and_checked() {
        let user = Id::of("digest", b"app:apppw").unwrap();
        let own =
            granted(&[Acl { rights: ALL, id: Id::new("auth", "") }], std::slice::from_ref(&user));
        let own = own.unwrap();
        assert_eq!(own[0].id, user);
        assert!(permits(&own, READ, &[user]) && !permits(&own, READ, &[]));
        assert_eq!(veiled(&own)[0].id.id, "app:x");
        assert_eq!(granted(&[], &[]), Err(code::INVALID_ACL));
        assert_eq!(granted(&own, &[]), Ok(own.clone()));
        let colons = [Acl { rights: ALL, id: Id::new("digest", "a:b:c") }];
        assert_eq!(granted(&colons, &[]), Err(code::INVALID_ACL));
    }
}
