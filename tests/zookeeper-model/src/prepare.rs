//! Decides the changes of a write (`PrepRequestProcessor.pRequest2Txn`).

use std::collections::BTreeMap;

use crate::{
    acl::{self, Acl, Id},
    quota::Amount,
    requests::{Data, Write, code, kind},
    state::State,
    tree::{self, CONTAINER, Created, Persisted, Tree},
};

/// A change to be made.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create { kind: i32, created: Created },
    Delete { path: String },
    SetData { path: String, data: Data, version: i32 },
    SetAcl { path: String, acls: Vec<Acl>, version: i32 },
    Check,
}

/// The future state of a node.
#[derive(Clone, Debug)]
struct Record {
    stored: Persisted,
    children: usize,
    length: usize,
    acls: Vec<Acl>,
}

/// The session that makes the request, and its users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) session: i64,
    pub(crate) users: &'a [Id],
}

/// The nodes after the earlier operations of a transaction.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    tree: &'a Tree,
    enforces_quotas: bool,
    /// `None` for deleted nodes.
    records: BTreeMap<String, Option<Record>>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        let enforces_quotas = state.enforces_quotas;
        Self { tree: &state.tree, enforces_quotas, records: BTreeMap::new() }
    }

    fn get(&self, path: &str) -> Result<Record, i32> {
        if let Some(planned) = self.records.get(path) {
            return planned.clone().ok_or(code::NO_NODE);
        }
        let node = self.tree.get(path).ok_or(code::NO_NODE)?;
        let (stored, acls) = (node.stored, node.acls.clone());
        Ok(Record { stored, children: node.children.len(), length: node.length(), acls })
    }

    fn check_quota(&self, path: &str, more: Amount) -> Result<(), i32> {
        let admits = !self.enforces_quotas || self.tree.admits(path, more);
        admits.then_some(()).ok_or(code::QUOTA_EXCEEDED)
    }

    fn set(&mut self, path: &str, record: Option<Record>) {
        self.records.insert(path.to_owned(), record);
    }

    /// Adds an operation; returns its change, or the error.
    pub(crate) fn add(&mut self, asker: Asker<'_>, write: &Write) -> Result<Change, i32> {
        let users = asker.users;
        match write {
            Write::Ttl => Err(code::UNIMPLEMENTED),
            Write::Create { kind, path, data, acls, flags } => {
                let mode = Mode::of(*flags)?;
                self.create(asker, *kind, mode, path, data, acls)
            }
            Write::Delete { path, version } => {
                if !path.contains('/') || path.contains('\0') || Tree::is_special(path) {
                    return Err(code::BAD_ARGUMENTS);
                }
                let parent = tree::split(path).0;
                let mut above = self.get(parent)?;
                acl::check(&above.acls, acl::DELETE, users)?;
                let node = self.get(path)?;
                next_version(node.stored.version, *version)?;
                if node.children > 0 {
                    return Err(code::NOT_EMPTY);
                }
                above.children = above.children.saturating_sub(1);
                self.set(parent, Some(above));
                self.set(path, None);
                Ok(Change::Delete { path: path.clone() })
            }
            Write::SetData { path, data, version } => {
                validate(path)?;
                let mut node = self.get(path)?;
                acl::check(&node.acls, acl::WRITE, users)?;
                let length = data.as_ref().map_or(0, Vec::len);
                self.check_quota(path, Amount::difference(node.length, length))?;
                let version = next_version(node.stored.version, *version)?;
                (node.stored.version, node.length) = (version, length);
                self.set(path, Some(node));
                Ok(Change::SetData { path: path.clone(), data: data.clone(), version })
            }
            Write::SetAcl { path, acls, version } => {
                validate(path)?;
                let acls = acl::granted(acls, users)?;
                let node = self.get(path)?;
                acl::check(&node.acls, acl::ADMIN, users)?;
                let version = next_version(node.stored.aversion, *version)?;
                Ok(Change::SetAcl { path: path.clone(), acls, version })
            }
            Write::Check { path, version } => {
                validate(path)?;
                let node = self.get(path)?;
                acl::check(&node.acls, acl::READ, users)?;
                next_version(node.stored.version, *version).map(|_| Change::Check)
            }
        }
    }

    fn create(
        &mut self,
        asker: Asker<'_>,
        kind: i32,
        mode: Mode,
        path: &str,
        data: &Data,
        acls: &[Acl],
    ) -> Result<Change, i32> {
        if !path.contains('/') || path.contains('\0') {
            return Err(code::BAD_ARGUMENTS);
        }
        let acls = acl::granted(acls, asker.users)?;
        let parent = tree::split(path).0;
        let mut above = self.get(parent)?;
        acl::check(&above.acls, acl::CREATE, asker.users)?;
        let count = above.stored.cversion;
        let path = match mode {
            // At least 10 characters, including a sign.
            Mode::Sequential | Mode::EphemeralSequential => format!("{path}{count:010}"),
            _ => path.to_owned(),
        };
        validate(&path)?;
        if self.get(&path).is_ok() {
            return Err(code::NODE_EXISTS);
        }
        if above.stored.owner != 0 && above.stored.owner != CONTAINER {
            return Err(code::NO_CHILDREN_FOR_EPHEMERALS);
        }
        let length = data.as_ref().map_or(0, Vec::len);
        self.check_quota(&path, Amount::of(length))?;
        let owner = match (kind, mode) {
            (kind::CREATE_CONTAINER, _) => CONTAINER,
            (_, Mode::Ephemeral | Mode::EphemeralSequential) => asker.session,
            _ => 0,
        };
        let cversion = count.wrapping_add(1);
        above.stored.cversion = cversion;
        above.children += 1;
        self.set(parent, Some(above));
        let stored = Persisted { owner, ..Persisted::default() };
        self.set(&path, Some(Record { stored, children: 0, length, acls: acls.clone() }));
        let created = Created { path, data: data.clone(), acls, owner, cversion };
        Ok(Change::Create { kind, created })
    }
}

/// `CreateMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Persistent,
    Ephemeral,
    Sequential,
    EphemeralSequential,
    Container,
}

impl Mode {
    fn of(flags: i32) -> Result<Self, i32> {
        Ok(match flags {
            0 => Self::Persistent,
            1 => Self::Ephemeral,
            2 => Self::Sequential,
            3 => Self::EphemeralSequential,
            4 => Self::Container,
            // Nodes with a TTL need a server with extended types.
            5 | 6 => return Err(code::UNIMPLEMENTED),
            _ => return Err(code::BAD_ARGUMENTS),
        })
    }
}

/// -1 matches any version.
fn next_version(current: i32, expected: i32) -> Result<i32, i32> {
    if expected != -1 && expected != current {
        return Err(code::BAD_VERSION);
    }
    Ok(match current.wrapping_add(1) {
        -1 => 0,
        next => next,
    })
}

/// `PathUtils.validatePath`.
fn validate(path: &str) -> Result<(), i32> {
    let is_bad = |name: &str| {
        let bad = |c: char| {
            matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}')
                || matches!(c, '\u{fff0}'..='\u{ffff}')
                // Java's characters are UTF-16 units; above this they are surrogate pairs, which
                // are refused.
                || c > '\u{ffff}'
        };
        name.is_empty() || name == "." || name == ".." || name.contains(bad)
    };
    match path.strip_prefix('/') {
        Some("") => Ok(()),
        Some(names) if !names.split('/').any(is_bad) => Ok(()),
        _ => Err(code::BAD_ARGUMENTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_as_the_server_does() {
        for good in ["/", "/a", "/a/b.c", "/a/...", "/a/b..", "/ü"] {
            assert_eq!(validate(good), Ok(()), "{good}");
        }
        for bad in ["", "a", "/a/", "//a", "/a/./b", "/..", "/a\u{7f}", "/\u{1f512}"] {
            assert_eq!(validate(bad), Err(code::BAD_ARGUMENTS), "{bad}");
        }
    }

    #[test]
    fn node_versions_skip_minus_one() {
        assert_eq!(next_version(-2, -2), Ok(0));
        assert_eq!(next_version(i32::MAX, -1), Ok(i32::MIN));
        assert_eq!(next_version(3, 2), Err(code::BAD_VERSION));
    }
}
