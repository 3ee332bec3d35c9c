//! The kinds of requests, and the codes of errors.

use crate::{
    acl::Acl,
    jute::{Malformed, Reader},
};

/// `ZooDefs.OpCode`.
pub(crate) mod kind {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_ACL: i32 = 6;
    pub(crate) const SET_ACL: i32 = 7;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN2: i32 = 12;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE2: i32 = 15;
    pub(crate) const CHECK_WATCHES: i32 = 17;
    pub(crate) const REMOVE_WATCHES: i32 = 18;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const CREATE_TTL: i32 = 21;
    pub(crate) const MULTI_READ: i32 = 22;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SET_WATCHES: i32 = 101;
    pub(crate) const GET_EPHEMERALS: i32 = 103;
    pub(crate) const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub(crate) const SET_WATCHES2: i32 = 105;
    pub(crate) const ADD_WATCH: i32 = 106;
    pub(crate) const CLOSE_SESSION: i32 = -11;
    pub(crate) const ERROR: i32 = -1;
}

/// `KeeperException.Code`.
pub(crate) mod code {
    pub(crate) const RUNTIME_INCONSISTENCY: i32 = -2;
    pub(crate) const MARSHALLING_ERROR: i32 = -5;
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const BAD_ARGUMENTS: i32 = -8;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const BAD_VERSION: i32 = -103;
    pub(crate) const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const NOT_EMPTY: i32 = -111;
    pub(crate) const INVALID_ACL: i32 = -114;
    pub(crate) const AUTH_FAILED: i32 = -115;
    pub(crate) const NO_WATCHER: i32 = -121;
    pub(crate) const QUOTA_EXCEEDED: i32 = -125;
}

/// The data of a node: `None` differs from no bytes.
pub(crate) type Data = Option<Vec<u8>>;

/// An operation that is a transaction, or a part of one.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Create {
        kind: i32,
        path: String,
        data: Data,
        acls: Vec<Acl>,
        flags: i32,
    },
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Data,
        version: i32,
    },
    SetAcl {
        path: String,
        acls: Vec<Acl>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
    /// A node with a TTL, which is refused without extended types.
    Ttl,
}

impl Write {
    /// Reads an operation of this kind; returns `None` if the kind is no write.
    pub(crate) fn read(kind: i32, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match kind {
            kind::CREATE | kind::CREATE2 | kind::CREATE_CONTAINER => Self::Create {
                kind,
                path: from.text()?,
                data: from.buffer()?,
                acls: from.list(Acl::read)?,
                flags: from.int()?,
            },
            kind::CREATE_TTL => {
                from.text()?;
                from.buffer()?;
                from.list(Acl::read)?;
                from.int()?;
                from.long()?;
                Self::Ttl
            }
            kind::DELETE => Self::Delete { path: from.text()?, version: from.int()? },
            kind::SET_DATA => {
                Self::SetData { path: from.text()?, data: from.buffer()?, version: from.int()? }
            }
            kind::SET_ACL => Self::SetAcl {
                path: from.text()?,
                acls: from.list(Acl::read)?,
                version: from.int()?,
            },
            kind::CHECK => Self::Check { path: from.text()?, version: from.int()? },
            _ => return Ok(None),
        }))
    }
}
