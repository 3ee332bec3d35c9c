//! The nodes (`DataTree`, `DataNode`).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    acl::{self, Acl},
    jute::Writer,
    quota::Amount,
    requests::Data,
};

/// The owner of a container.
pub(crate) const CONTAINER: i64 = i64::MIN;

/// What the server stores of a node besides its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Persisted {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    /// The number of children that were ever created, as far as the counter goes.
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
    pub(crate) pzxid: i64,
}

/// The metadata that clients see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    stored: Persisted,
    length: usize,
    children: usize,
}

impl Stat {
    pub(crate) fn write(&self, into: &mut Writer) {
        let Self { stored, length, children } = self;
        let count = i32::try_from(*children).unwrap_or(i32::MAX);
        // A child that was created and does not exist was deleted, which is another change.
        let changes = stored.cversion.wrapping_mul(2).wrapping_sub(count);
        into.long(stored.czxid).long(stored.mzxid).long(stored.ctime).long(stored.mtime);
        into.int(stored.version).int(changes).int(stored.aversion);
        let owner = if stored.owner == CONTAINER { 0 } else { stored.owner };
        into.long(owner).count(*length).int(count).long(stored.pzxid);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) acls: Vec<Acl>,
    pub(crate) stored: Persisted,
    pub(crate) children: BTreeSet<String>,
}

impl Node {
    fn empty(acls: Vec<Acl>) -> Self {
        let data = Some(Vec::new());
        Self { data, acls, stored: Persisted::default(), children: BTreeSet::new() }
    }

    pub(crate) fn length(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat { stored: self.stored, length: self.length(), children: self.children.len() }
    }
}

/// A node to be created.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) path: String,
    pub(crate) data: Data,
    pub(crate) acls: Vec<Acl>,
    pub(crate) owner: i64,
    /// The parent's counter afterwards.
    pub(crate) cversion: i32,
}

/// Splits a path into its parent and its name. The root is always `/`.
pub(crate) fn split(path: &str) -> (&str, &str) {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    (if parent.is_empty() { "/" } else { parent }, name)
}

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    /// The nodes of each session.
    ephemerals: BTreeMap<i64, BTreeSet<String>>,
    containers: BTreeSet<String>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut nodes = BTreeMap::new();
        let own = [
            ("/", &["zookeeper"][..], acl::open()),
            ("/zookeeper", &["config", "quota"], acl::open()),
            ("/zookeeper/quota", &[], acl::open()),
            ("/zookeeper/config", &[], acl::read_only()),
        ];
        for (path, children, acls) in own {
            let mut node = Node::empty(acls);
            node.children = children.iter().map(|child| (*child).to_owned()).collect();
            nodes.insert(path.to_owned(), node);
        }
        if let Some(config) = nodes.get_mut("/zookeeper/config") {
            config.stored.aversion = -1;
        }
        Self { nodes, ephemerals: BTreeMap::new(), containers: BTreeSet::new() }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(if path.is_empty() { "/" } else { path })
    }

    /// Returns `true` for the server's own nodes, which cannot be deleted.
    pub(crate) fn is_special(path: &str) -> bool {
        ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"].contains(&path)
    }

    pub(crate) fn create(&mut self, created: &Created, zxid: i64, now: i64) {
        let (parent, name) = split(&created.path);
        let Some(above) = self.get_mut(parent) else { return };
        // A counter that has overflowed to negative numbers does not grow: it keeps its value.
        if created.cversion > above.stored.cversion {
            above.stored.cversion = created.cversion;
            above.stored.pzxid = zxid;
        }
        above.children.insert(name.to_owned());
        let mut node = Node::empty(created.acls.clone());
        node.data.clone_from(&created.data);
        node.stored = Persisted {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: now,
            mtime: now,
            owner: created.owner,
            ..Persisted::default()
        };
        match created.owner {
            0 => {}
            CONTAINER => _ = self.containers.insert(created.path.clone()),
            owner => {
                let own = self.ephemerals.entry(owner).or_default();
                own.insert(created.path.clone());
            }
        }
        self.nodes.insert(created.path.clone(), node);
        self.recount(&created.path);
        self.count(&created.path, Amount::of(created.data.as_ref().map_or(0, Vec::len)));
    }

    /// Deletes a node; returns it and its parent's rights.
    pub(crate) fn delete(&mut self, path: &str, zxid: i64) -> Option<(Node, Vec<Acl>)> {
        let node = self.nodes.remove(path)?;
        match node.stored.owner {
            0 => {}
            CONTAINER => _ = self.containers.remove(path),
            owner => {
                if let Some(own) = self.ephemerals.get_mut(&owner) {
                    own.remove(path);
                    if own.is_empty() {
                        self.ephemerals.remove(&owner);
                    }
                }
            }
        }
        let (parent, name) = split(path);
        let above = self.get_mut(parent)?;
        above.children.remove(name);
        above.stored.pzxid = above.stored.pzxid.max(zxid);
        let acls = above.acls.clone();
        self.count(path, Amount::of(node.length()).negated());
        Some((node, acls))
    }

    pub(crate) fn ephemerals_of(&self, session: i64) -> Vec<String> {
        self.ephemerals.get(&session).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn ephemerals(&self) -> &BTreeMap<i64, BTreeSet<String>> {
        &self.ephemerals
    }

    /// Returns the containers that had children and have none (`ContainerManager.getCandidates`).
    pub(crate) fn used_up(&self) -> Vec<String> {
        let is_used_up = |path: &&String| {
            self.nodes
                .get(*path)
                .is_some_and(|node| node.children.is_empty() && node.stored.cversion > 0)
        };
        self.containers.iter().filter(is_used_up).cloned().collect()
    }

    /// Returns the number of nodes below this one (`DataTree.getAllChildrenNumber`).
    pub(crate) fn below(&self, path: &str) -> usize {
        if path == "/" {
            return self.nodes.len() - 1;
        }
        let start = format!("{path}/");
        self.nodes.keys().filter(|path| path.starts_with(&start)).count()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
